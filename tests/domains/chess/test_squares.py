from __future__ import annotations

import chess
import numpy as np

from outofcore.domains.chess.squares import as_words, bitboards, piece_at
from tests.domains.chess.positions import random_positions, stored_rows

BOARDS = [board for board, _ in random_positions(500, seed=7)]
SQUARES = stored_rows([(board, chess.Move.null()) for board in BOARDS])["squares"]


def test_bitboards_are_those_of_python_chess():
    expected = [
        [int(board.pieces(piece, color)) for color in (chess.WHITE, chess.BLACK) for piece in chess.PIECE_TYPES]
        for board in BOARDS
    ]
    assert np.array_equal(bitboards(SQUARES), np.array(expected, np.uint64))


def test_the_formula_of_the_documents_gives_the_board_by_rank_and_file():
    found = np.stack([SQUARES & 15, SQUARES >> 4], axis=2).reshape(-1, 8, 8)
    for board, pieces in zip(BOARDS, found.tolist(), strict=True):
        for square in chess.SQUARES:
            piece = board.piece_at(square)
            code = piece.piece_type + (0 if piece.color else 8) if piece else 0
            assert pieces[chess.square_rank(square)][chess.square_file(square)] == code


def test_the_piece_on_each_square_is_that_of_python_chess():
    for words, board in zip(as_words(SQUARES[:50]), BOARDS, strict=False):
        kinds = [board.piece_type_at(square) or 0 for square in chess.SQUARES]
        assert [piece_at(words, square) & 7 for square in chess.SQUARES] == kinds


def test_rows_of_any_stride_become_words():
    assert np.array_equal(as_words(SQUARES[::3]), as_words(SQUARES)[::3])
