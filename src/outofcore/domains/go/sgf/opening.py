"""How games open: the stones set up, and who plays first; from this the handicap follows."""

from __future__ import annotations

import numpy as np

from outofcore.domains.go.sgf.reader import ADD_BLACK, BLACK, WHITE, MainLines
from outofcore.ndarrays import Ints
from outofcore.system.compilation import kernel

OPENING = ("black_stones", "other_setup", "node", "leading_black", "first_colour")
"""Facts about the opening of a game, by column of :func:`openings`."""


def openings(games: MainLines) -> Ints:
    """Facts about the opening of each game, int64 (games, columns of :data:`OPENING`).

    Points of black setup before the first move; of other setup; node of the first setup (-1 if none); Black's moves
    before White's first; colour of the first move (-1 if none).
    """
    facts = np.zeros((len(games.status), len(OPENING)), np.int64)
    _openings(games, facts)
    return facts


@kernel
def _openings(games: MainLines, facts: Ints) -> None:
    first, kinds, points, nodes = games.first, games.kind, games.points, games.node
    for game in range(len(facts)):
        facts[game, 2] = facts[game, 4] = -1
        for event in range(first[game], first[game + 1]):
            kind = kinds[event]
            if kind == WHITE:
                if facts[game, 4] < 0:
                    facts[game, 4] = WHITE
                break
            if kind == BLACK:
                facts[game, 3] += 1
                facts[game, 4] = BLACK
            elif facts[game, 3] == 0:
                left, top, right, bottom = points[event]
                columns = abs(np.int64(right) - np.int64(left)) + 1  # uint8 would wrap around
                rows = abs(np.int64(bottom) - np.int64(top)) + 1
                facts[game, 0 if kind == ADD_BLACK else 1] += columns * rows
                if facts[game, 2] < 0:
                    facts[game, 2] = nodes[event]
