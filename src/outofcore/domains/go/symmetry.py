"""The eight symmetries of a board, for boards of several sizes in the frame of the largest."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

SYMMETRIES = 8
OFF_BOARD = -1


@lru_cache(maxsize=32)
def tables(frame: int, sizes: tuple[int, ...]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int16]]:
    """Where points come from and go to.

    Symmetry s transposes where bit 0 is set, then turns the board upside down (bit 1), then left to right (bit 2).

    Parameters
    ----------
    frame
        Side of the frame; a board stands in its top left corner.
    sizes
        Sides of the boards that occur.

    Returns
    -------
    tuple
        ``source`` (26, 8, frame * frame) uint16: the point that is shown at each point, frame * frame outside the
        board; and ``target`` (26, 8, frame * frame + 1) int16: where each point is shown, a pass (the last) staying a
        pass, ``OFF_BOARD`` for points that the board has not. Both by size and symmetry; of sizes that do not occur no
        point is on the board.
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
def boards(frame: int, sizes: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Points that are on the board, uint8 (26, frame, frame) by size."""
    source, _ = tables(frame, sizes)
    return (source[:, 0] < frame * frame).astype(np.uint8).reshape(-1, frame, frame)
