"""Recording clocks in whole nanoseconds, and the common clock of bins.

int64 nanoseconds are exact for clocks that count milli-, micro- or nanoseconds and span 292 years; times in seconds are
rounded once. A spike on a bin edge therefore falls into the same bin on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import Mask, RecordedArray, SessionError
from outofcore.domains.neural.resampling import centres_of
from outofcore.ndarrays import Ints

Times = npt.NDArray[np.int64]
TIME = np.dtype(np.int64)

NANOSECONDS: dict[str, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INVALID = np.int64(np.iinfo(np.int64).min)
"""A missing time: not finite, or beyond 292 years. Negative times are valid: sessions may be aligned to a stimulus."""

BLOCK = 1 << 20


def nanoseconds(values: npt.NDArray[Any], unit: TimeUnit) -> Times:
    """Times in nanoseconds, of dates and times in ISO 8601 since 1970; :data:`INVALID` for missing times."""
    if values.dtype.kind in "US":
        return np.array([_moment(str(value)) for value in values.reshape(-1)], np.int64).reshape(values.shape)
    factor = NANOSECONDS[unit] if isinstance(unit, str) else 1e9 / unit
    top = np.iinfo(np.int64).max // factor
    if values.dtype.kind in "iu" and isinstance(factor, int):
        usable = (values > -top) & (values < top)
        return np.where(usable, np.where(usable, values, 0).astype(np.int64) * factor, INVALID)
    if values.dtype.kind == "c":
        raise SessionError("wrong_type", f"expected times, got values of {values.dtype}")
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        usable = np.abs(wide) < top
    return np.where(usable, np.rint(np.where(usable, wide, 0.0) * factor).astype(np.int64), INVALID)


def _moment(text: str) -> int:
    match = re.fullmatch(r"\s*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*?)(?:Z|([+-])(\d\d):?(\d\d))?\s*", text)
    if match is None:
        return int(INVALID)
    zone = 60 * int(match[3]) + int(match[4]) if match[2] else 0
    try:
        since = int(np.datetime64(match[1], "ns").astype(np.int64))
    except ValueError:
        return int(INVALID)
    return since - (zone if match[2] == "+" else -zone) * 60 * 10**9


def joined_intervals(intervals: Times) -> Times:
    """Intervals (n, 2) with a start before their stop, ascending, those that touch as one."""
    intervals = intervals[(intervals != INVALID).all(1) & (intervals[:, 0] < intervals[:, 1])]
    intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
    if not len(intervals):
        return intervals
    reached = np.maximum.accumulate(intervals[:, 1])
    first = np.append(True, intervals[1:, 0] > reached[:-1])
    return np.stack([intervals[first, 0], reached[np.append(first[1:], True)]], axis=1)


def inside(lows: Times, highs: Times, intervals: Times) -> Mask:
    """Which spans [low, high) are inside one of the joined intervals."""
    at = np.searchsorted(intervals[:, 0], lows, side="right") - 1
    covered: Mask = (at >= 0) & (highs <= np.append(intervals[:, 1], INVALID)[at])
    return covered


def touching(lows: Times, highs: Times, intervals: Times) -> Mask:
    """Which spans [low, high) share a time with one of the joined intervals."""
    at = np.searchsorted(intervals[:, 1], lows, side="right")
    touched: Mask = np.append(intervals[:, 0], np.iinfo(np.int64).max)[at] < highs
    return touched


def listed_clock(array: RecordedArray, unit: TimeUnit) -> RecordedArray:
    """When each entry of an array was recorded, by times in a file: nanoseconds, :data:`INVALID` where missing."""
    return RecordedArray(array.shape, TIME, lambda start, stop: nanoseconds(array.read(start, stop), unit))


def regular_clock(start: float, rate: float, count: int) -> RecordedArray:
    """The same from a start in seconds and a rate in hertz."""
    return RecordedArray((count,), TIME, lambda first, end: nanoseconds(start + np.arange(first, end) / rate, "s"))


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


def examine(clock: RecordedArray, count: int | None = None) -> ClockFacts:
    """Pass over the first ``count`` entries of a clock (default: all), a million at a time."""
    total = clock.shape[0] if count is None else count
    valid, step, ascending = 0, 0, True
    first = last = 0
    missing = -1
    for start in range(0, total, BLOCK):
        times = clock.read(start, min(start + BLOCK, total))
        known = times != INVALID
        if missing < 0 and not known.all():
            missing = start + int(np.argmin(known))
        times = times[known]
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
    return ClockFacts(total, total - valid, first, last, step, ascending, missing)


def blocks(clock: RecordedArray, count: int) -> Iterator[tuple[Ints, Times]]:
    """Indices and times of the valid entries, a million at a time."""
    for start in range(0, count, BLOCK):
        yield valid_times(clock, start, min(start + BLOCK, count))


def valid_times(clock: RecordedArray, start: int, stop: int) -> tuple[Ints, Times]:
    """Indices and times of the valid entries of a range."""
    times = clock.read(start, stop)
    places = np.flatnonzero(times != INVALID)
    return places + start, times[places]


def locate(clock: RecordedArray, count: int, lows: Times, highs: Times) -> tuple[Times, Times]:
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

    def edges_of(self, bins: Ints) -> Times:
        """Start times of the given bins."""
        edges: Times = self.origin + np.rint(bins * self.width).astype(np.int64)
        return edges

    def centres(self, start: int, stop: int) -> Times:
        """Centres of bins ``start`` to ``stop`` (exclusive)."""
        return centres_of(self.edges(start, stop))

    def first_centred(self, times: Times) -> Ints:
        """First bin whose centre is at or after each time, clipped to 0 and ``bins``."""
        margin = int(2 * self.width) + 2
        times = np.clip(times, self.origin - margin, int(self.edges_of(np.array([self.bins]))[0]) + margin)
        guess = np.floor((times - self.origin) / self.width).astype(np.int64) - 2
        for _ in range(4):
            centre = (self.edges_of(guess) + self.edges_of(guess + 1)) // 2
            guess += centre < times
        return np.clip(guess, 0, self.bins)
