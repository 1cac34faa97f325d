"""Spike times of many neurons: one vector per neuron, or one vector with the neuron of each spike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import BLOCK, ClockFacts, Times, examine, listed_clock, locate
from outofcore.domains.neural.params import SourceSection
from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, flat, identify, part, whole_numbers
from outofcore.domains.neural.recordings.recording import Recording, find_array, find_vector, matching
from outofcore.domains.neural.unit_table import Units, find_units
from outofcore.ndarrays import Ints

T = TypeVar("T")


@dataclass(frozen=True)
class SpikeOwners:
    """Owners of the spikes of a single vector."""

    known: Ints  # ascending; the first is neuron 0
    bounds: Ints | None  # (neurons, 2) first spike and end if spikes are sorted by neuron, else None
    unowned: int  # spikes whose label matches no neuron


@dataclass(frozen=True)
class Spikes:
    clocks: tuple[RecordedArray, ...]  # ascending times of each neuron, chosen or not, or of all neurons together
    rows: tuple[int, ...]  # neurons that were chosen
    labels: SpikeOwners | None = None  # set only if one vector of the file holds all neurons
    owners: RecordedArray | None = None  # label of each spike if ``clocks`` is one vector for all neurons
    units: Units | None = None
    intervals: Sequence[Times | None] | None = None  # when each neuron was observed, joined; None: not stated

    @property
    def neurons(self) -> int:
        return len(self.rows)

    def _chosen(self, of_clocks: Sequence[T]) -> list[T]:
        return [*of_clocks] if self.owners is not None else [of_clocks[row] for row in self.rows]

    @cached_property
    def facts_of_all(self) -> list[ClockFacts]:
        """Result of a pass over each vector."""
        return [examine(clock) for clock in self.clocks]

    @property
    def facts(self) -> list[ClockFacts]:
        """The same of the vectors that are read."""
        return self._chosen(self.facts_of_all)

    @property
    def observed(self) -> list[Times | None]:
        """When each chosen neuron was observed, None where nothing states it; empty where that is so of all."""
        return [] if self.intervals is None else self._chosen(self.intervals)

    @property
    def reach(self) -> tuple[int, int]:
        """First and last spike of all neurons, chosen or not, nanoseconds."""
        trains = [train for train in self.facts_of_all if train.valid]
        return min(train.first for train in trains), max(train.last for train in trains)

    def span(self, width: float, trials: Times) -> ClockFacts:
        """The first and the last bin that was recorded, by where they begin, in bins counted from time 0.

        Silence is recorded too: what was is stated by the intervals of ``trials`` (n, 2), without these by those in
        which units were observed. A unit without any was recorded from its first spike to its last. Units that were
        not chosen count as well: the choice does not move the bins.
        """
        trains = [*zip(self.facts_of_all, self.intervals or [None] * len(self.clocks), strict=True)]
        intervals = (
            [trials]
            if len(trials)
            else [
                np.array([[facts.first, facts.last + 1]]) if seen is None else seen
                for facts, seen in trains
                if facts.valid or seen is not None
            ]
        )
        edges = np.concatenate([np.empty((0, 2), np.int64), *intervals])
        first, end = (int(edges[:, 0].min()), int(edges[:, 1].max())) if len(edges) else (0, 1)
        start, stop = (math.floor(time // width * width) for time in (first, end - 1))
        return ClockFacts(sum(facts.valid for facts, _ in trains), 0, start, stop, step=0, ascending=True)

    def locate(self, lows: Times, highs: Times) -> Ints:
        """Entries to read for each of several spans of time, [first, end): shape (spans, vectors, 2)."""
        vectors = self._chosen(self.clocks)
        return np.stack([np.stack(locate(clock, clock.shape[0], lows, highs), axis=-1) for clock in vectors], axis=1)

    def count(self, ranges: Ints, edges: Times) -> Ints:
        """Spikes per bin, shape (bins, neurons); ``ranges`` (vectors, 2) is one of :meth:`locate`."""
        counts = np.zeros((len(edges) - 1, self.neurons), np.int64)
        for vector, (clock, (start, stop)) in enumerate(zip(self._chosen(self.clocks), ranges.tolist(), strict=True)):
            bins = np.searchsorted(edges, clock.read(start, stop), side="right") - 1
            neurons, inside = np.full(len(bins), vector), (bins >= 0) & (bins < len(counts))
            if self.owners is not None and self.labels is not None:
                known, labels = self.labels.known[list(self.rows)], _neurons(self.owners.read(start, stop))
                neurons = np.minimum(np.searchsorted(known, labels), self.neurons - 1)
                inside &= known[neurons] == labels
            np.add.at(counts, (bins[inside], neurons[inside]), 1)
        return counts


def find_spikes(recording: Recording, source: SourceSection, labels: SpikeOwners | None = None) -> Spikes:
    """The spikes that ``names.spike_times`` refers to; raises SessionError."""
    name, label_name = source.names.spike_times, source.names.spike_neurons
    assert name is not None
    unit = recording.unit or source.spike_unit or source.time_unit
    owners = observed = None
    if label_name is not None:
        times, owners = find_vector(recording, "spike_times", name), find_vector(recording, "spike_neurons", label_name)
        if times.shape != owners.shape:
            raise SessionError(
                "unequal_length", f"spike_times has {times.shape[0]} entries, spike_neurons {owners.shape[0]}"
            )
        labels = labels or _labels(owners)
        known, bounds = labels.known, labels.bounds
        units = find_units(
            source,
            len(known),
            lambda column: known if column == label_name else recording.column_of_labels(label_name, column, known),
        )
        vectors = [times]
        if bounds is not None:
            vectors, owners = [part(times, start, stop) for start, stop in bounds.tolist()], None
        neurons = len(known)
    else:
        try:
            several = matching(recording, name).values() if "*" in name else ()
            vectors = [recording.array(path) for path in several] if "*" in name else recording.trains(name)
        except KeyError:  # a column of an array, or nothing
            vectors = []
        vectors, neurons = vectors or [find_array(recording, "spike_times", name)], len(vectors) or 1
        units = find_units(source, neurons, lambda column: recording.column(name, column))
        observed = None if "*" in name else recording.observed(name)
        # MATLAB stores an empty train as 0 x 0 and others as columns.
        vectors = [flat(vector, "names.spike_times: expected a vector for each neuron") for vector in vectors]
    rows = tuple(range(neurons)) if units is None else units.rows
    return Spikes(tuple(listed_clock(vector, unit) for vector in vectors), rows, labels, owners, units, observed)


def _labels(owners: RecordedArray) -> SpikeOwners:
    """Distinct non-negative labels, in one pass."""
    known = np.empty(0, np.int64)
    ordered, last, unowned = True, np.iinfo(np.int64).min, 0
    bounds: dict[int, list[int]] = {}
    for start in range(0, owners.shape[0], BLOCK):
        numbers = _neurons(owners.read(start, min(start + BLOCK, owners.shape[0])))
        ordered &= bool(numbers[0] >= last and (numbers[1:] >= numbers[:-1]).all())
        last = int(numbers[-1])
        unowned += int((numbers < 0).sum())
        distinct, first, count = np.unique(numbers, return_index=True, return_counts=True)
        known = np.union1d(known, distinct)
        if ordered:
            for label, at, size in zip(distinct.tolist(), first.tolist(), count.tolist(), strict=True):
                bounds.setdefault(label, [start + at, 0])[1] = start + at + size
    known = known[known >= 0]
    if not len(known):
        raise SessionError("no_spikes", "names.spike_neurons: no spike belongs to a neuron")
    if not ordered or len(known) == 1:
        return SpikeOwners(known, None, unowned)
    return SpikeOwners(known, np.array([bounds[label] for label in known.tolist()], np.int64), unowned)


def _neurons(labels: npt.NDArray[Any]) -> Ints:
    """Neuron of each spike; -1 if its label is not a whole number."""
    return whole_numbers(labels) if labels.dtype.kind == "f" else identify(labels)
