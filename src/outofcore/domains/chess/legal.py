"""Legal moves of stored positions, in compiled code.

Every position is seen from the side to move, so that its pawns move up the board; chess is symmetric under this flip.
The rules are those of standard chess and chess960 (castling). The lower four castling bits mean the outermost rook on
that side of the king, as in X-FEN, unless the matching one of the upper four is set: then the rook next to the king.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcore.domains.chess.bitboards import (
    BETWEEN,
    BISHOP,
    KING,
    KNIGHT,
    LINE,
    PAWN_DOWN,
    PAWN_UP,
    ROOK,
    bit,
    highest,
    lowest,
    slides,
)
from outofcore.domains.chess.squares import to_bitboards, unpack_ranks
from outofcore.system.compilation import inner_kernel, njit

MOST_MOVES = 256
"""Room for the moves of any position; the known maximum is 218."""

NO_FILE = 255
_FIRST_RANK = np.uint64(0xFF)
_NOWHERE = np.uint64(0)


@njit(nogil=True, cache=True)
def mark_legal(squares: Any, states: Any, flips: Any, index: Any, mask: Any) -> None:
    """Set the classes of the legal moves of each position in ``mask``.

    ``squares`` (positions, 4) uint64: stored boards. ``states`` (positions, 4) uint8: side to move, castling bits, en
    passant file, halfmove clock. ``flips`` (positions,) uint16: exclusive or from a move seen by the side to move to
    the move as shown. ``index`` int16 by stored move: its class. ``mask`` (positions, classes) bool, all false at
    first.
    """
    ranks, boards = np.empty(8, np.uint64), np.empty(12, np.uint64)
    codes = np.empty(MOST_MOVES, np.uint16)
    for position in range(len(squares)):
        count = moves_of(squares[position], states[position], states[position, 2], ranks, boards, codes)
        for n in range(count):
            mask[position, index[codes[n] ^ flips[position]]] = True


@inner_kernel
def moves_of(squares: Any, state: Any, en_passant: Any, ranks: Any, boards: Any, codes: Any) -> Any:
    """:func:`legal_moves` of a stored position; ``ranks`` (8,) and ``boards`` (12,) are scratch."""
    black = state[0] != 0
    unpack_ranks(squares, black, False, ranks)  # noqa: FBT003 - compiled code takes no keywords
    to_bitboards(ranks, boards)
    own, enemy = (boards[6:], boards[:6]) if black else (boards[:6], boards[6:])
    rights = np.int64(state[1])
    castling = (rights >> 2 & 3 | rights >> 4 & 12) if black else (rights & 3 | rights >> 2 & 12)
    return legal_moves(own, enemy, castling, en_passant, codes)


@inner_kernel
def legal_moves(own: Any, enemy: Any, castling: Any, en_passant: Any, codes: Any) -> Any:
    """Write the legal moves of one position, seen from the side to move, and return their number.

    ``own`` and ``enemy`` (6,) uint64: pawns, knights, bishops, rooks, queens, king; own pawns move up. ``castling`` bit
    1: towards file h, bit 2: towards file a; bits 4 and 8: with the rook next to the king rather than the outermost.
    ``en_passant``: file of a pawn that has just advanced two squares, else 255. ``codes`` (256,) uint16 receives stored
    moves; castling is the king's move of two squares if king and rook are on their standard squares, else the king's
    move onto the rook.
    """
    if own[5] == 0:
        return 0
    king = lowest(own[5])
    own_pieces = own[0] | own[1] | own[2] | own[3] | own[4] | own[5]
    enemy_pieces = enemy[0] | enemy[1] | enemy[2] | enemy[3] | enemy[4] | enemy[5]
    occupied = own_pieces | enemy_pieces
    diagonal, straight = enemy[2] | enemy[4], enemy[3] | enemy[4]
    attacked = _attacks(enemy, occupied ^ own[5])
    checkers = (
        (KNIGHT[king] & enemy[1])
        | (PAWN_UP[king] & enemy[0])
        | (slides(king, occupied, BISHOP) & diagonal)
        | (slides(king, occupied, ROOK) & straight)
    )
    count = _write(codes, 0, king, KING[king] & ~own_pieces & ~attacked)
    allowed = ~own_pieces
    if checkers != 0:
        if checkers & (checkers - np.uint64(1)) != 0:
            return count  # in double check only the king can move
        allowed &= checkers | BETWEEN[king, lowest(checkers)]
    elif castling != 0 and king < 8:
        count = _castling(codes, count, king, own, straight, occupied, attacked, castling)
    pinned = _pinned(king, own_pieces, enemy_pieces, diagonal, straight)
    for piece in range(1, 5):
        pieces = own[piece]
        while pieces != 0:
            square = lowest(pieces)
            pieces &= pieces - np.uint64(1)
            reach = KNIGHT[square] if piece == 1 else _NOWHERE
            if piece in (2, 4):
                reach |= slides(square, occupied, BISHOP)
            if piece >= 3:
                reach |= slides(square, occupied, ROOK)
            if bit(square) & pinned != 0:
                reach &= LINE[king, square]
            count = _write(codes, count, square, reach & allowed)
    pawns = own[0]
    while pawns != 0:
        square = lowest(pawns)
        pawns &= pawns - np.uint64(1)
        ahead = bit(square + 8) & ~occupied
        if ahead != 0 and square < 16:
            ahead |= bit(square + 16) & ~occupied
        reach = (ahead | PAWN_UP[square] & enemy_pieces) & allowed
        if bit(square) & pinned != 0:
            reach &= LINE[king, square]
        count = _write_pawn(codes, count, square, reach)
    if en_passant != NO_FILE:
        count = _en_passant(codes, count, king, own, enemy, occupied, np.int64(en_passant))
    return count


@inner_kernel
def _attacks(pieces: Any, occupied: Any) -> Any:
    """All squares that the other side attacks; its pawns move down."""
    attacked = KING[lowest(pieces[5])] if pieces[5] != 0 else _NOWHERE
    for piece in range(5):
        left = pieces[piece]
        while left != 0:
            square = lowest(left)
            left &= left - np.uint64(1)
            if piece == 0:
                attacked |= PAWN_DOWN[square]
            elif piece == 1:
                attacked |= KNIGHT[square]
            if piece in (2, 4):
                attacked |= slides(square, occupied, BISHOP)
            if piece >= 3:
                attacked |= slides(square, occupied, ROOK)
    return attacked


@inner_kernel
def _pinned(king: Any, own_pieces: Any, enemy_pieces: Any, diagonal: Any, straight: Any) -> Any:
    """Own pieces that alone shield the king from a check."""
    snipers = (slides(king, enemy_pieces, BISHOP) & diagonal) | (slides(king, enemy_pieces, ROOK) & straight)
    pinned = _NOWHERE
    while snipers != 0:
        sniper = lowest(snipers)
        snipers &= snipers - np.uint64(1)
        shield = BETWEEN[king, sniper] & own_pieces
        if shield & (shield - np.uint64(1)) == 0:
            pinned |= shield
    return pinned


@inner_kernel
def _castling(
    codes: Any, count: Any, king: Any, own: Any, straight: Any, occupied: Any, attacked: Any, castling: Any
) -> Any:
    """Castling of a king on the first rank that is not in check."""
    for side in range(2):
        if castling >> side & 1 == 0:
            continue
        rooks = own[3] & _FIRST_RANK
        rooks &= ~(bit(king + 1) - np.uint64(1)) if side == 0 else bit(king) - np.uint64(1)
        if rooks == 0:
            continue
        next_to_king = castling >> side + 2 & 1
        rook = highest(rooks) if side == next_to_king else lowest(rooks)
        king_to, rook_to = (6, 5) if side == 0 else (2, 3)
        king_path = BETWEEN[king, king_to] | bit(king_to)
        others = occupied ^ bit(king) ^ bit(rook)
        if (king_path | BETWEEN[rook, rook_to] | bit(rook_to)) & others != 0 or king_path & attacked != 0:
            continue
        # In chess960 the rook may have shielded the king's new square from the side.
        if slides(king_to, others | bit(rook_to), ROOK) & straight != 0:
            continue
        as_in_standard_chess = king == 4 and rook == (7 if side == 0 else 0)
        codes[count] = king | (king_to if as_in_standard_chess else rook) << 6
        count += 1
    return count


@inner_kernel
def _en_passant(codes: Any, count: Any, king: Any, own: Any, enemy: Any, occupied: Any, file: Any) -> Any:
    """Captures en passant; tried on the board, since two pawns leave a line at once."""
    to_square, captured = 40 + file, 32 + file
    if enemy[0] & bit(captured) == 0 or occupied & bit(to_square) != 0:
        return count
    if KNIGHT[king] & enemy[1] != 0 or PAWN_UP[king] & enemy[0] & ~bit(captured) != 0:
        return count
    pawns = PAWN_DOWN[to_square] & own[0]
    while pawns != 0:
        square = lowest(pawns)
        pawns &= pawns - np.uint64(1)
        after = occupied ^ bit(square) ^ bit(captured) | bit(to_square)
        checked = (slides(king, after, BISHOP) & (enemy[2] | enemy[4])) | (
            slides(king, after, ROOK) & (enemy[3] | enemy[4])
        )
        if checked == 0:
            codes[count] = square | to_square << 6
            count += 1
    return count


@inner_kernel
def _write(codes: Any, count: Any, square: Any, reach: Any) -> Any:
    while reach != 0:
        codes[count] = square | lowest(reach) << 6
        count += 1
        reach &= reach - np.uint64(1)
    return count


@inner_kernel
def _write_pawn(codes: Any, count: Any, square: Any, reach: Any) -> Any:
    if square < 48:
        return _write(codes, count, square, reach)
    while reach != 0:
        for piece in range(1, 5):
            codes[count] = square | lowest(reach) << 6 | piece << 12
            count += 1
        reach &= reach - np.uint64(1)
    return count
