"""Bits of stored positions to bytes of planes, and stored moves to classes, in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.compilation import kernel
from outofcore.domains.chess.bitboards import bit
from outofcore.domains.chess.legal import NO_FILE

_PIECES = 12


def _rank_tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Expansions of a rank's byte, as is or mirrored: (2, 256) bytes, and words of 8 bytes of 0 and 1."""
    plain = np.arange(256, dtype=np.uint8)
    bits = np.unpackbits(plain[:, None], axis=1, bitorder="little")
    mirrored = np.packbits(bits, axis=1, bitorder="big")[:, 0]
    words = [np.ascontiguousarray(order).view(np.uint64)[:, 0] for order in (bits, bits[:, ::-1])]
    return np.stack([plain, mirrored]), np.stack(words)


AS_BYTES, AS_WORDS = _rank_tables()
"""Tables for :func:`show`: planes as bits, or as a byte per square."""


@kernel
def show(boards: Any, states: Any, mover: Any, mirrored: Any, table: Any, planes: Any) -> None:
    """Planes of positions, rank by rank.

    Planes 0 to 5 are pawns, knights, bishops, rooks, queens and king of White, 6 to 11 those of Black; plane 12 is set
    if White is to move, 13 to 16 are the rights to castle towards file h and file a, of White, then of Black, 17 is the
    square that a pawn has just skipped. With ``mover`` and Black to move, ranks count from Black's side, and White and
    Black swap roles in planes 0 to 11 and 13 to 16.

    ``boards`` (positions, 12, 8) uint8: bitboards, White's first, a byte per rank; ``states`` (positions, 4) uint8:
    side to move, castling bits, en passant file, halfmove clock; ``mirrored`` (positions,) uint8, only for positions
    without castling rights; ``table`` is ``AS_BYTES`` or ``AS_WORDS``; ``planes`` (positions, 12 or 18, 8) of its dtype
    is filled.
    """
    for n in range(len(boards)):
        shown = table[mirrored[n]]
        black = states[n, 0] != 0
        if mover and black:
            for plane in range(_PIECES):
                other = plane + 6 if plane < 6 else plane - 6
                for rank in range(8):
                    planes[n, plane, rank] = shown[boards[n, other, 7 - rank]]
        else:
            for plane in range(_PIECES):
                for rank in range(8):
                    planes[n, plane, rank] = shown[boards[n, plane, rank]]
        if planes.shape[1] > _PIECES:
            planes[n, 12] = shown[0 if black else 255]
            for right in range(4):
                owner = right ^ 2 if mover and black else right
                planes[n, 13 + right] = shown[255 if states[n, 1] >> owner & 1 else 0]
            planes[n, 17] = shown[0]
            if states[n, 2] != NO_FILE:
                planes[n, 17, 2 if black and not mover else 5] = shown[1 << states[n, 2]]


@kernel
def classify(boards: Any, states: Any, moves: Any, flips: Any, index: Any, targets: Any) -> None:
    """Classes of the stored moves, as they are shown.

    A king that takes its own rook (castling in chess960 notation) counts as the king's move of two squares if both are
    on their standard squares, so that a move has one class. ``boards`` (positions, 12) uint64, ``states`` (positions,
    4) uint8, ``moves`` and ``flips`` (positions,) uint16 (exclusive or to the move as shown), ``index`` int16 by stored
    move; ``targets`` (positions,) int64 is filled.
    """
    for n in range(len(boards)):
        code = np.int64(moves[n])
        start, end = code & 63, code >> 6 & 63
        if start & 7 == 4 and (end & 7 == 7 or end & 7 == 0):
            side = 0 if states[n, 0] == 0 else 6
            if boards[n, side + 5] & bit(start) != 0 and boards[n, side + 3] & bit(end) != 0:
                code = start | (start + 2 if end & 7 == 7 else start - 2) << 6
        targets[n] = index[code ^ np.int64(flips[n])]
