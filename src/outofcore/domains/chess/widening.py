"""Stored boards to planes, and stored moves to classes, in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcore.domains.chess.codes import CODES
from outofcore.domains.chess.legal import MOST_MOVES, NO_FILE, moves_of
from outofcore.domains.chess.squares import BLACK, KING, ROOK, piece_at, unpack_ranks
from outofcore.system.compilation import inlined_kernel, inner_kernel, kernel, njit

HISTORY_BOARDS = 8
HISTORY_PLANES = 14 * HISTORY_BOARDS + 7
COUNTS = (113, 118)
"""Planes of :func:`draw_history` that are not 0 or 1."""

_PIECES = np.array(list(CODES.values()), np.uint8)


@njit(nogil=True, cache=True)
def draw_planes(squares: Any, states: Any, mover: Any, mirrored: Any, planes: Any) -> None:
    """Planes of positions, a byte per square.

    Planes 0 to 5 are pawns, knights, bishops, rooks, queens and king of White, 6 to 11 those of Black; plane 12 is set
    if White is to move, 13 to 16 are the rights to castle towards file h and file a, of White, then of Black, 17 is the
    square that a pawn has just skipped. With ``mover`` and Black to move, ranks count from Black's side, and White and
    Black swap roles in planes 0 to 11 and 13 to 16.

    ``squares`` (positions, 4) uint64: stored boards; ``states`` (positions, 4) uint8: side to move, castling bits, en
    passant file, halfmove clock; ``mirrored`` (positions,) uint8, only for positions without castling rights;
    ``planes`` (positions, 12 or 18, 64) uint8 is filled with 0 and 1.
    """
    ranks = np.empty(8, np.uint64)
    board = ranks.view(np.uint8)
    for n in range(len(squares)):
        turned = mover and states[n, 0] != 0
        unpack_ranks(squares[n], turned, mirrored[n], ranks)
        _draw_pieces(board, turned, planes[n])
        if planes.shape[1] > 12:
            for plane in range(12, 17):
                planes[n, plane, :] = _flag(states[n], turned, plane)
            planes[n, 17, :] = 0
            if states[n, 2] < 8:  # not NO_FILE
                planes[n, 17, _skipped(states[n], turned, mirrored[n])] = 1


@njit(nogil=True, cache=True)
def draw_history(squares: Any, states: Any, plies: Any, shown: Any, mover: Any, mirrored: Any, planes: Any) -> None:
    """Planes of positions and the seven before each, as for AlphaZero (Silver et al. 2018, table S1).

    For each board, the current one first, planes 0 to 11 of :func:`draw_planes` in the view of the current position,
    and two that count repetitions: the first is set if one of the boards further back is the same; the second never
    is, since that takes nine boards. Then White to move, number of the move (at most 255), castling, halfmove clock.

    ``squares`` (positions, 8, 4) uint64, ``states`` (positions, 8, 4) uint8: rows that end with that of the position;
    ``shown`` (positions, 8) bool: those of its game; ``plies`` (positions,) uint16; ``planes`` (positions, 119, 64)
    uint8 is filled.
    """
    ranks = np.empty(8, np.uint64)
    board = ranks.view(np.uint8)
    scratch = np.empty(64, np.uint8), np.empty(MOST_MOVES, np.uint16)
    last = squares.shape[1] - 1
    for n in range(len(squares)):
        state = states[n, last]
        turned = mover and state[0] != 0
        for back in range(HISTORY_BOARDS):
            own, row = planes[n, 14 * back : 14 * back + 14], last - back
            own[:] = 0
            if shown[n, row]:
                unpack_ranks(squares[n, row], turned, mirrored[n], ranks)
                _draw_pieces(board, turned, own)
                for earlier in range(row - 4, -1, -2):
                    if shown[n, earlier] and _repeats(squares[n], states[n], row, earlier, scratch):
                        own[12] = 1
        for plane in range(5):
            planes[n, 112 + plane + min(plane, 1)] = _flag(state, turned, 12 + plane)
        planes[n, 113] = min((np.int64(plies[n]) + 3 - state[0]) // 2, 255)
        planes[n, 118] = state[3]


@inlined_kernel
def _draw_pieces(board: Any, turned: Any, planes: Any) -> None:
    """Fill the first 12 planes."""
    other = np.uint8(BLACK if turned else 0)
    for plane in range(12):
        piece = np.uint8(_PIECES[plane] ^ other)  # Numba widens the result, and compares words then
        for square in range(64):
            planes[plane, square] = board[square] == piece


@inner_kernel
def _repeats(squares: Any, states: Any, row: Any, earlier: Any, scratch: Any) -> Any:
    """Whether a position is the same as an earlier one, in which then no pawn could be taken en passant."""
    board, state = squares[earlier], states[earlier]
    same = state[1] == states[row, 1]
    for word in range(4):
        same &= board[word] == squares[row, word]
    if not same or state[2] == NO_FILE:
        return same
    return moves_of(board, state, state[2], *scratch) == moves_of(board, state, np.uint8(NO_FILE), *scratch)


@inner_kernel
def _flag(state: Any, turned: Any, plane: Any) -> Any:
    """Whether one of planes 12 to 16 is set."""
    if plane == 12:
        return state[0] == 0
    right = plane - 13
    return state[1] >> (right ^ 2 if turned else right) & 1 != 0


@inner_kernel
def _skipped(state: Any, turned: Any, mirrored: Any) -> Any:
    """Square that a pawn has just skipped, as it is shown."""
    rank = 2 if state[0] != 0 and not turned else 5
    return 8 * rank + (7 - np.int64(state[2]) if mirrored else np.int64(state[2]))


@kernel
def classify(squares: Any, states: Any, moves: Any, flips: Any, index: Any, targets: Any) -> None:
    """Classes of the stored moves, as they are shown.

    A king that takes its own rook (castling in chess960 notation) counts as the king's move of two squares if both are
    on their standard squares, so that a move has one class. ``squares`` (positions, 4) uint64, ``states`` (positions,
    4) uint8, ``moves`` and ``flips`` (positions,) uint16 (exclusive or to the move as shown), ``index`` int16 by stored
    move; ``targets`` (positions,) int64 is filled, -1 for what is no move.
    """
    for n in range(len(squares)):
        code = np.int64(moves[n])
        start, end = code & 63, code >> 6 & 63
        if start & 7 == 4 and (end & 7 == 7 or end & 7 == 0):
            side = 0 if states[n, 0] == 0 else BLACK
            if piece_at(squares[n], start) == KING + side and piece_at(squares[n], end) == ROOK + side:
                code = start | (start + 2 if end & 7 == 7 else start - 2) << 6
        code ^= np.int64(flips[n])
        targets[n] = index[code] if code < len(index) else -1
