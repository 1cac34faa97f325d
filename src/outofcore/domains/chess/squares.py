"""Stored boards, two squares per byte, as ranks of bytes, single squares or bitboards.

A board is four words: byte ``file`` of word ``pair`` holds the piece on that file of rank ``2 * pair`` in its lower
four bits, and the piece one rank further up in its upper four. Pieces are 1 to 6, pawn to king, plus 8 if Black's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.codes import CODES
from outofcore.ndarrays import Bytes
from outofcore.system.compilation import inner_kernel, kernel

PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = 1, 2, 3, 4, 5, 6
BLACK = 8
_LOW_BITS = np.uint64(0x0F0F_0F0F_0F0F_0F0F)


def as_words(squares: Bytes) -> npt.NDArray[np.uint64]:
    """Stored ``squares`` (..., 4, 8) as the words of compiled code, (..., 4)."""
    return np.ascontiguousarray(squares).reshape(*squares.shape[:-2], 32).view(np.uint64)


@inner_kernel
def unpack_ranks(squares: Any, turned: Any, mirrored: Any, ranks: Any) -> None:
    """Fill ``ranks`` (8,), a byte per square, from rank 1 or, ``turned``, rank 8; from file a or, ``mirrored``, h."""
    for rank in range(8):
        word = squares[rank >> 1] >> np.uint64((rank & 1) << 2) & _LOW_BITS
        ranks[7 - rank if turned else rank] = _reversed(word) if mirrored else word


@inner_kernel
def _reversed(word: Any) -> Any:
    """The bytes of a word the other way round."""
    result = np.uint64(0)
    for byte in range(8):
        result |= (word >> np.uint64(8 * byte) & np.uint64(255)) << np.uint64(56 - 8 * byte)
    return result


def bitboards(squares: Bytes) -> npt.NDArray[np.uint64]:
    """Stored ``squares`` (n, 4, 8) as sets of squares, (n, 12): pawns to king of White, then of Black; a1 is bit 0."""
    pieces = np.stack([squares & 15, squares >> 4], axis=2).reshape(len(squares), 1, 64)
    sets = pieces == np.array(list(CODES.values()), np.uint8)[:, None]
    return np.packbits(sets, axis=2, bitorder="little").view(np.uint64)[..., 0]


@kernel
def piece_at(squares: Any, square: Any) -> Any:
    """Piece on a square, 0 if it is empty."""
    shift = (square & 7) << 3 | (square >> 3 & 1) << 2
    return np.int64(squares[square >> 4] >> np.uint64(shift) & np.uint64(15))
