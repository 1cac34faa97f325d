"""A stored position as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import chess
import numpy as np

from outofcore.domains.chess.codes import BLACK_TO_MOVE, CASTLING_BITS, INNER_ROOK_SHIFT, NO_EN_PASSANT, UNFINISHED
from outofcore.domains.chess.moves import uci
from outofcore.store.schema import Columns

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1", UNFINISHED: "*"}


def draw(rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
    """Draw the first row: the board, the side to move, the move played and the result."""
    del attributes
    board = board_of(rows)
    ranks = board.unicode(empty_square="·").splitlines()
    lines = [f"{8 - number}  {rank}" for number, rank in enumerate(ranks)]
    _, played = move_of(rows, board)
    side = "White" if board.turn == chess.WHITE else "Black"
    ply, result = int(rows["ply"][0]), RESULTS[int(rows["result"][0])]
    return "\n".join([*lines, "   a b c d e f g h", f"{side} to move, ply {ply}: {played}, game ended {result}"])


def board_of(rows: Columns, *, chess960: bool = False) -> chess.Board:
    """The first row as a board of python-chess; ``chess960`` as its game is."""
    board = chess.Board(None)
    for pair, file in np.argwhere(rows["squares"][0]).tolist():
        byte = int(rows["squares"][0, pair, file])
        for rank, code in ((2 * pair, byte & 15), (2 * pair + 1, byte >> 4)):
            if code:
                board.set_piece_at(chess.square(file, rank), chess.Piece(code & 7, color=not code & 8))
    side, rights, file, halfmove_clock = rows["state"][0].tolist()
    board.turn = side != BLACK_TO_MOVE
    # In Chess960 the rooks may start elsewhere; a board of standard chess then shows castling by squares.
    board.set_castling_fen("".join(right for right, bit in CASTLING_BITS.items() if rights & bit) or "-")
    if chess960:
        board.chess960 = True
        board.castling_rights = sum(chess.BB_SQUARES[rook] for rook in _castling_rooks(board, rights))
    if file != NO_EN_PASSANT:
        board.ep_square = chess.square(file, 5 if board.turn == chess.WHITE else 2)
    board.halfmove_clock = halfmove_clock
    return board


def _castling_rooks(board: chess.Board, rights: int) -> Iterator[chess.Square]:
    """The rooks that may castle in Chess960."""
    for right, bit in CASTLING_BITS.items():
        color = right.isupper()
        king = board.king(color)
        if not rights & bit or king is None:
            continue
        kingside = right in "Kk"
        side = [
            rook for rook in board.pieces(chess.ROOK, color) if rook >> 3 == king >> 3 and (rook > king) == kingside
        ]
        inner = bool(rights & bit << INNER_ROOK_SHIFT)
        if side:
            yield min(side) if inner == kingside else max(side)


def move_of(rows: Columns, board: chess.Board) -> tuple[chess.Move, str]:
    """The move of the first row, and how it is written: in SAN if it is legal."""
    move = chess.Move.from_uci(uci(int(rows["move"][0])))
    return move, board.san(move) if board.is_legal(move) else move.uci()
