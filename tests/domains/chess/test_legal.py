from __future__ import annotations

import chess
import numba
import numpy as np
import pytest

from outofcore.domains.chess.legal import MOST_MOVES, NO_FILE, mark_legal, moves_of
from outofcore.domains.chess.moves import flip_code, uci, vocabulary
from outofcore.domains.chess.squares import as_words
from tests.domains.chess.positions import random_positions, shown_move, stored_rows

# Positions made to break move generators, from the chess programming community's perft collections.
HARD = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
    "3k4/3p4/8/K1P4r/8/8/8/8 b - - 0 1",
    "8/8/4k3/8/2p5/8/B2P1K2/8 w - - 0 1",
    "8/5bk1/8/2Pp4/8/1K6/8/8 w - d6 0 1",
    "5k2/8/8/8/8/8/8/4K2R w K - 0 1",
    "r3k2r/1b4bq/8/8/8/8/7B/R3K2R w KQkq - 0 1",
    "2K2r2/4P3/8/8/8/8/8/3k4 w - - 0 1",
    "4k3/8/8/8/8/8/8/4K2R w K - 0 1",
    "8/8/8/8/k2Pp2Q/8/8/3K4 b - d3 0 1",
)


def legal_by_kernel(positions: list[tuple[chess.Board, chess.Move]]) -> list[set[str]]:
    """UCI of the legal moves, White's squares, castling as the vocabularies know it."""
    rows = stored_rows(positions)
    moves = vocabulary("uci")
    mask = np.zeros((len(positions), moves.size), bool)
    flips = rows["state"][:, 0] * np.uint16(flip_code(0))
    mark_legal(as_words(rows["squares"]), rows["state"], flips, moves.index, mask)
    return [{uci(code) for code in moves.codes[row]} for row in mask]


def legal_by_oracle(positions: list[tuple[chess.Board, chess.Move]]) -> list[set[str]]:
    return [{shown_move(board, move).uci() for move in board.legal_moves} for board, _ in positions]


@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
def test_legal_moves_of_random_games_are_those_of_python_chess(chess960):
    positions = random_positions(4000, seed=11, chess960=chess960)
    assert legal_by_kernel(positions) == legal_by_oracle(positions)


def test_legal_moves_around_hard_positions_are_those_of_python_chess():
    positions = []
    for fen in HARD:
        frontier = [chess.Board(fen)]
        for _ in range(2):
            following = []
            for board in frontier:
                for move in board.legal_moves:
                    positions.append((board, move))
                    after = board.copy(stack=False)
                    after.push(move)
                    following.append(after)
            frontier = following
    distinct = list({board.fen(): (board, move) for board, move in positions}.values())
    assert len(distinct) > 150
    assert legal_by_kernel(distinct) == legal_by_oracle(distinct)


def test_castling_in_chess960_takes_the_rook_unless_all_stand_as_in_standard_chess():
    cases = {
        "1k6/8/8/8/8/8/8/1R3KR1 w KQ - 0 1": {"f1g1", "f1b1"},
        "4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1": {"e1g1", "e1c1"},
        "4k3/8/8/8/8/8/8/1R2K2R w KQ - 0 1": {"e1g1", "e1b1"},
        # The rook next to the king may castle, the one outside of it not; and the other way round.
        "4k3/8/8/8/8/8/4P3/5KRR w G - 0 1": {"f1g1"},
        "4k3/8/8/8/8/8/4P3/4K1RR w H - 0 1": set(),
        "4k3/8/8/8/8/8/4P3/RR2K3 w B - 0 1": {"e1b1"},
        "rr1k2rr/8/8/8/8/8/8/R3K2R b bg - 0 1": {"d8b8", "d8g8"},
        "4k3/8/8/8/8/8/8/RRK3RR w BH - 0 1": {"c1b1"},
        # Castling towards file a would lay the king's new square open to the rook on a1.
        "4k3/8/8/8/8/8/8/rR2K3 w Q - 0 1": set(),
    }
    for fen, expected in cases.items():
        board = chess.Board(fen, chess960=True)
        position = [(board, chess.Move.null())]
        (legal,) = legal_by_kernel(position)
        assert [legal] == legal_by_oracle(position)
        castling = {shown_move(board, move).uci() for move in board.legal_moves if board.is_castling(move)}
        assert castling == expected


def test_a_board_without_a_king_has_no_legal_moves():
    empty = [(chess.Board(None), chess.Move.null())]
    assert legal_by_kernel(empty) == [set()]


@pytest.mark.parametrize("fen", ["4k3/8/8/3P4/8/4K3/8/R6R", "4k3/8/2N5/2pP4/8/4K3/8/R6R", "4k3/8/8/8/8/8/8/4K3"])
def test_a_state_that_contradicts_its_board_adds_no_move(fen):
    board = chess.Board(f"{fen} w - - 0 1")
    rows = stored_rows([(board, chess.Move.null())])
    rows["state"][0, 1:3] = 15, chess.FILE_NAMES.index("c")
    moves = vocabulary("uci")
    mask = np.zeros((1, moves.size), bool)
    mark_legal(as_words(rows["squares"]), rows["state"], np.zeros(1, np.uint16), moves.index, mask)
    assert {uci(code) for code in moves.codes[mask[0]]} == {move.uci() for move in board.legal_moves}


def test_moves_of_a_ring_of_queens_stay_within_their_room():
    board = chess.Board(None)
    for square in chess.SQUARES:
        if not {square % 8, square // 8}.isdisjoint({0, 7}):
            board.set_piece_at(square, chess.Piece(chess.QUEEN, chess.WHITE))
    board.set_piece_at(chess.A1, chess.Piece(chess.KING, chess.WHITE))
    assert board.legal_moves.count() > MOST_MOVES
    rows = stored_rows([(board, chess.Move.null())])
    codes = np.full(2 * MOST_MOVES, 65_535, np.uint16)
    squares, state = as_words(rows["squares"])[0], rows["state"][0]
    count = numba.njit(lambda *arguments: moves_of(*arguments))(
        squares, state, np.uint8(NO_FILE), np.empty(64, np.uint8), codes[:MOST_MOVES]
    )
    assert count == MOST_MOVES
    assert (codes[MOST_MOVES:] == 65_535).all()
    assert {uci(code) for code in codes[:MOST_MOVES]} <= {move.uci() for move in board.legal_moves}
