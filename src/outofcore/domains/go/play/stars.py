"""Customary handicap points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def star_points(size: int, stones: int) -> list[tuple[int, int]]:
    """Handicap points (row, column) of the Go Text Protocol; empty if the board has none for so many stones."""
    if not 2 <= stones <= 9 or size < 7 or (stones > 4 and (size % 2 == 0 or size == 7)):
        return []
    near = 3 if size >= 13 else 2
    far, middle = size - 1 - near, size // 2
    corners = [(far, near), (near, far), (near, near), (far, far)]
    if stones < 4:
        return corners[:stones]
    sides = {
        4: [],
        5: [(middle, middle)],
        6: [(middle, near), (middle, far)],
        7: [(middle, near), (middle, far), (middle, middle)],
        8: [(middle, near), (middle, far), (near, middle), (far, middle)],
        9: [(middle, near), (middle, far), (near, middle), (far, middle), (middle, middle)],
    }
    return corners + sides[stones]


def _star_table() -> npt.NDArray[np.int64]:
    table = np.full((26, 10, 9, 2), -1, np.int64)
    for size in range(7, 26):
        for stones in range(2, 10):
            for place, point in enumerate(star_points(size, stones)):
                table[size, stones, place] = point
    return table


STARS = _star_table()
"""Row and column of each point by board size and number of stones, int64 (26, 10, 9, 2); -1: none."""
