"""What a pool takes at most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.loading.rows import Rows
from outofcore.order.plain import InOrder, PlainSampler, Shuffle
from outofcore.order.windows import Window, Windows, touched
from tests.loading.conftest import Unread

CHUNK_ROWS = 32


def numbered(lengths: list[int]) -> Rows:
    fields: Any = [{"x": Unread(length, CHUNK_ROWS)} for length in lengths]
    return Rows(fields)


LENGTHS = np.random.default_rng(0).integers(1, 300, 200)
SHAPES = {
    "rows": None,
    "overlapping": Window(length=40, stride=8),
    "with gaps": Window(length=5, stride=11),
    "inside sequences": Window(length=20, stride=5, mode="never"),
    "reaching back": Window(length=50, mode="reach"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("phase", [False, True])
@pytest.mark.parametrize(("world", "most"), [(1, 1.25), (4, 2.2), (16, 2.4)])
def test_the_chunks_that_are_said_are_enough_and_not_many_more(
    shape: str, phase: bool, world: int, most: float
) -> None:
    ends = np.cumsum(LENGTHS)
    windows = Windows(int(ends[-1]), SHAPES[shape], phase=phase, sequences=lambda: (ends - LENGTHS, LENGTHS))
    plain = PlainSampler(windows, CHUNK_ROWS, 0, Shuffle(pool_blocks=32))
    chunks = -(-windows.rows // CHUNK_ROWS)
    needed = 0
    for number in range(8):
        epoch = plain.epoch(number)
        for pool in range(epoch.pools):
            for rank in range(world):
                first = windows.first_rows(epoch.samples(pool, rank, world), windows.phase_of(0, number))
                needed = max(needed, len(touched(first, windows.length, CHUNK_ROWS, np.zeros(chunks, np.int64))))
    assert needed <= plain.pool_chunks(world) <= most * needed


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 700), min_size=2, max_size=9),
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([True, False]),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([None, 16, 64, 128]),
)
def test_of_several_stores_no_pool_touches_more_chunks_than_are_said(
    lengths: list[int], shape: str, shuffle: bool, phase: bool, pool_blocks: int, block_rows: int | None
) -> None:
    rows, window = numbered(lengths), SHAPES[shape]
    runs = rows.origins, rows.lengths
    windows = Windows(len(rows), window, phase=phase, runs=runs, sequences=lambda: runs)
    sampling = (Shuffle if shuffle else InOrder)(pool_blocks=pool_blocks, block_rows=block_rows)
    plain = PlainSampler(windows, CHUNK_ROWS, 0, sampling)
    for number in range(3):
        epoch = plain.epoch(number)
        for pool in range(epoch.pools):
            starts = windows.first_rows(epoch.samples(pool), windows.phase_of(0, number))
            chunks = touched(starts, windows.length, CHUNK_ROWS, rows.chunk_origins())
            assert len(chunks) <= plain.pool_chunks(1)


def test_blocks_of_several_stores_are_whole_chunks() -> None:
    """Twelve stores that end in the middle of a chunk: a pool reads no more chunks than one of a single store."""
    rows = numbered([40 * CHUNK_ROWS + 7 * number for number in range(12)])
    windows = Windows(len(rows), runs=(rows.origins, rows.lengths))
    plain = PlainSampler(windows, CHUNK_ROWS, 0, Shuffle(pool_blocks=64))
    assert plain.pool_chunks(1) == 64


@pytest.mark.parametrize("window", [None, Window(length=1025, stride=1024)])
@pytest.mark.parametrize("rows", [2**31, 2**40])
def test_a_trillion_rows_are_ordered_in_seconds(rows: int, window: Window | None) -> None:
    """In chunks of half a megabyte or more, as such a store has them; the table takes a few bytes per chunk."""
    chunk_rows = 1 << 20
    windows = Windows(rows, window)
    plain = PlainSampler(windows, chunk_rows, 0, Shuffle(pool_blocks=64))
    assert plain.table_bytes < 80 * rows // chunk_rows + 1000
    assert plain.pool_chunks(1) <= 64 * 5
    epoch = plain.epoch(3)
    assert epoch.pool_start(epoch.pools) == plain.positions
    for pool in (0, epoch.pools // 2, epoch.pools - 1):
        samples = epoch.samples(pool, 3, 16)
        assert len(samples) <= plain.pool_samples(16)
        assert (np.diff(np.sort(samples)) > 0).all()
        assert (samples.min() >= 0) & (samples.max() < plain.positions)
        assert epoch.pool_of(epoch.pool_start(pool)) == pool
