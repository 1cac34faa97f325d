from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.neural.bins import hold, linear, mean
from outofcore.domains.neural.spikes import histogram, histogram_by

times = st.lists(st.integers(0, 200), max_size=30).map(sorted)
edges = st.lists(st.integers(0, 220), min_size=2, max_size=12, unique=True).map(sorted)


def ints(values):
    return np.array(values, np.int64)


@settings(deadline=None)
@given(times, st.lists(st.integers(0, 220), max_size=10), st.integers(1, 50))
def test_hold_is_the_last_sample_that_is_not_too_old(times, centres, longest):
    index, there = hold(ints(times), ints(centres), longest)
    for centre, found, usable in zip(centres, index, there, strict=True):
        earlier = [number for number, time in enumerate(times) if time <= centre]
        expected = earlier[-1] if earlier and centre - times[earlier[-1]] < longest else None
        assert (found if usable else None) == expected


@settings(deadline=None)
@given(times, edges)
def test_mean_is_that_of_the_samples_inside_each_bin(times, edges):
    values = np.stack([np.arange(len(times)) * 1.5, -(np.arange(len(times)) ** 2.0)], 1)
    averages, filled = mean(ints(times), values, ints(edges))
    for number, (low, high) in enumerate(pairwise(edges)):
        inside = [place for place, time in enumerate(times) if low <= time < high]
        assert filled[number] == bool(inside)
        if inside:
            np.testing.assert_allclose(averages[number], values[inside].mean(0))


@settings(deadline=None)
@given(times, st.lists(st.integers(0, 220), max_size=10), st.integers(1, 100))
def test_linear_agrees_with_interp_where_samples_are_near(times, centres, longest):
    times = sorted(set(times))
    values = np.array([(7 * time) % 31 for time in times], float)
    result, there = linear(ints(times), values, ints(centres), longest)
    for centre, value, usable in zip(centres, result, there, strict=True):
        before = [time for time in times if time <= centre]
        after = [time for time in times if time > centre]
        near = bool(before) and (before[-1] == centre or (bool(after) and after[0] - before[-1] <= longest))
        assert usable == near
        if near:
            np.testing.assert_allclose(value, np.interp(centre, times, values))


def test_a_sample_that_is_no_number_spoils_only_the_bins_that_use_it():
    values = np.array([1.0, np.nan, 3.0, 5.0])
    result, there = linear(ints([0, 10, 20, 30]), values, ints([0, 5, 20, 25]), 100)
    assert there.all()
    assert np.isnan(result[1])
    np.testing.assert_allclose(result[[0, 2, 3]], [1, 3, 4])


@settings(deadline=None)
@given(times, edges, st.data())
def test_spikes_are_counted_as_numpy_counts_them(times, edges, data):
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(times), max_size=len(times)))
    counts = histogram(ints(times), ints(edges))
    by_owner = histogram_by(ints(times), ints(owners), 3, ints(edges))
    expected = [sum(low <= time < high for time in times) for low, high in pairwise(edges)]
    assert counts.tolist() == expected
    assert by_owner.sum(1).tolist() == expected
    for owner in range(3):
        mine = ints([time for time, whose in zip(times, owners, strict=True) if whose == owner])
        assert by_owner[:, owner].tolist() == histogram(mine, ints(edges)).tolist()
