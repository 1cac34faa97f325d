"""Sets of squares in 64 bits and the attacks of pieces, for compiled code.

Bit ``8 * rank + file``: a1 is bit 0, h1 bit 7, h8 bit 63. Swapping the bytes flips a bitboard vertically. Compiled
callers in other modules inline these functions, and their cache only tracks the caller's module: after a change here,
remove ``__pycache__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from outofcore.system.compilation import inner_kernel

Bitboards = npt.NDArray[np.uint64]

# Directions clockwise from "up", as (file, rank) steps: rooks take the even ones, bishops the odd ones.
STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
ROOK, BISHOP = 0, 1
# Along directions 0, 1, 2 and 7 square numbers grow, so that the nearest piece is the lowest bit.
_FIRST, _LAST = np.uint64(1), np.uint64(1 << 63)


def _reach(steps: tuple[tuple[int, int], ...], distance: int) -> Bitboards:
    """For each square, the squares up to ``steps`` away on an empty board."""
    table = np.zeros(64, np.uint64)
    for square in range(64):
        for file_step, rank_step in steps:
            for n in range(1, distance + 1):
                file, rank = square % 8 + n * file_step, square // 8 + n * rank_step
                if 0 <= file < 8 and 0 <= rank < 8:
                    table[square] |= np.uint64(1 << 8 * rank + file)
    return table


KNIGHT = _reach(((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)), 1)
KING = _reach(STEPS, 1)
PAWN_UP = _reach(((-1, 1), (1, 1)), 1)
PAWN_DOWN = _reach(((-1, -1), (1, -1)), 1)
RAYS = np.stack([_reach((step,), 7) for step in STEPS])


def _lines() -> tuple[Bitboards, Bitboards]:
    """For two squares on one line: the squares strictly between them, and the whole line; else empty."""
    between, line = np.zeros((64, 64), np.uint64), np.zeros((64, 64), np.uint64)
    for a in range(64):
        for direction in range(8):
            forth, back = RAYS[direction, a], RAYS[(direction + 4) % 8, a]
            for b in range(64):
                if int(forth) >> b & 1:
                    between[a, b] = forth & RAYS[(direction + 4) % 8, b]
                    line[a, b] = forth | back | np.uint64(1 << a)
    return between, line


BETWEEN, LINE = _lines()


def _instruction(name: str, *flags: Any) -> Callable[..., int]:
    """A function of one 64-bit word that compiles to one machine instruction, by its name in LLVM's builder."""

    def typed(context: Any, word: Any) -> tuple[Any, Callable[..., Any]]:
        del context, word

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(arguments[0], *flags)

        return types.uint64(types.uint64), generate

    function: Callable[..., int] = intrinsic(typed)
    return function


# The flag asserts that the word is never 0.
_trailing_zeros = _instruction("cttz", cgutils.true_bit)
_leading_zeros = _instruction("ctlz", cgutils.true_bit)
upside_down = _instruction("bswap")


@inner_kernel
def lowest(squares: Any) -> Any:
    """Number of the lowest square of a non-empty set."""
    return np.int64(_trailing_zeros(squares))


@inner_kernel
def highest(squares: Any) -> Any:
    """Number of the highest square of a non-empty set."""
    return 63 - np.int64(_leading_zeros(squares))


@inner_kernel
def bit(square: Any) -> Any:
    """The set of one square."""
    return np.uint64(1) << np.uint64(square)


@inner_kernel
def _upwards(direction: Any, square: Any, occupied: Any) -> Any:
    """Squares in a direction of increasing numbers up to the first piece; the last square ends any ray."""
    ray = RAYS[direction, square]
    return ray ^ RAYS[direction, lowest(ray & occupied | _LAST)]


@inner_kernel
def _downwards(direction: Any, square: Any, occupied: Any) -> Any:
    """Squares in a direction of decreasing numbers up to the first piece; the first square ends any ray."""
    ray = RAYS[direction, square]
    return ray ^ RAYS[direction, highest(ray & occupied | _FIRST)]


@inner_kernel
def slides(square: Any, occupied: Any, kind: Any) -> Any:
    """Squares that a rook (``kind`` 0) or a bishop (1) attacks, including the first piece on each line."""
    up = _upwards(kind, square, occupied) | _upwards(7 if kind == BISHOP else 2, square, occupied)
    down = _downwards(4 - kind, square, occupied) | _downwards(6 - kind, square, occupied)
    return up | down
