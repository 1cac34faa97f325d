"""Boards of stored positions, by python-chess."""

from __future__ import annotations

import pytest

from outofcore.domains.chess.draw import board_of, move_of
from tests.domains.chess.positions import random_positions, stored_rows


@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
def test_a_stored_position_is_the_board_of_its_game(chess960: bool) -> None:
    positions = random_positions(800, seed=7, chess960=chess960)
    rows = stored_rows(positions)
    castling = 0
    for place, (board, move) in enumerate(positions):
        here = {name: column[place : place + 1] for name, column in rows.items()}
        found = board_of(here, chess960=chess960)
        assert set(found.legal_moves) == set(board.legal_moves)
        assert move_of(here, found) == (move, board.san(move))
        castling += any(board.generate_castling_moves())
    assert castling
