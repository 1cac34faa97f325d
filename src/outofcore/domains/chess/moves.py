"""The two move vocabularies, as tables between stored moves and class indices.

A stored move is 16 bits: ``from | to << 6 | promotion << 12`` with squares 0 (a1) to 63 (h8), eight times the rank plus
the file, and promotion 0 (none), 1 (knight), 2 (bishop), 3 (rook), 4 (queen).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

KNIGHT, BISHOP, ROOK, QUEEN = 1, 2, 3, 4
PROMOTION_LETTERS = ("", "n", "b", "r", "q")
CODES = 5 << 12
"""Stored moves are smaller than this."""

# Directions as (file, rank) steps, clockwise from the top of the board.
QUEEN_STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
KNIGHT_STEPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
_ALPHAZERO_PLANES = 73


def move_code(from_square: int, to_square: int, promotion: int = 0) -> int:
    """The 16 bits of a stored move."""
    return from_square | to_square << 6 | promotion << 12


def uci(code: int) -> str:
    """A stored move in UCI notation: ``uci(move_code(12, 28))`` is ``"e2e4"``."""
    from_square, to_square, promotion = code & 63, code >> 6 & 63, code >> 12
    return _square(from_square) + _square(to_square) + PROMOTION_LETTERS[promotion]


def flip_code(code: int) -> int:
    """The same move on the vertically flipped board (rank 1 becomes rank 8), as the other colour sees it."""
    return code ^ (56 | 56 << 6)


def mirror_code(code: int) -> int:
    """The same move on the horizontally mirrored board (file a becomes file h)."""
    return code ^ (7 | 7 << 6)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A numbering of all moves possible in any position.

    ``uci``: the 1792 moves of a queen or a knight on an empty board and the 176 promotions of both colours, by square
    of departure, square of arrival, piece. ``alphazero``: 64 squares of departure times 73 planes: 56 moves of a queen
    (8 directions clockwise from "up", 7 distances), 8 knight moves, 9 underpromotions (knight, bishop, rook; to the
    left, straight, to the right). A promotion to a queen is the queen move (Silver et al. 2017, "Mastering Chess and
    Shogi by Self-Play with a General Reinforcement Learning Algorithm", table S2).
    """

    size: int  # 1968 or 4672
    index: npt.NDArray[np.int16]  # (CODES,) int16: stored move -> class, or -1
    # (size,) int32: class -> stored move (alphazero: without queen promotion), -1 if off the board
    codes: npt.NDArray[np.int32]


@cache
def vocabulary(name: Literal["uci", "alphazero"]) -> Vocabulary:
    """The vocabulary of that name, cached."""
    index, codes = _uci_tables() if name == "uci" else _alphazero_tables()
    for table in (index, codes):
        table.setflags(write=False)
    return Vocabulary(len(codes), index, codes)


def _square(square: int) -> str:
    return "abcdefgh"[square & 7] + str((square >> 3) + 1)


def _target(square: int, step: tuple[int, int], distance: int = 1) -> int | None:
    file, rank = (square & 7) + distance * step[0], (square >> 3) + distance * step[1]
    return 8 * rank + file if 0 <= file < 8 and 0 <= rank < 8 else None


def _promotes(from_square: int, to_square: int) -> bool:
    """Whether a pawn of either colour could make this move and promote."""
    ranks = (from_square >> 3, to_square >> 3)
    return ranks in ((6, 7), (1, 0)) and abs((from_square & 7) - (to_square & 7)) <= 1


def _uci_tables() -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int32]]:
    codes = []
    for start in range(64):
        slides = (_target(start, step, distance) for step in QUEEN_STEPS for distance in range(1, 8))
        leaps = (_target(start, step) for step in KNIGHT_STEPS)
        for end in sorted(square for square in (*slides, *leaps) if square is not None):
            codes.append(move_code(start, end))
            if _promotes(start, end):
                codes += [move_code(start, end, piece) for piece in (KNIGHT, BISHOP, ROOK, QUEEN)]
    index = np.full(CODES, -1, np.int16)
    index[codes] = np.arange(len(codes))
    return index, np.array(codes, np.int32)


def _alphazero_tables() -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int32]]:
    index = np.full(CODES, -1, np.int16)
    codes = np.full(64 * _ALPHAZERO_PLANES, -1, np.int32)
    for start in range(64):
        slides = [_target(start, step, distance) for step in QUEEN_STEPS for distance in range(1, 8)]
        leaps = [_target(start, step) for step in KNIGHT_STEPS]
        for plane, end in enumerate(slides + leaps):
            if end is None:
                continue
            number = start * _ALPHAZERO_PLANES + plane
            codes[number] = move_code(start, end)
            index[move_code(start, end)] = number
            if _promotes(start, end):
                index[move_code(start, end, QUEEN)] = number
        forward = {6: 1, 1: -1}.get(start >> 3)
        if forward is None:
            continue
        for piece in (KNIGHT, BISHOP, ROOK):
            for sideways in (-1, 0, 1):
                end = _target(start, (sideways, forward))
                if end is not None:
                    number = start * _ALPHAZERO_PLANES + 64 + 3 * (piece - 1) + sideways + 1
                    codes[number] = move_code(start, end, piece)
                    index[move_code(start, end, piece)] = number
    return index, codes
