from __future__ import annotations

import chess
import numpy as np
import pytest

from outofcore.domains.chess.moves import flip_code, mirror_code, move_code, uci, vocabulary
from tests.domains.chess.positions import image, move_of_class, random_positions, stored_move


def test_sizes_are_those_of_the_field():
    moves = vocabulary("uci")
    assert moves.size == 1968
    assert sum(code >> 12 == 0 for code in moves.codes) == 1792
    assert vocabulary("alphazero").size == 4672


def test_uci_vocabulary_holds_the_moves_of_queen_and_knight_and_the_promotions_of_both_colours():
    expected = set()
    for square in chess.SQUARES:
        for piece in (chess.QUEEN, chess.KNIGHT):
            board = chess.Board(None)
            board.set_piece_at(square, chess.Piece(piece, chess.WHITE))
            expected |= {move.uci() for move in board.pseudo_legal_moves}
    for color, rank, far in ((chess.WHITE, 6, 7), (chess.BLACK, 1, 0)):
        for file in range(8):
            board = chess.Board(None)
            board.turn = color
            board.set_piece_at(chess.square(file, rank), chess.Piece(chess.PAWN, color))
            for other in {file - 1, file + 1} & set(range(8)):
                board.set_piece_at(chess.square(other, far), chess.Piece(chess.ROOK, not color))
            expected |= {move.uci() for move in board.pseudo_legal_moves}
    assert {uci(code) for code in vocabulary("uci").codes} == expected


@pytest.mark.parametrize("name", ["uci", "alphazero"])
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
def test_every_legal_move_has_a_class_of_its_own_and_comes_back(name, chess960):
    moves = vocabulary(name)
    for board, _ in random_positions(1500, seed=4, chess960=chess960):
        classes = set()
        legal = list(board.legal_moves)
        for move in legal:
            number = int(moves.index[stored_move(move)])
            assert 0 <= number < moves.size
            classes.add(number)
            pawn = board.piece_type_at(move.from_square) == chess.PAWN
            assert uci(move_of_class(moves, number, pawn=pawn)) == move.uci()
        assert len(classes) == len(legal)


def test_alphazero_planes_are_56_slides_8_leaps_and_9_underpromotions():
    index = vocabulary("alphazero").index
    a1, b7 = chess.A1, chess.B7
    assert index[move_code(a1, chess.A8)] == a1 * 73 + 6  # up, 7 squares
    assert index[move_code(a1, chess.H8)] == a1 * 73 + 7 + 6  # up and right, 7 squares
    assert index[move_code(a1, chess.B3)] == a1 * 73 + 56  # first leap of the knight
    assert index[move_code(b7, chess.B8, 4)] == index[move_code(b7, chess.B8)] == b7 * 73
    assert index[move_code(b7, chess.A8, 1)] == b7 * 73 + 64  # knight, to the left
    assert index[move_code(b7, chess.C8, 3)] == b7 * 73 + 72  # rook, to the right


@pytest.mark.parametrize("name", ["uci", "alphazero"])
def test_images_agree_with_the_moves_on_a_turned_board(name):
    moves = vocabulary(name)
    for turn, square_image in ((mirror_code, lambda square: square ^ 7), (flip_code, chess.square_mirror)):
        table = image(moves, turn(0))
        assert np.array_equal(table[table], np.arange(moves.size))
        for number in np.flatnonzero(moves.codes >= 0):
            code = int(moves.codes[number])
            turned = move_code(square_image(code & 63), square_image(code >> 6 & 63), code >> 12)
            assert turn(code) == turned
            assert moves.codes[table[number]] == turned
