"""Packed bits of stored positions to bytes of planes in any of eight symmetries, in compiled code without the GIL."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.schema import KO, MOVE_NUMBER, SIZE, TO_PLAY
from outofcore.ndarrays import Bytes
from outofcore.system.compilation import inner_kernel, kernel

SYMMETRIES = 8
OFF_BOARD = -1

_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
"""The 8 points of a packed byte, one byte each."""


@lru_cache(maxsize=32)
def tables(frame: int, sizes: tuple[int, ...]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int16]]:
    """Index tables of the symmetries for each board size, for boards of several sizes in the frame of the largest.

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


@inner_kernel
def _draw(packed: Any, plane: Any) -> None:
    """Fill a plane in stored orientation."""
    for number in range(len(plane) >> 3):
        byte = packed[number]
        for bit in range(8):
            plane[8 * number + bit] = _BYTES[byte, bit]
    for point in range(len(plane) & ~7, len(plane)):
        plane[point] = _BYTES[packed[point >> 3], point & 7]


@inner_kernel
def _turn(packed: Any, points: Any, scratch: Any, plane: Any) -> None:
    """Fill a plane with each point taken from ``points``; ``scratch`` holds all bits followed by zeros."""
    _draw(packed, scratch[: 8 * len(packed)])
    for point in range(len(plane)):
        plane[point] = scratch[points[point]]


@kernel
def widen(
    stones: Bytes,
    state: npt.NDArray[np.int16],
    moves: npt.NDArray[np.int16],
    symmetry: Bytes,
    source: Any,
    target: Any,
    boards: int,
    recent: int,
    scratch: Bytes,
    planes: Bytes,
) -> int:
    """Fill the planes of :class:`outofcore.domains.go.tensors.GoReading`, (samples, planes, points).

    ``stones`` (samples, steps, 2, bytes), ``state`` (samples, steps, 4) and ``moves`` (samples, steps) end with the row
    of the sample; ``symmetry`` is (samples,). ``source`` and ``target`` come from :func:`tables`. Of ``boards`` steps
    the stones are drawn; the ko plane and a plane for each of ``recent`` moves follow, or two planes of the colour to
    play where ``recent`` is negative. ``scratch`` has a byte for each bit of a stored plane, then 8 zeros.
    Returns -1, or the number of a sample whose colour, size, ko point or move is none.
    """
    points = planes.shape[2]
    frame = int(np.sqrt(points))
    last = stones.shape[1] - 1
    for sample in range(len(stones)):
        size, colour = state[sample, last, SIZE], state[sample, last, TO_PLAY]
        played, ko = state[sample, last, MOVE_NUMBER], state[sample, last, KO]
        if not (
            0 <= colour < 2 and 0 <= size < len(source) and -1 <= ko < points and 0 <= moves[sample, last] <= points
        ):
            return sample
        source_points, target_points = source[size, symmetry[sample]], target[size, symmetry[sample]]
        plain = symmetry[sample] == 0 and size == frame
        for back in range(boards):
            own, other = planes[sample, 2 * back], planes[sample, 2 * back + 1]
            if played - state[sample, last - back, MOVE_NUMBER] == back:
                row = stones[sample, last - back]
                if plain:
                    _draw(row[colour], own)
                    _draw(row[1 - colour], other)
                else:
                    _turn(row[colour], source_points, scratch, own)
                    _turn(row[1 - colour], source_points, scratch, other)
            else:  # of an earlier game
                own[:] = 0
                other[:] = 0
        plane = 2 * boards
        if recent >= 0:
            planes[sample, plane : plane + 1 + recent] = 0
            if ko >= 0:
                planes[sample, plane, target_points[ko]] = 1
            for back in range(1, recent + 1):
                before = moves[sample, last - back]
                if played - state[sample, last - back, MOVE_NUMBER] == back and 0 <= before < points:
                    planes[sample, plane + back, target_points[before]] = 1
        else:
            planes[sample, plane + 1 - colour] = 0
            own = planes[sample, plane + colour]
            for point in range(points):
                own[point] = source_points[point] < points
    return -1
