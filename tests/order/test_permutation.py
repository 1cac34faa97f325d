"""Randomness that is keyed, even, and the same in any year."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from outofcore.order.permutation import GOLDEN, draw, key, permutation, random_words, scaled, scatter, strata
from tests.property import order_oracle


def test_values_never_change() -> None:
    # A saved order must be continued by any later version: these numbers are a promise, not a measurement.
    assert key(0) == 0x48218226FF3CD4BF
    assert key(1, 2, 3) == 0xDDC23805AC429AB5
    assert draw(1000, 4, 5) == 181
    assert permutation(10, 1, 2, 3).tolist() == [6, 5, 4, 3, 8, 9, 1, 7, 0, 2]
    assert scatter(np.arange(10), 10, 1, 2, 3).tolist() == [1, 8, 6, 0, 4, 9, 2, 3, 5, 7]


def test_depends_on_every_word_and_their_order() -> None:
    assert len({key(1, 2), key(2, 1), key(1), key(1, 2, 0), key(0, 1, 2)}) == 5


def test_draws_are_even() -> None:
    counts = np.bincount([draw(7, seed, 5) for seed in range(7000)], minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_every_permutation_is_equally_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(24 * 300):
        order = tuple(permutation(4, seed).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_places_of_a_long_permutation_are_even() -> None:
    places = np.stack([permutation(64, seed) for seed in range(2000)])
    for column in (0, 31, 63):
        assert stats.chisquare(np.bincount(places[:, column], minlength=64)).pvalue > 1e-5


def test_scatter_is_a_permutation_that_mixes() -> None:
    for size in (1, 2, 3, 17, 64, 1000, 4097):
        assert sorted(scatter(np.arange(size), size, 3).tolist()) == list(range(size))
    size = 10_000
    sent = scatter(np.arange(size), size, 9)
    assert abs(np.corrcoef(np.arange(size), sent)[0, 1]) < 0.05
    assert np.mean(np.abs(np.diff(sent)) < 100) < 0.04


def test_scatter_of_a_single_position_needs_no_other() -> None:
    everything = scatter(np.arange(500), 500, 1, 2)
    assert scatter(np.array([123]), 500, 1, 2)[0] == everything[123]


@given(
    low=st.integers(0, 2**62),
    width=st.one_of(st.integers(0, 2**25), st.sampled_from([2**24, 2**31, 2**40, 2**53 - 1, 2**53, 2**62 - 1])),
    count=st.integers(1, 3000),
    seed=st.integers(0, 2**64 - 1),
)
def test_strata_are_exact_whatever_their_size(low: int, width: int, count: int, seed: int) -> None:
    drawn, state = [], key(seed)
    for number in range(count):
        state = (state + int(GOLDEN)) % 2**64
        word = order_oracle.mix(state)
        inside = int((word >> 11) * 2.0**-53 * width) if width < 2**53 else word * width >> 64
        drawn.append(low + (number * width + inside) // count)
    assert strata(low, low + width, count, seed).tolist() == drawn


def test_strata_of_many_draws_cover_their_range_evenly() -> None:
    """A million draws of the greatest weight: their product passes 2**63."""
    count, width = 1 << 20, (1 << 20) * 2**24
    drawn = strata(0, width, count, 1)
    assert np.array_equal(drawn >> 24, np.arange(count))


@pytest.mark.parametrize("bound", [1, 7, 2**24, 2**31 - 1, 2**31, 2**40, 2**63 - 1])
def test_words_are_scaled_exactly(bound: int) -> None:
    words = random_words(0, 1, 600, 3).reshape(200, 3)
    whole = [[int(w) >> 32 if bound < 2**31 else int(w) for w in row] for row in words]
    shift = 32 if bound < 2**31 else 64
    assert scaled(words, np.full(words.shape, bound)).tolist() == [[w * bound >> shift for w in row] for row in whole]
