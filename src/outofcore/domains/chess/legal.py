"""Legal moves of stored positions, by rays on a board of 64 bytes, in compiled code.

Every position is seen from the side to move, so that its pawns move up the board; chess is symmetric under this flip.
Each move that a piece can make is tried: it is legal if no ray from the king then meets an attacker. That takes three
times as long as sets of squares with pins and checks do, and has no rule of its own for them.

The rules are those of standard chess and chess960 (castling). The lower four castling bits mean the outermost rook on
that side of the king, as in X-FEN, unless the matching one of the upper four is set: then the rook next to the king.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcore.domains.chess.moves import KNIGHT_STEPS, QUEEN_STEPS
from outofcore.domains.chess.squares import BISHOP, KING, KNIGHT, PAWN, QUEEN, ROOK, piece_at
from outofcore.system.compilation import inner_kernel, njit

MOST_MOVES = 256
"""Room for the moves of any position that a game can reach, at most 218; further ones are left out."""

NO_FILE = 255

_STEPS = np.array([*QUEEN_STEPS, *KNIGHT_STEPS])
_FIRST_LEAP = 8


@njit(nogil=True, cache=True)
def mark_legal(squares: Any, states: Any, flips: Any, index: Any, mask: Any) -> None:
    """Set the classes of the legal moves of each position in ``mask``.

    ``squares`` (positions, 4) uint64: stored boards. ``states`` (positions, 4) uint8: side to move, castling bits, en
    passant file, halfmove clock. ``flips`` (positions,) uint16: exclusive or from a move seen by the side to move to
    the move as shown. ``index`` int16 by stored move: its class. ``mask`` (positions, classes) bool, all false at
    first.
    """
    board, codes = np.empty(64, np.uint8), np.empty(MOST_MOVES, np.uint16)
    for position in range(len(squares)):
        count = moves_of(squares[position], states[position], states[position, 2], board, codes)
        for n in range(count):
            mask[position, index[codes[n] ^ flips[position]]] = True


@inner_kernel
def moves_of(squares: Any, state: Any, en_passant: Any, board: Any, codes: Any) -> Any:
    """Write the legal moves of a stored position, seen from the side to move, and return their number.

    ``en_passant``: file of a pawn that has just advanced two squares, else 255. ``board`` (64,) uint8 is scratch,
    ``codes`` (256,) uint16 receives stored moves; castling is the king's move of two squares if king and rook are on
    their standard squares, else the king's move onto the rook.
    """
    us, king = np.int64(state[0]), -1
    for square in range(64):
        board[square] = piece_at(squares, square ^ 56 if us else square)
        if board[square] == KING + 8 * us:
            king = square
    if king < 0:
        return 0
    count = 0
    for start in range(64):
        kind = board[start] & 7
        if kind == 0 or board[start] >> 3 != us:
            continue
        if kind == PAWN:
            count = _pawn_moves(board, start, us, king, en_passant, codes, count)
            continue
        for step in range(16):
            if not _moves_by(kind, step):
                continue
            end = _next(start, step)
            while end >= 0 and (board[end] == 0 or board[end] >> 3 != us):
                count = _attempt(board, start, end, end, us, king, start | end << 6, codes, count)
                end = -1 if board[end] or kind in (KNIGHT, KING) else _next(end, step)
    rights = np.int64(state[1])
    rights = rights >> 2 & 3 | rights >> 4 & 12 if us else rights & 3 | rights >> 2 & 12
    if rights and king < 8 and not _is_attacked(board, king, us):
        count = _castling(board, us, king, rights, codes, count)
    return count


@inner_kernel
def _next(square: Any, step: Any) -> Any:
    """The square one step from another, -1 beyond the board."""
    file, rank = (square & 7) + _STEPS[step, 0], (square >> 3) + _STEPS[step, 1]
    return 8 * rank + file if 0 <= file < 8 and 0 <= rank < 8 else -1


@inner_kernel
def _moves_by(kind: Any, step: Any) -> Any:
    """Whether a piece, which is no pawn, moves by a step."""
    if step >= _FIRST_LEAP or kind == KNIGHT:
        return kind == KNIGHT and step >= _FIRST_LEAP
    return kind in (KING, QUEEN) or kind == (ROOK if step % 2 == 0 else BISHOP)


@inner_kernel
def _is_attacked(board: Any, square: Any, us: Any) -> Any:
    """Whether a piece of the other side attacks a square; its pawns move down."""
    for step in range(16):
        at, first = _next(square, step), True
        while at >= 0 and step < _FIRST_LEAP and board[at] == 0:
            at, first = _next(at, step), False
        if at < 0 or board[at] == 0 or board[at] >> 3 == us:
            continue
        kind = board[at] & 7
        if kind == PAWN:
            if first and step % 2 == 1 and step < _FIRST_LEAP and _STEPS[step, 1] > 0:
                return True
        elif _moves_by(kind, step) and (first or kind != KING):
            return True
    return False


@inner_kernel
def _attempt(
    board: Any, start: Any, end: Any, taken: Any, us: Any, king: Any, code: Any, codes: Any, count: Any
) -> Any:
    """Write a move if the king is safe after it; ``taken`` is the square of a piece that it takes, or ``end``."""
    piece, other, third = board[start], board[end], board[taken]
    board[taken] = 0
    board[end] = piece
    board[start] = 0
    safe = not _is_attacked(board, end if start == king else king, us)
    board[start] = piece
    board[end] = other
    board[taken] = third
    if safe and count < len(codes):
        codes[count] = code
        count += 1
    return count


@inner_kernel
def _pawn_moves(board: Any, start: Any, us: Any, king: Any, en_passant: Any, codes: Any, count: Any) -> Any:
    for side in range(-1, 2):
        file, end = (start & 7) + side, start + 8 + side
        if not 0 <= file < 8 or end > 63:
            continue
        taken = end
        if side == 0 and board[end]:
            continue
        if side and board[end] == 0:
            if en_passant != file or start >> 3 != 4 or board[end - 8] != PAWN + 8 * (1 - us):
                continue
            taken = end - 8
        elif side and board[end] >> 3 == us:
            continue
        first, last = (KNIGHT - 1, QUEEN - 1) if end > 55 else (0, 0)
        for promotion in range(first, last + 1):
            code = start | end << 6 | promotion << 12
            count = _attempt(board, start, end, taken, us, king, code, codes, count)
        if side == 0 and start < 16 and board[start + 16] == 0:
            count = _attempt(board, start, start + 16, start + 16, us, king, start | (start + 16) << 6, codes, count)
    return count


@inner_kernel
def _castling(board: Any, us: Any, king: Any, rights: Any, codes: Any, count: Any) -> Any:
    """Castling of a king on the first rank that is not in check.

    ``rights`` bit 1: towards file h, bit 2: towards file a; bits 4 and 8: with the rook next to the king rather than
    the outermost.
    """
    own_rook = ROOK + 8 * us
    for side in range(2):
        towards_h, next_to_king = side == 0, rights >> side + 2 & 1 == 1
        rook = -1
        for square in range(8):
            if board[square] == own_rook and (square > king) == towards_h and (rook < 0 or towards_h != next_to_king):
                rook = square
        if rights >> side & 1 == 0 or rook < 0:
            continue
        king_to, rook_to = (6, 5) if towards_h else (2, 3)
        board[king] = board[rook] = 0
        free = True
        for square in range(min(king, rook, king_to, rook_to), max(king, rook, king_to, rook_to) + 1):
            of_king = min(king, king_to) <= square <= max(king, king_to)
            of_rook = min(rook, rook_to) <= square <= max(rook, rook_to)
            free = free and not ((of_king or of_rook) and board[square])
            free = free and not (of_king and _is_attacked(board, square, us))
        board[rook_to] = own_rook
        free = free and not _is_attacked(board, king_to, us)  # in chess960 the rook may have shielded that square
        board[rook_to] = 0
        board[king], board[rook] = KING + 8 * us, own_rook
        if free and count < len(codes):
            as_in_standard_chess = king == 4 and rook == (7 if towards_h else 0)
            codes[count] = king | (king_to if as_in_standard_chess else rook) << 6
            count += 1
    return count
