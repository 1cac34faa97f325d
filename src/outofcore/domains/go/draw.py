"""A position as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outofcore.domains.go.schema import KO, MOVE_NUMBER, SIZE, TO_PLAY
from outofcore.ndarrays import Bytes
from outofcore.store.schema import Columns

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
"""Columns of a board, without I."""
PLAYERS = ("Black", "White")


def frame_of(plane_bytes: int) -> int:
    """Board side for a packed plane of this many bytes."""
    return int((8 * plane_bytes) ** 0.5)


def points_of(rows: Columns) -> Bytes:
    """The first row's board, (size, size): 0 empty, 1 black, 2 white."""
    stones, size = rows["stones"][0], int(rows["state"][0][SIZE])
    frame = frame_of(stones.shape[-1])
    bits = np.unpackbits(stones, axis=-1, count=frame * frame).reshape(2, frame, frame)
    both: Bytes = (bits[0] + 2 * bits[1])[:size, :size]
    return both


def point_of(rows: Columns) -> tuple[int, int] | None:
    """Row and column of the first row's move; None for a pass."""
    frame, move = frame_of(rows["stones"].shape[-1]), int(rows["move"][0])
    return None if move == frame * frame else divmod(move, frame)


def draw(rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
    """Draw the first row: X Black, O White, with the move played in parentheses."""
    del attributes
    state, points, point = rows["state"][0], points_of(rows), point_of(rows)
    size, cells = len(points), np.array([" . ", " X ", " O "])[points]
    if point is not None:
        cells[point] = f"({cells[point].strip()})"
    lines = [f"{size - row:2d} {''.join(line)}".rstrip() for row, line in enumerate(cells.tolist())]
    lines.append("    " + "  ".join(LETTERS[:size]))
    ko = (
        ""
        if state[KO] < 0
        else f", {name_of(int(state[KO]), frame_of(rows['stones'].shape[-1]), size)} is forbidden by ko"
    )
    lines.append(f"move {int(state[MOVE_NUMBER]) + 1}: {played(rows)}{ko}")
    return "\n".join(lines)


def played(rows: Columns) -> str:
    """The first row's move: ``Black plays D4``."""
    state, move, frame = rows["state"][0], int(rows["move"][0]), frame_of(rows["stones"].shape[-1])
    what = "passes" if move == frame * frame else f"plays {name_of(move, frame, int(state[SIZE]))}"
    return f"{PLAYERS[int(state[TO_PLAY])]} {what}"


def name_of(move: int, frame: int, size: int) -> str:
    """A move as the Go Text Protocol has it: ``D4``, ``pass``."""
    return "pass" if move == frame * frame else f"{LETTERS[move % frame]}{size - move // frame}"
