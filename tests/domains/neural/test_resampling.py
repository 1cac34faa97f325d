"""Each way of resampling against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.neural.resampling import hold, linear, mean

times = st.lists(st.integers(0, 200), max_size=30).map(sorted)
edges = st.lists(st.integers(0, 220), min_size=2, max_size=12, unique=True).map(sorted)


def ints(values):
    return np.array(values, np.int64)


@settings(deadline=None)
@given(times, edges, st.integers(1, 50))
def test_hold_is_the_last_sample_that_is_not_too_old(times, edges, longest):
    values, there = hold(ints(times), np.arange(len(times), dtype=np.uint8), ints(edges), longest)
    assert values.dtype == np.uint8
    for (low, high), value, usable in zip(pairwise(edges), values, there, strict=True):
        centre = (low + high) // 2
        earlier = [number for number, time in enumerate(times) if time <= centre]
        expected = earlier[-1] if earlier and centre - times[earlier[-1]] < longest else None
        assert (value if usable else None) == expected


@settings(deadline=None)
@given(times, edges)
def test_mean_is_that_of_the_samples_inside_each_bin(times, edges):
    values = np.stack([np.arange(len(times)) * 1.5, -(np.arange(len(times)) ** 2.0)], 1)
    averages, filled = mean(ints(times), values, ints(edges), 0)
    for number, (low, high) in enumerate(pairwise(edges)):
        inside = [place for place, time in enumerate(times) if low <= time < high]
        assert filled[number] == bool(inside)
        if inside:
            np.testing.assert_allclose(averages[number], values[inside].mean(0))


@settings(deadline=None)
@given(times, edges, st.integers(1, 100))
def test_linear_agrees_with_interp_where_samples_are_near(times, edges, longest):
    times = sorted(set(times))
    values = np.array([(7 * time) % 31 for time in times], float)
    result, there = linear(ints(times), values, ints(edges), longest)
    for (low, high), value, usable in zip(pairwise(edges), result, there, strict=True):
        centre = (low + high) // 2
        before = [time for time in times if time <= centre]
        after = [time for time in times if time > centre]
        near = bool(before) and (before[-1] == centre or (bool(after) and after[0] - before[-1] <= longest))
        assert usable == near
        if near:
            np.testing.assert_allclose(value, np.interp(centre, times, values))


def test_a_sample_that_is_no_number_spoils_only_the_bins_that_use_it():
    values = np.array([1.0, np.nan, 3.0, 5.0])
    result, there = linear(ints([0, 10, 20, 30]), values, ints([-2, 2, 8, 32, 18]), 100)  # centres 0, 5, 20, 25
    assert there.all()
    assert np.isnan(result[1])
    np.testing.assert_allclose(result[[0, 2, 3]], [1, 3, 4])
