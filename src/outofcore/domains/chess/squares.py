"""Stored boards, two squares per byte, as ranks of bytes, bitboards or single squares, for compiled code.

A board is four words: byte ``file`` of word ``pair`` holds the piece on that file of rank ``2 * pair`` in its lower
four bits, and the piece one rank further up in its upper four. Pieces are 1 to 6, pawn to king, plus 8 if Black's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.bitboards import upside_down
from outofcore.system.compilation import inner_kernel, kernel, njit

KING, ROOK, BLACK = 6, 4, 8
_ONES = np.uint64(0x0101_0101_0101_0101)
_LOW_BITS = np.uint64(0x0F0F_0F0F_0F0F_0F0F)
# Its product with eight bytes of 0 or 1 has them as the bits of its highest byte.
_GATHER = np.uint64(0x0102_0408_1020_4080)
_HIGHEST_BYTE = np.uint64(56)


def as_words(squares: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Stored ``squares`` (..., 4, 8) as the words of compiled code, (..., 4)."""
    return np.ascontiguousarray(squares).reshape(*squares.shape[:-2], 32).view(np.uint64)


@inner_kernel
def unpack_ranks(squares: Any, turned: Any, mirrored: Any, ranks: Any) -> None:
    """Fill ``ranks`` (8,), a byte per square, from rank 1 or, ``turned``, rank 8; from file a or, ``mirrored``, h."""
    for rank in range(8):
        word = squares[rank >> 1] >> np.uint64((rank & 1) << 2) & _LOW_BITS
        ranks[7 - rank if turned else rank] = upside_down(word) if mirrored else word


@inner_kernel
def to_bitboards(ranks: Any, boards: Any) -> None:
    """Fill ``boards`` (12,): pawns, knights, bishops, rooks, queens and king of White, then of Black."""
    one, two, four, black = _with_bit(ranks, 0), _with_bit(ranks, 1), _with_bit(ranks, 2), _with_bit(ranks, 3)
    boards[0], boards[1], boards[2] = one & ~two & ~four, two & ~one & ~four, one & two
    boards[3], boards[4], boards[5] = four & ~one & ~two, four & one, four & two
    for piece in range(6):
        boards[piece + 6] = boards[piece] & black
        boards[piece] &= ~black


@njit(nogil=True, cache=True)
def bitboards(squares: Any) -> Any:
    """Boards (n, 4) as bitboards (n, 12); see :func:`to_bitboards`."""
    ranks, boards = np.empty(8, np.uint64), np.empty((len(squares), 12), np.uint64)
    for n in range(len(squares)):
        unpack_ranks(squares[n], False, False, ranks)  # noqa: FBT003 - compiled code takes no keywords
        to_bitboards(ranks, boards[n])
    return boards


@inner_kernel
def _with_bit(ranks: Any, number: Any) -> Any:
    """Squares whose piece has a bit set."""
    found = np.uint64(0)
    for rank in range(8):
        bits = ranks[rank] >> np.uint64(number) & _ONES
        found |= (bits * _GATHER >> _HIGHEST_BYTE) << np.uint64(8 * rank)
    return found


@kernel
def piece_at(squares: Any, square: Any) -> Any:
    """Piece on a square, 0 if it is empty."""
    shift = (square & 7) << 3 | (square >> 3 & 1) << 2
    return np.int64(squares[square >> 4] >> np.uint64(shift) & np.uint64(15))
