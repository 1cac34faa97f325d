"""The order against its oracle, for anything that a store and a user may ask for."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.loading.order import Cut, EpochOrder
from tests.property import order_oracle

SHUFFLES = st.sampled_from(["blocks", True, "full", False])


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    lanes = draw(st.sampled_from([16, 16, 16, 1, 3, 24, 64]))
    return Cut(
        lanes=lanes,
        samples=draw(st.integers(0, 3000)),
        block=lanes * draw(st.integers(1, 8)),
        step=draw(st.integers(1, 70)),
        pool_blocks=draw(st.one_of(st.integers(1, 9), st.sampled_from([16, 32, 64]))),
        shuffle=draw(SHUFFLES),
    )


def whole_epoch(epoch: EpochOrder) -> list[int]:
    return [int(sample) for pool in range(epoch.pools) for sample in epoch.samples(pool)]


@settings(deadline=None, max_examples=150)
@given(cuts(), st.integers(0, 2**40), st.integers(0, 1000))
def test_is_what_the_definition_says(cut: Cut, seed: int, number: int) -> None:
    expected = order_oracle.epoch(
        cut.samples, cut.block, cut.step, cut.pool_blocks, cut.lanes, cut.shuffle, seed, number
    )
    assert whole_epoch(cut.epoch(seed, number)) == expected


@settings(deadline=None, max_examples=150)
@given(cuts(), st.integers(0, 99), st.integers(1, 100))
def test_every_sample_once_and_ranks_take_turns(cut: Cut, number: int, ranks: int) -> None:
    epoch, world = cut.epoch(7, number), math.gcd(ranks, cut.lanes)
    together = whole_epoch(epoch)
    assert sorted(together) == list(range(cut.samples))
    for pool in range(epoch.pools):
        start = epoch.pool_start(pool)
        assert start % cut.lanes == 0
        own = together[start : epoch.pool_start(pool + 1)]
        for rank in range(world):
            assert epoch.samples(pool, rank, world).tolist() == own[rank::world]


@settings(deadline=None, max_examples=100)
@given(cuts(), st.integers(0, 99), st.integers(1, 100))
def test_with_too_many_blocks_to_hold_every_sample_comes_once_too(cut: Cut, number: int, ranks: int) -> None:
    world = math.gcd(ranks, cut.lanes)
    with patch("outofcore.loading.order.HELD_BLOCKS", 0):
        epoch = cut.epoch(7, number)
        together = whole_epoch(epoch)
        assert sorted(together) == list(range(cut.samples))
        for pool in range(epoch.pools):
            own = together[epoch.pool_start(pool) : epoch.pool_start(pool + 1)]
            assert epoch.samples(pool, world - 1, world).tolist() == own[world - 1 :: world]
            _, sizes = epoch.pool_blocks(pool)
            assert sizes.sum() == len(own)


def test_too_many_blocks_are_permuted_all_the_same() -> None:
    cut = Cut(samples=64_000, block=64, step=64, pool_blocks=16, shuffle=True)
    with patch("outofcore.loading.order.HELD_BLOCKS", 0):
        starts = [cut.epoch(seed, 1).pool_blocks(0)[0].tolist() for seed in range(4)]
    assert len({start for pool in starts for start in pool}) > 50
    assert all(np.ptp(pool) > 30_000 for pool in starts)


@settings(deadline=None, max_examples=60)
@given(cuts(), st.integers(0, 99), st.data())
def test_position_to_pool_and_sample(cut: Cut, number: int, data: st.DataObject) -> None:
    if cut.samples == 0:
        return
    position = data.draw(st.integers(0, cut.samples - 1))
    epoch = cut.epoch(3, number)
    pool = epoch.pool_of(position)
    assert epoch.pool_start(pool) <= position < epoch.pool_start(pool + 1)
    assert epoch.samples(pool)[position - epoch.pool_start(pool)] == whole_epoch(epoch)[position]


@settings(deadline=None, max_examples=100)
@given(cuts(), st.integers(0, 20))
def test_pools_are_bounded_and_the_last_is_not_tiny(cut: Cut, number: int) -> None:
    epoch = cut.epoch(1, number)
    starts = [epoch.pool_start(pool) for pool in range(epoch.pools + 1)]
    sizes = np.diff(starts)
    assert all(size <= cut.pool_blocks * cut.block for size in sizes[:-1])
    assert all(size < (cut.pool_blocks + 2) * cut.block for size in sizes[-1:])
    if len(sizes) > 1 and cut.pool_blocks >= 4:
        assert sizes[-1] * 3 >= max(sizes)
    if len(sizes) > 1 and cut.pool_blocks == 64 and cut.lanes == 16:
        assert all(size % (16 * cut.block) == 0 for size in sizes[:-1])


def test_ranks_read_blocks_of_their_own() -> None:
    cut = Cut(samples=64 * 40 * 16, block=64, step=64, pool_blocks=64, shuffle="blocks")
    epoch = cut.epoch(0, 0)
    for pool in range(epoch.pools - 1):
        blocks = [{int(sample) // 64 for sample in epoch.samples(pool, rank, 8)} for rank in range(8)]
        assert sum(map(len, blocks)) == len(set().union(*blocks))


def test_epochs_and_seeds_differ_and_repeat() -> None:
    cut = Cut(samples=5000, block=64, step=32, pool_blocks=8, shuffle="blocks")
    orders = {(seed, number): tuple(whole_epoch(cut.epoch(seed, number))) for seed in (0, 1) for number in (0, 1)}
    assert len(set(orders.values())) == 4
    assert orders[1, 1] == tuple(whole_epoch(cut.epoch(1, 1)))


def test_the_cut_moves_from_epoch_to_epoch() -> None:
    cut = Cut(samples=5000, block=64, step=16, pool_blocks=8, shuffle="blocks")
    assert {cut.epoch(0, number).shift for number in range(50)} == {0, 16, 32, 48}
