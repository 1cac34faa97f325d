"""Pictures of chess stores: boards with the move played, by python-chess; Elo, lengths, results."""

from __future__ import annotations

from collections.abc import Sequence

import chess
import chess.svg
import numpy as np

from outofcore.domains.boards.gallery import pictures_of
from outofcore.domains.chess.draw import RESULTS, board_of, move_of
from outofcore.domains.gallery import Distribution, Picture, binned, column, counted
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

ARROW = "#15781bcc"


def pictures(store: Store) -> Sequence[Picture]:
    """A few positions with the move played."""
    return pictures_of(store, picture)


def picture(store: Store, split: str, number: int, rows: Columns) -> Picture:
    """The position of a row of a game, with the move played."""
    board = board_of(rows)
    move, played = move_of(rows, board)
    side = "White" if board.turn == chess.WHITE else "Black"
    elo = [int(store.sequences(split)[f"{who}_elo"].read(number, number + 1)[0]) for who in ("white", "black")]
    players = f", Elo {elo[0] or 'unknown'} against {elo[1] or 'unknown'}"
    ply, result = int(rows["ply"][0]), RESULTS[int(rows["result"][0])]
    return Picture(
        title=f"{side} plays {played} at ply {ply}; the game ended {result}{players}",
        alt=f"Chess position {board.board_fen()}, {side} to move, plays {played}",
        svg=chess.svg.board(
            board,
            arrows=[chess.svg.Arrow(move.from_square, move.to_square, color=ARROW)],
            check=board.king(board.turn) if board.is_check() else None,
        ),
    )


def distributions(store: Store) -> Sequence[Distribution]:
    """Known Elo of all players; length and result of the games."""
    elo = np.concatenate([column(store, "white_elo"), column(store, "black_elo")])
    charts = [
        binned("Length of the games", "plies", "games", column(store, "plies")),
        counted("Results", "result", "games", column(store, "result"), RESULTS),
    ]
    known = elo[elo > 0]
    return [binned("Elo of the players", "Elo", "players", known), *charts] if len(known) else charts
