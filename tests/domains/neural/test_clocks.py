from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.neural import clocks
from outofcore.domains.neural.clocks import (
    INVALID,
    BinClock,
    examine,
    inside,
    joined_intervals,
    listed_clock,
    locate,
    nanoseconds,
    regular_clock,
    touching,
)
from outofcore.domains.neural.recordings.arrays import SessionError


class Values:
    """An array in memory."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.dtype = self.values.shape, self.values.dtype

    def read(self, start, stop):
        return self.values[start:stop]


@pytest.mark.parametrize(("unit", "factor"), [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)])
def test_whole_times_are_exact(unit, factor):
    values = np.array([0, 1, 9_849_000, 2**40 // factor], np.int64)
    assert nanoseconds(values, unit).tolist() == [value * factor for value in values.tolist()]


def test_what_is_no_time_is_invalid():
    values = np.array([1.5, np.nan, np.inf, -np.inf, 1e300, -1e300])
    assert nanoseconds(values, "s").tolist() == [1_500_000_000, *[INVALID] * 5]
    assert nanoseconds(np.array([2**64 - 1], np.uint64), "ns").tolist() == [INVALID]


def test_complex_times_are_refused():
    with pytest.raises(SessionError, match="expected times, got values of complex128"):
        nanoseconds(np.array([1 + 2j]), "s")


def test_times_before_zero_are_times():
    assert nanoseconds(np.array([-0.001, -2.5, 0]), "s").tolist() == [-1_000_000, -2_500_000_000, 0]
    assert nanoseconds(np.array([-1, 5], np.int16), "ms").tolist() == [-1_000_000, 5_000_000]
    assert nanoseconds(np.array([-(2**63)]), "ns").tolist() == [INVALID]
    assert nanoseconds(np.array([-(2**63) + 2, 2**63 - 2]), "ns").tolist() == [-(2**63) + 2, 2**63 - 2]
    assert regular_clock(-2.0, 4, 10).read(7, 9).tolist() == [-250_000_000, 0]


def test_regular_clock_does_not_drift():
    clock = regular_clock(0.5, 30_000, 10**9)
    assert clock.read(9 * 10**8, 9 * 10**8 + 1).tolist() == [500_000_000 + 3 * 10**13]


def test_examine_counts_and_skips_invalid_times(monkeypatch):
    monkeypatch.setattr(clocks, "BLOCK", 3)
    facts = examine(listed_clock(Values([np.nan, -1, 2, np.nan, 3, 5, np.nan]), "s"))
    assert (facts.count, facts.invalid, facts.first, facts.last) == (7, 3, -(10**9), 5 * 10**9)
    assert facts.ascending
    assert (facts.missing, facts.step) == (0, 3 * 10**9)
    for values, missing in (
        ([1, 2, 3, 4, 5], -1),
        ([1, 2, 3, 4, np.nan], 4),
        ([1, 2, 3, np.nan, 5], 3),
        ([1, np.nan, 3, np.nan, 5], 1),
        ([1, 2, 3, np.nan, np.nan, np.nan, 7], 3),
        ([np.nan, np.nan, np.nan, 4], 0),
    ):
        assert examine(listed_clock(Values(values), "s")).missing == missing
    assert not examine(listed_clock(Values([1, 2, 3, -1, 4]), "s")).ascending
    assert not examine(listed_clock(Values([1, 2, 3, 2.5, 4.0]), "s")).ascending


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.integers(-30, 30), st.none()), max_size=25),
    st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 30)), min_size=1, max_size=5),
    st.integers(1, 7),
)
def test_locate_gives_all_that_a_span_depends_on(values, spans, block):
    rising = iter(sorted(value for value in values if value is not None))
    values = [np.nan if value is None else next(rising) for value in values]
    lows = sorted(low for low, _ in spans)
    highs = sorted(low + length for low, length in spans)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "BLOCK", block)
        # Times of whole numbers cannot be missing, and are read without becoming fractions.
        clock = listed_clock(Values(np.array(values, np.float64 if np.isnan(values).any() else np.int64)), "ns")
        starts, stops = locate(clock, len(values), np.array(lows), np.array(highs))
    for low, high, start, stop in zip(lows, highs, starts.tolist(), stops.tolist(), strict=True):
        needed = {place for place, time in enumerate(values) if low <= time < high}
        before = [place for place, time in enumerate(values) if time < low]
        after = [place for place, time in enumerate(values) if time >= high]
        needed |= set(before[-1:]) | set(after[:1])
        assert needed <= set(range(start, stop))


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12), st.floats(1e-4, 0.5), st.integers(1, 10**6), st.data())
def test_first_centred_is_the_first_bin_whose_centre_is_not_before(origin, width, bins, data):
    clock = BinClock(origin, width * 1e9, bins)
    bin_ = data.draw(st.integers(0, bins - 1))
    centre = int(clock.centres(bin_, bin_ + 1)[0])
    times = np.array([centre, centre + 1, -(2**62), 2**62])
    assert clock.first_centred(times).tolist() == [bin_, bin_ + 1, 0, bins]


def test_edges_do_not_depend_on_where_a_recording_is_cut():
    clock = BinClock(12_345, 1e9 / 240, 10**6)
    whole = clock.edges(0, 1000)
    assert np.array_equal(whole[400:701], clock.edges(400, 700))


def test_dates_and_times_are_nanoseconds_since_1970():
    words = ["1970-01-01T00:00:01.5", "1970-01-01 00:00:02Z", "1970-01-01T02:00:00+02:00", "yesterday", "", "7"]
    expected = [1_500_000_000, 2 * 10**9, 0, INVALID, INVALID, INVALID]
    assert nanoseconds(np.array(words), "ms").tolist() == expected


@given(st.lists(st.integers(-(2**32), 2**32), max_size=6), st.sampled_from([30_000, 24_414.0625, 1]))
def test_numbers_of_samples_are_nanoseconds_by_their_rate(samples, rate):
    exact = [Fraction(sample) * 10**9 / Fraction(rate) for sample in samples]
    times = nanoseconds(np.array(samples, np.int64), rate).tolist()
    assert all(abs(time - each) <= 2 + abs(each) / 2**50 for time, each in zip(times, exact, strict=True))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6), st.integers(0, 20), st.integers(1, 5))
def test_spans_inside_and_touching_intervals(intervals, low, length):
    joined = joined_intervals(np.array(intervals, np.int64).reshape(-1, 2))
    covered = {time for start, stop in intervals for time in range(start, stop)}
    span, lows, highs = set(range(low, low + length)), np.array([low]), np.array([low + length])
    assert inside(lows, highs, joined).tolist() == [span <= covered]
    assert touching(lows, highs, joined).tolist() == [bool(span & covered)]
