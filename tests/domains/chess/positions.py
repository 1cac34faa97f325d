"""Positions of random games, as python-chess has them and as stored rows."""

from __future__ import annotations

import random
from collections.abc import Mapping

import chess
import numpy as np

from outofcore.domains.chess.moves import Vocabulary

CASTLING = (
    (1, chess.WHITE, chess.Board.has_kingside_castling_rights),
    (2, chess.WHITE, chess.Board.has_queenside_castling_rights),
    (4, chess.BLACK, chess.Board.has_kingside_castling_rights),
    (8, chess.BLACK, chess.Board.has_queenside_castling_rights),
)


def inner(board: chess.Board, bit: int, color: chess.Color) -> bool:
    """Whether a right belongs to a rook that another rook stands outside of."""
    rank = [square for square in board.pieces(chess.ROOK, color) if square >> 3 == (0 if color else 7)]
    king = board.king(color)
    rooks = [square for square in rank if (square > king) == (bit in {1, 4})]
    return board.chess960 and not board.castling_rights >> (max(rooks) if bit in {1, 4} else min(rooks)) & 1


def random_positions(count: int, seed: int, *, chess960: bool = False) -> list[tuple[chess.Board, chess.Move]]:
    """Positions with the move played there; games are played to their end."""
    choice = random.Random(seed)
    positions: list[tuple[chess.Board, chess.Move]] = []
    while len(positions) < count:
        board = chess.Board.from_chess960_pos(choice.randrange(960)) if chess960 else chess.Board()
        while not board.is_game_over() and board.ply() < 250:
            move = choice.choice(list(board.legal_moves))
            positions.append((board.copy(stack=False), move))
            board.push(move)
    return positions[:count]


def board_fen(rows: Mapping[str, np.ndarray], row: int) -> str:
    """Piece placement of a row as FEN writes it, by reading half a byte per square."""
    board = chess.Board(None)
    for square in range(64):
        rank, file = divmod(square, 8)
        letter = ".PNBRQK..pnbrqk"[rows["squares"][row, rank // 2, file] >> 4 * (rank % 2) & 15]
        if letter != ".":
            board.set_piece_at(square, chess.Piece.from_symbol(letter))
    return board.board_fen()


def played_moves(rows: Mapping[str, np.ndarray]) -> list[str]:
    """The stored moves in UCI."""
    return [
        chess.SQUARE_NAMES[move & 63] + chess.SQUARE_NAMES[move >> 6 & 63] + " nbrq"[move >> 12].strip()
        for move in rows["move"].tolist()
    ]


def stored_move(move: chess.Move) -> int:
    """The move as a store has it."""
    return move.from_square | move.to_square << 6 | (move.promotion - 1 if move.promotion else 0) << 12


def shown_move(board: chess.Board, move: chess.Move) -> chess.Move:
    """The move as the vocabularies know it: castling of e1 and a corner is the king's move of two squares."""
    king_from_e = chess.square_file(move.from_square) == 4
    corner = chess.square_file(move.to_square) in {0, 7}
    if board.chess960 and board.is_castling(move) and king_from_e and corner:
        sideways = 2 if chess.square_file(move.to_square) == 7 else -2
        return chess.Move(move.from_square, move.from_square + sideways)
    return move


def stored_squares(board: chess.Board) -> np.ndarray:
    """The board as a store has it, square by square."""
    squares = np.zeros((4, 8), np.uint8)
    for square, piece in board.piece_map().items():
        rank, file = divmod(square, 8)
        code = piece.piece_type + (0 if piece.color else 8)
        squares[rank // 2, file] |= code << 4 * (rank % 2)
    return squares


def stored_rows(positions: list[tuple[chess.Board, chess.Move]], result: int = 1) -> dict[str, np.ndarray]:
    """Rows of a store, all of games with that result."""
    states = []
    for board, _ in positions:
        rights = sum(bit | bit << 4 * inner(board, bit, color) for bit, color, has in CASTLING if has(board, color))
        file = 255 if board.ep_square is None else chess.square_file(board.ep_square)
        states.append([0 if board.turn else 1, rights, file, min(board.halfmove_clock, 255)])
    return {
        "squares": np.array([stored_squares(board) for board, _ in positions]),
        "state": np.array(states, np.uint8),
        "move": np.array([stored_move(move) for _, move in positions], np.uint16),
        "result": np.full(len(positions), result, np.int8),
        "ply": np.array([board.ply() for board, _ in positions], np.uint16),
    }


def move_of_class(moves: Vocabulary, number: int, *, pawn: bool) -> int:
    """The stored move of a class; a move of a pawn to the last rank without a piece promotes to a queen."""
    code = int(moves.codes[number])
    return code | 4 << 12 if pawn and code < 1 << 12 and (code >> 9 & 7) in (0, 7) else code


def image(moves: Vocabulary, difference: int) -> np.ndarray:
    """Class -> class of the move whose squares differ by an exclusive or; classes off the board stay."""
    return np.where(moves.codes >= 0, moves.index[np.maximum(moves.codes, 0) ^ difference], np.arange(moves.size))
