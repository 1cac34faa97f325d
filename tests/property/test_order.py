"""The order against its oracle, for anything that a store and a user may ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.order.plain import EpochOrder, InOrder, PlainSampler, Pools, Shuffle
from outofcore.order.windows import Window, Windows, touched
from tests.property import order_oracle

SAMPLINGS: st.SearchStrategy[Pools] = st.sampled_from([Shuffle(), Shuffle(full=True), InOrder()])


@dataclass(frozen=True)
class Layout:
    """Samples, the rows at which they begin, and how they are cut."""

    windows: Windows
    begin: list[int]
    chunk_rows: int
    block_chunks: int
    pool_blocks: int
    lanes: int
    sampling: Pools

    def sampler(self, seed: int) -> PlainSampler:
        cut = {"block_rows": self.block_chunks * self.chunk_rows, "pool_blocks": self.pool_blocks, "lanes": self.lanes}
        return PlainSampler(self.windows, self.chunk_rows, seed, replace(self.sampling, **cut))

    def expected(self, seed: int, number: int) -> list[int]:
        cut = self.chunk_rows, self.block_chunks, self.pool_blocks, self.lanes, self.sampling.by
        return order_oracle.epoch(self.begin, *cut, seed, number)


@st.composite
def layouts(draw: st.DrawFn, selection: bool = False) -> Layout:
    """Rows or windows of runs of rows, as of several stores or sequences; or of a selection, some with a phase."""
    runs = draw(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 500)), min_size=1, max_size=9))
    ends = list(accumulate(gap + length for gap, length in runs))
    pairs = [(end - length, length) for end, (_, length) in zip(ends, runs, strict=True)]
    starts, lengths = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    length, stride = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    mode = draw(st.sampled_from([None, "pack", "never", "reach"]))
    window = Window(length=length, stride=1 if mode == "reach" else stride, mode=mode) if mode else None
    begin = [row for start, count in pairs for row in range(start, start + count)]
    if mode in ("pack", "never"):
        begin = [row for start, count in pairs for row in range(start, start + count - length + 1, stride)]
    of_selection: Any = {"origins": np.zeros(1, np.int64), "phase": draw(st.booleans())} if selection else {}
    windows = Windows(
        int(lengths.sum()), window, runs=(starts, lengths), sequences=lambda: (starts, lengths), **of_selection
    )
    return Layout(
        windows,
        begin,
        chunk_rows=draw(st.integers(1, 70)),
        block_chunks=draw(st.integers(1, 8)),
        pool_blocks=draw(st.one_of(st.integers(1, 9), st.sampled_from([16, 32, 64]))),
        lanes=draw(st.sampled_from([16, 16, 16, 1, 3, 24, 64])),
        sampling=draw(SAMPLINGS),
    )


def rows(count: int, chunk_rows: int, block_chunks: int, pool_blocks: int, lanes: int = 16) -> Layout:
    return Layout(Windows(count), list(range(count)), chunk_rows, block_chunks, pool_blocks, lanes, Shuffle())


def whole_epoch(epoch: EpochOrder) -> list[int]:
    return [int(sample) for pool in range(epoch.pools) for sample in epoch.samples(pool)]


@settings(deadline=None, max_examples=200)
@given(layouts(), st.integers(0, 2**40), st.integers(0, 1000))
def test_is_what_the_definition_says(layout: Layout, seed: int, number: int) -> None:
    assert whole_epoch(layout.sampler(seed).epoch(number)) == layout.expected(seed, number)


@settings(deadline=None, max_examples=150)
@given(layouts(), st.integers(0, 99), st.integers(1, 100))
def test_every_sample_once_and_ranks_take_turns(layout: Layout, number: int, ranks: int) -> None:
    epoch, world = layout.sampler(7).epoch(number), math.gcd(ranks, layout.lanes)
    together = whole_epoch(epoch)
    assert sorted(together) == list(range(len(layout.begin)))
    for pool in range(epoch.pools):
        start = epoch.pool_start(pool)
        own = together[start : epoch.pool_start(pool + 1)]
        for rank in range(world):
            assert epoch.samples(pool, rank, world).tolist() == own[(rank - start) % world :: world]


@settings(deadline=None, max_examples=100)
@given(layouts(), st.integers(0, 20))
def test_pools_have_equal_numbers_of_blocks_and_share_no_chunk(layout: Layout, number: int) -> None:
    if layout.sampling.by != "blocks":
        return
    epoch, seen = layout.sampler(1).epoch(number), set[int]()
    counts = [len(epoch.pool_blocks(pool)[0]) for pool in range(epoch.pools)]
    assert all(count <= layout.pool_blocks for count in counts)
    assert max(counts, default=0) - min(counts, default=0) <= 1
    for pool in range(epoch.pools):
        chunks = {layout.begin[sample] // layout.chunk_rows for sample in epoch.samples(pool)}
        assert not chunks & seen
        seen |= chunks


@settings(deadline=None, max_examples=100)
@given(layouts(), st.integers(0, 20), st.sampled_from([1, 2, 4, 8]))
def test_no_pool_of_a_rank_has_more_samples_than_are_said(layout: Layout, number: int, ranks: int) -> None:
    sampler, world = layout.sampler(1), math.gcd(ranks, layout.lanes)
    epoch = sampler.epoch(number)
    sizes = [len(epoch.samples(pool, rank, world)) for pool in range(epoch.pools) for rank in range(world)]
    assert max(sizes, default=0) <= sampler.pool_samples(world)


@settings(deadline=None, max_examples=60)
@given(layouts(selection=True), st.sampled_from([1, 4, 16]))
def test_no_pool_of_a_rank_touches_more_chunks_than_are_said(layout: Layout, ranks: int) -> None:
    sampler, windows, world = layout.sampler(0), layout.windows, math.gcd(ranks, layout.lanes)
    chunk_origins = np.zeros(windows.span // layout.chunk_rows + 1, np.int64)
    for number in range(3):
        epoch, phase = sampler.epoch(number), windows.phase_of(0, number)
        for pool in range(epoch.pools):
            for rank in range(world):
                first_rows = windows.first_rows(epoch.samples(pool, rank, world), phase)
                chunks = touched(first_rows, windows.length, layout.chunk_rows, chunk_origins)
                assert len(chunks) <= sampler.pool_chunks(world)
                assert set(chunks.tolist()) <= set(windows.chunks(layout.chunk_rows).tolist())


def test_ranks_read_chunks_of_their_own() -> None:
    epoch = rows(64 * 40 * 16, 64, 1, 64).sampler(0).epoch(0)
    for pool in range(epoch.pools):
        chunks = [{int(sample) // 64 for sample in epoch.samples(pool, rank, 8)} for rank in range(8)]
        assert sum(map(len, chunks)) == len(set().union(*chunks))
