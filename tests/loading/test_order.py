"""What a pool takes at most: counted, and bounded where there are too many blocks to count."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.loading.order import PlainSampler, cut_samples
from outofcore.loading.windows import Window, Windows, touched

CHUNK_ROWS = 32


@settings(deadline=None, max_examples=80)
@given(
    st.integers(1, 4000),
    st.sampled_from([None, ("pack", 7, 3), ("pack", 33, 33), ("pack", 5, 11), ("reach", 40, 1)]),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([None, 16, 64, 100]),
)
def test_no_pool_touches_more_chunks_than_are_said(
    rows: int, shape: tuple[Any, int, int] | None, phase: bool, pool_blocks: int, block_rows: int | None
) -> None:
    window = Window(mode=shape[0], length=shape[1], stride=shape[2]) if shape else None
    windows = Windows(rows, window, phase=phase and window is not None and window.mode == "pack", sequences=_none)
    cut = cut_samples(windows, CHUNK_ROWS, True, pool_blocks, block_rows)
    plain = PlainSampler(windows, cut, 0, CHUNK_ROWS)
    with patch("outofcore.loading.order._COUNTED", 0):
        bounded = PlainSampler(windows, cut, 0, CHUNK_ROWS).pool_chunks(1)
    chunks = -(-rows // CHUNK_ROWS)
    for number in range(3):
        epoch = plain.epoch(number)
        for pool in range(epoch.pools):
            first = windows.first_rows(epoch.samples(pool), windows.phase_of(0, number))
            needed = len(touched(first, windows.length, CHUNK_ROWS, chunks))
            assert needed <= plain.pool_chunks(1) <= bounded


def _none() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    raise AssertionError
