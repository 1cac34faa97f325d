"""Recording clocks in whole nanoseconds, and the common clock of bins.

int64 nanoseconds are exact for clocks that count milli-, micro- or nanoseconds and span 292 years; times in seconds are
rounded once. A spike on a bin edge therefore falls into the same bin on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import SlicedArray

Times = npt.NDArray[np.int64]

NANOSECONDS: dict[TimeUnit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INVALID = np.int64(np.iinfo(np.int64).min)
"""A missing time: not finite, or beyond 292 years. Negative times are valid: sessions may be aligned to a stimulus."""

BLOCK = 1 << 20


def nanoseconds(values: npt.NDArray[Any], unit: TimeUnit) -> Times:
    """Times in nanoseconds; :data:`INVALID` for missing times."""
    factor = NANOSECONDS[unit]
    top = np.iinfo(np.int64).max // factor
    if values.dtype.kind in "iu":
        usable = (values > -top) & (values < top)
        return np.where(usable, np.where(usable, values, 0).astype(np.int64) * factor, INVALID)
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        usable = np.abs(wide) < top
    return np.where(usable, np.rint(np.where(usable, wide, 0.0) * factor).astype(np.int64), INVALID)


class Clock(Protocol):
    """When each entry of an array was recorded."""

    count: int

    def times(self, start: int, stop: int) -> Times:
        """Nanoseconds of a range of entries, :data:`INVALID` where missing; raises OSError on damage."""
        ...


class ListedClock:
    """Times stored in an array."""

    def __init__(self, array: SlicedArray, unit: TimeUnit) -> None:
        self.array, self.unit = array, unit
        self.count = array.shape[0]

    def times(self, start: int, stop: int) -> Times:
        """Nanoseconds of a range of entries."""
        return nanoseconds(self.array.read(start, stop), self.unit)


class RegularClock:
    """A start in seconds and a rate in hertz."""

    def __init__(self, start: float, rate: float, count: int) -> None:
        self.start, self.rate, self.count = start, rate, count

    def times(self, start: int, stop: int) -> Times:
        """Nanoseconds of a range of entries."""
        return nanoseconds(self.start + np.arange(start, stop) / self.rate, "s")


@dataclass(frozen=True)
class ClockFacts:
    """Result of one pass over a clock; times in nanoseconds."""

    count: int
    invalid: int  # entries without a time
    first: int  # earliest time; meaningless if all are invalid
    last: int  # latest time; meaningless if all are invalid
    step: int  # median interval of the first million entries; 0 for a single time
    ascending: bool  # no time precedes the one before it
    missing: int = field(default=-1, repr=False)  # sessions are distinguished by the others, as printed

    @property
    def valid(self) -> int:
        """Number of entries with a time."""
        return self.count - self.invalid


def examine(clock: Clock, count: int | None = None) -> ClockFacts:
    """Pass over the first ``count`` entries of a clock (default: all), a million at a time."""
    total = clock.count if count is None else count
    valid, step, ascending = 0, 0, True
    first = last = 0
    missing = -1
    for places, times in blocks(clock, total):
        if missing < 0:  # every entry so far has a time; the next is number ``valid``
            gap = np.flatnonzero(places != np.arange(valid, valid + len(places)))
            missing = valid + int(gap[0]) if len(gap) else -1
        if not len(times):
            continue
        gaps = np.diff(times)
        if valid == 0:
            first = int(times[0])
            step = int(np.median(gaps)) if len(gaps) else 0
            last = first
        ascending &= bool(times[0] >= last and (gaps >= 0).all())
        first, last = min(first, int(times.min())), max(last, int(times.max()))
        valid += len(times)
    if missing < 0 and valid < total:
        missing = valid
    return ClockFacts(total, total - valid, first, last, step, ascending, missing)


def blocks(clock: Clock, count: int) -> Iterator[tuple[npt.NDArray[np.int64], Times]]:
    """Indices and times of the valid entries, a million at a time; damaged stretches count as invalid."""
    for start in range(0, count, BLOCK):
        times = readable_times(clock, start, min(start + BLOCK, count))
        places = np.flatnonzero(times != INVALID)
        yield places + start, times[places]


def readable_times(clock: Clock, start: int, stop: int) -> Times:
    """Times of a range, :data:`INVALID` where the file is damaged."""
    try:
        return clock.times(start, stop)
    except OSError:
        if stop - start == 1:
            return np.array([INVALID])
        middle = (start + stop) // 2
        return np.concatenate([readable_times(clock, start, middle), readable_times(clock, middle, stop)])


def locate(clock: Clock, count: int, lows: Times, highs: Times) -> tuple[Times, Times]:
    """First and end entry that determine each span [low, high), in one pass over an ascending clock.

    A range covers all times inside the span, the last one before it and the first one at or after its end. ``lows`` and
    ``highs`` are ascending nanoseconds, shape (spans,).
    """
    starts = np.zeros(len(lows), np.int64)
    stops = np.full(len(lows), count, np.int64)
    open_ends = np.ones(len(lows), bool)
    for places, times in blocks(clock, count):
        if not len(times):
            continue
        before = np.searchsorted(times, lows, side="left") - 1
        starts = np.where(before >= 0, places[before], starts)
        after = np.searchsorted(times, highs, side="left")
        closes = open_ends & (after < len(times))
        stops[closes] = places[after[closes]] + 1
        open_ends &= ~closes
    return starts, np.maximum(stops, starts)


@dataclass(frozen=True)
class BinClock:
    """The clock of bins: bin k is [origin + k * width, origin + (k + 1) * width)."""

    origin: int  # start of bin 0, nanoseconds
    width: float  # nanoseconds, possibly fractional; each edge is rounded separately, so that none drifts
    bins: int

    def edges(self, start: int, stop: int) -> Times:
        """Edges of bins ``start`` to ``stop`` (exclusive), shape (stop - start + 1,)."""
        return self.edges_of(np.arange(start, stop + 1))

    def edges_of(self, bins: npt.NDArray[np.int64]) -> Times:
        """Start times of the given bins."""
        edges: Times = self.origin + np.rint(bins * self.width).astype(np.int64)
        return edges

    def centres(self, start: int, stop: int) -> Times:
        """Centres of bins ``start`` to ``stop`` (exclusive)."""
        edges = self.edges(start, stop)
        return (edges[:-1] + edges[1:]) // 2

    def first_centred(self, times: Times) -> npt.NDArray[np.int64]:
        """First bin whose centre is at or after each time, clipped to 0 and ``bins``."""
        margin = int(2 * self.width) + 2
        times = np.clip(times, self.origin - margin, int(self.edges_of(np.array([self.bins]))[0]) + margin)
        guess = np.floor((times - self.origin) / self.width).astype(np.int64) - 2
        for _ in range(4):
            centre = (self.edges_of(guess) + self.edges_of(guess + 1)) // 2
            guess += centre < times
        return np.clip(guess, 0, self.bins)
