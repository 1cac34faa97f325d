"""The eight symmetries of a board, for several board sizes in the frame of the largest."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes

SYMMETRIES = 8
OFF_BOARD = -1


@lru_cache(maxsize=32)
def tables(frame: int, sizes: tuple[int, ...]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int16]]:
    """Index tables of the symmetries for each board size.

    Symmetry s transposes if bit 0 is set, then flips vertically (bit 1) and horizontally (bit 2). Boards are in the top
    left corner of the frame. ``source`` (26, 8, frame * frame) uint16 is the point shown at each point, frame * frame
    outside the board; ``target`` (26, 8, frame * frame + 1) int16 is where each point is shown, ``OFF_BOARD`` outside
    the board, and a pass (the last) stays a pass. Both are indexed by size and symmetry; unused sizes have no points.
    """
    source = np.full((26, SYMMETRIES, frame * frame), frame * frame, np.uint16)
    target = np.full((26, SYMMETRIES, frame * frame + 1), OFF_BOARD, np.int16)
    target[..., -1] = frame * frame
    points = np.arange(frame * frame, dtype=np.uint16).reshape(frame, frame)
    for size in sizes:
        for symmetry in range(SYMMETRIES):
            shown = points[:size, :size]
            if symmetry & 1:
                shown = shown.T
            if symmetry & 2:
                shown = shown[::-1]
            if symmetry & 4:
                shown = shown[:, ::-1]
            source[size, symmetry].reshape(frame, frame)[:size, :size] = shown
            target[size, symmetry, shown.ravel()] = points[:size, :size].ravel()
    return source, target


@lru_cache(maxsize=32)
def on_boards(frame: int, sizes: tuple[int, ...]) -> Bytes:
    """On-board points, uint8 (26, frame, frame) by size."""
    source, _ = tables(frame, sizes)
    return (source[:, 0] < frame * frame).astype(np.uint8).reshape(-1, frame, frame)
