"""Clocks of recordings, in whole nanoseconds, and the one clock of bins that they are brought to.

Nanoseconds as int64 are exact for clocks that count milli-, micro- or nanoseconds, and reach over 292 years; a time in
seconds is rounded once. So a spike on the edge of a bin falls into the same bin on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import SlicedArray

Times = npt.NDArray[np.int64]

NANOSECONDS: dict[TimeUnit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INVALID = np.int64(-1)
"""Stands for a time that is none: negative, not finite, or beyond 292 years."""

BLOCK = 1 << 20


def nanoseconds(values: npt.NDArray[Any], unit: TimeUnit) -> Times:
    """Times in nanoseconds; :data:`INVALID` for what is no time."""
    factor = NANOSECONDS[unit]
    top = np.iinfo(np.int64).max // factor
    if values.dtype.kind in "iu":
        usable = (values >= 0) & (values < top)
        return np.where(usable, np.where(usable, values, 0).astype(np.int64) * factor, INVALID)
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        usable = (wide >= 0) & (wide < top)
    return np.where(usable, np.rint(np.where(usable, wide, 0.0) * factor).astype(np.int64), INVALID)


class Clock(Protocol):
    """When each entry of an array was taken.

    Attributes
    ----------
    count
        Number of entries.
    """

    count: int

    def times(self, start: int, stop: int) -> Times:
        """Nanoseconds of a range of entries; :data:`INVALID` where there is none. Raises OSError if damaged there."""
        ...


class ListedClock:
    """Times that stand in an array."""

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
    """What a pass over a clock tells.

    Attributes
    ----------
    count, invalid
        Entries, and those without a time.
    first, last
        Earliest and latest time, nanoseconds; of no meaning where all are invalid.
    step
        Median interval in the first million entries, nanoseconds; 0 where there is one time only.
    ascending
        Whether no time is before the one before it.
    """

    count: int
    invalid: int
    first: int
    last: int
    step: int
    ascending: bool

    @property
    def valid(self) -> int:
        """Entries that have a time."""
        return self.count - self.invalid


def examine(clock: Clock, count: int | None = None) -> ClockFacts:
    """Pass over the first ``count`` entries of a clock (all of them by default), a million at a time."""
    total = clock.count if count is None else count
    valid, step, ascending = 0, 0, True
    first = last = 0
    for _, times in blocks(clock, total):
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
    return ClockFacts(total, total - valid, first, last, step, ascending)


def blocks(clock: Clock, count: int) -> Iterator[tuple[npt.NDArray[np.int64], Times]]:
    """Places and times of the valid entries, a million at a time; a damaged stretch counts as invalid."""
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
    """Which entries decide about each of several spans of time, in one pass over the clock.

    Parameters
    ----------
    clock, count
        An ascending clock, and how many of its entries count.
    lows, highs
        Beginnings and ends of the spans, nanoseconds, each ascending, shape (spans,).

    Returns
    -------
    First entry and end of the range of entries for each span: all with a time inside, the last one before the
    beginning, and the first one at or after the end.
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
    """The clock of bins: bin k lasts from ``origin + k * width`` to ``origin + (k + 1) * width``.

    Attributes
    ----------
    origin
        Beginning of bin 0, nanoseconds.
    width
        Nanoseconds of a bin, a fraction perhaps; each edge is rounded to a nanosecond by itself, so that none drifts.
    bins
        Number of bins.
    """

    origin: int
    width: float
    bins: int

    def edges(self, start: int, stop: int) -> Times:
        """Edges of bins ``start`` to ``stop`` (exclusive), shape (stop - start + 1,)."""
        return self.edges_of(np.arange(start, stop + 1))

    def edges_of(self, bins: npt.NDArray[np.int64]) -> Times:
        """Beginnings of the given bins."""
        edges: Times = self.origin + np.rint(bins * self.width).astype(np.int64)
        return edges

    def centres(self, start: int, stop: int) -> Times:
        """Centres of bins ``start`` to ``stop`` (exclusive)."""
        edges = self.edges(start, stop)
        return (edges[:-1] + edges[1:]) // 2

    def first_centred(self, times: Times) -> npt.NDArray[np.int64]:
        """First bin whose centre lies at or after each time, within 0 and ``bins``."""
        margin = int(2 * self.width) + 2
        times = np.clip(times, self.origin - margin, int(self.edges_of(np.array([self.bins]))[0]) + margin)
        guess = np.floor((times - self.origin) / self.width).astype(np.int64) - 2
        for _ in range(4):
            centre = (self.edges_of(guess) + self.edges_of(guess + 1)) // 2
            guess += centre < times
        return np.clip(guess, 0, self.bins)
