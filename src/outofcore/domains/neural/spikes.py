"""Spike times of many neurons: one vector per neuron, or one vector with the neuron of each spike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.alignment import histogram, histogram_by
from outofcore.domains.neural.clocks import (
    BLOCK,
    INVALID,
    ClockFacts,
    ListedClock,
    Times,
    examine,
    locate,
    readable_times,
)
from outofcore.domains.neural.params import SourceSection, TimeUnit
from outofcore.domains.neural.recordings.arrays import Flat, Part, SlicedArray
from outofcore.domains.neural.recordings.entries import identify, readable, whole_numbers
from outofcore.domains.neural.recordings.recording import Recording, SessionError, find_vector, matching, missing

Ranges = npt.NDArray[np.int64]
"""Entries to read for a span of bins, [first, end): shape (vectors, 2)."""


@dataclass(frozen=True)
class Labels:
    """Owners of the spikes of a single vector."""

    known: npt.NDArray[np.int64]  # ascending; the first is neuron 0
    bounds: npt.NDArray[np.int64] | None  # (neurons, 2) first spike and end if spikes are sorted by neuron, else None
    unowned: int  # spikes whose label matches no neuron


class Spikes(Protocol):
    """Spikes of a session."""

    neurons: int
    labels: Labels | None  # set only for a single vector with labels

    def facts(self) -> list[ClockFacts]:
        """Result of a pass over each vector."""
        ...

    def locate(self, lows: Times, highs: Times) -> npt.NDArray[np.int64]:
        """Ranges of entries for several spans of time, shape (spans, vectors, 2)."""
        ...

    def count(self, ranges: Ranges, edges: Times) -> npt.NDArray[np.int64]:
        """Spikes per bin, shape (bins, neurons)."""
        ...


class Trains:
    """A vector of times per neuron."""

    def __init__(self, vectors: Sequence[SlicedArray], unit: TimeUnit, labels: Labels | None = None) -> None:
        self._clocks = [ListedClock(vector, unit) for vector in vectors]
        self.labels = labels
        self.neurons = len(vectors)

    def facts(self) -> list[ClockFacts]:
        """Result of a pass over each vector."""
        return [examine(clock) for clock in self._clocks]

    def locate(self, lows: Times, highs: Times) -> npt.NDArray[np.int64]:
        """Ranges of entries for each of several spans of time."""
        ranges = [np.stack(locate(clock, clock.count, lows, highs), axis=-1) for clock in self._clocks]
        return np.stack(ranges, axis=1)

    def count(self, ranges: Ranges, edges: Times) -> npt.NDArray[np.int64]:
        """Spikes in each bin."""
        counts = np.zeros((len(edges) - 1, self.neurons), np.int64)
        for neuron, (clock, (start, stop)) in enumerate(zip(self._clocks, ranges.tolist(), strict=True)):
            times = readable_times(clock, start, stop) if stop > start else np.empty(0, np.int64)
            counts[:, neuron] = histogram(times[times != INVALID], edges)
        return counts


class LabelledSpikes:
    """One ascending vector of times with the neuron of each, numbered in the order of their labels."""

    def __init__(self, times: SlicedArray, owners: SlicedArray, labels: Labels, unit: TimeUnit) -> None:
        self._clock = ListedClock(times, unit)
        self._owners = owners
        self.labels: Labels | None = labels
        self._known = labels.known
        self.neurons = len(labels.known)

    def facts(self) -> list[ClockFacts]:
        """Result of a pass over the vector."""
        return [examine(self._clock)]

    def locate(self, lows: Times, highs: Times) -> npt.NDArray[np.int64]:
        """Ranges of entries for each of several spans of time."""
        return np.stack(locate(self._clock, self._clock.count, lows, highs), axis=-1)[:, None]

    def count(self, ranges: Ranges, edges: Times) -> npt.NDArray[np.int64]:
        """Spikes in each bin."""
        start, stop = (int(place) for place in ranges[0])
        if stop <= start:
            return np.zeros((len(edges) - 1, self.neurons), np.int64)
        times = readable_times(self._clock, start, stop)
        owners, read = readable(self._owners, start, stop)
        numbers = _neurons(owners)
        owner = np.minimum(np.searchsorted(self._known, numbers), self.neurons - 1)
        counted = read & (times != INVALID) & (self._known[owner] == numbers)
        return histogram_by(times[counted], owner[counted], self.neurons, edges)


def find_spikes(recording: Recording, source: SourceSection, labels: Labels | None = None) -> Spikes:
    """The spikes that ``names.spike_times`` refers to; pass ``labels`` if already known.

    Raises SessionError if they are missing or inconsistent.
    """
    name = source.names.spike_times
    assert name is not None
    unit = recording.unit or source.spike_unit or source.time_unit
    if source.names.spike_neurons is not None:
        times = find_vector(recording, "spike_times", name)
        owners = find_vector(recording, "spike_neurons", source.names.spike_neurons)
        if times.shape != owners.shape:
            message = f"spike_times has {times.shape[0]} entries, spike_neurons {owners.shape[0]}"
            raise SessionError(message, reason="unequal_length")
        labels = labels or _labels(owners)
        if labels.bounds is None:
            return LabelledSpikes(times, owners, labels, unit)
        vectors: list[SlicedArray] = [Part(times, start, stop) for start, stop in labels.bounds.tolist()]
        return Trains(vectors, unit, labels)
    try:
        found = [recording.array(each) for each in matching(recording, name)] if "*" in name else recording.trains(name)
    except KeyError:
        found = []
    if not found:
        raise missing(recording, "spike_times", name)
    return Trains([_vector(array) for array in found], unit)


def _vector(array: SlicedArray) -> SlicedArray:
    """A train as a vector; MATLAB stores an empty one as 0 x 0 and others as columns."""
    if sum(size > 1 for size in array.shape) > 1:
        message = f"names.spike_times: expected a vector for each neuron, got shape {array.shape}"
        raise SessionError(message, reason="wrong_shape")
    return array if len(array.shape) == 1 else Flat(array)


def _labels(owners: SlicedArray) -> Labels:
    """Distinct non-negative labels, in one pass."""
    known = np.empty(0, np.int64)
    ordered, last, unowned = True, np.iinfo(np.int64).min, 0
    bounds: dict[int, list[int]] = {}
    for start in range(0, owners.shape[0], BLOCK):
        values, read = readable(owners, start, min(start + BLOCK, owners.shape[0]))
        numbers = _neurons(values)
        ordered &= bool(read.all() and numbers[0] >= last and (numbers[1:] >= numbers[:-1]).all())
        last = int(numbers[-1])
        unowned += int((~read | (numbers < 0)).sum())
        found, first, count = np.unique(numbers[read], return_index=True, return_counts=True)
        known = np.union1d(known, found)
        if ordered:
            for label, at, size in zip(found.tolist(), first.tolist(), count.tolist(), strict=True):
                bounds.setdefault(label, [start + at, 0])[1] = start + at + size
    known = known[known >= 0]
    if not len(known):
        message = "names.spike_neurons: no spike belongs to a neuron"
        raise SessionError(message, reason="no_spikes")
    if not ordered or len(known) == 1:
        return Labels(known, None, unowned)
    return Labels(known, np.array([bounds[label] for label in known.tolist()], np.int64), unowned)


def _neurons(labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Neuron of each spike; -1 if its label is not a whole number."""
    return whole_numbers(labels) if labels.dtype.kind == "f" else identify(labels)
