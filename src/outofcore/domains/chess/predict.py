"""A trained chess model, tried on games: its best moves in each position, and the result that it expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import chess
import numpy as np
from torch import Tensor

from outofcore.domains.boards.predict import Options as Options  # of Domain.prediction_options
from outofcore.domains.boards.predict import predicted_positions
from outofcore.domains.chess.codes import BLACK_TO_MOVE, CHESS960
from outofcore.domains.chess.draw import board_of, move_of
from outofcore.domains.chess.model import ChessTask
from outofcore.domains.chess.moves import flip_code, vocabulary
from outofcore.domains.chess.params import ChessSection, FilterSection, TensorSection
from outofcore.domains.chess.squares import as_words
from outofcore.domains.chess.widening import classify
from outofcore.domains.domain import PREDICTED_SPLIT, Row
from outofcore.domains.task import Batch
from outofcore.ndarrays import Ints
from outofcore.store.reader import Store
from outofcore.store.schema import Columns


def predict(task: ChessTask, batch: Batch) -> dict[str, Tensor]:
    """Probabilities of moves (batch, classes) as ``target``, and expected results (batch,) as ``value``."""
    logits, value = task.predict(batch)
    return {"target": logits.softmax(1), "value": value}


def unfiltered(section: ChessSection) -> ChessSection:
    """All positions of all games of the kinds of chess that the model was trained on."""
    filters = FilterSection(variants=section.filters.variants, duplicates="keep", unfinished="keep")
    return section.model_copy(update={"filters": filters})


def rows(
    task: ChessTask, store: Store, part: str, predicted: Iterable[Mapping[str, Tensor]], options: Options
) -> Iterator[Row]:
    """A row per position: the move played in SAN, the best legal moves, and the result that White may expect."""
    variants = store.sequences(PREDICTED_SPLIT, part)["variant"].read()
    for game, row, prediction in predicted_positions(store, part, predicted):
        board = board_of(row, chess960=variants[game - 1] == CHESS960)
        played, written = move_of(row, board)
        moves = list(board.legal_moves)
        known = prediction["target"][_classes(row, moves, task.section)]
        by_move = {board.san(moves[n]): float(known[n]) for n in np.argsort(-known, kind="stable")}
        seen_by_mover = task.section.view == "mover" and board.turn == chess.BLACK
        value = float(prediction["value"])
        yield {
            "game": game,
            "ply": int(row["ply"][0]),
            "played": written,
            "probability": by_move[written] if played in moves else None,
            "best": dict(list(by_move.items())[: options.best]),
            "expected_result": -value if seen_by_mover else value,
        }


def _classes(position: Columns, moves: list[chess.Move], section: TensorSection) -> Ints:
    """Class of each move in a position, as the tensors show it."""
    codes = [move.from_square | move.to_square << 6 | ((move.promotion or 1) - 1) << 12 for move in moves]
    count, black = len(codes), int(position["state"][0, 0]) == BLACK_TO_MOVE
    flip = flip_code(0) if black and section.view == "mover" else 0
    classes = np.empty(count, np.int64)
    squares, states = (np.repeat(position[name], count, axis=0) for name in ("squares", "state"))
    flips = np.full(count, flip, np.uint16)
    index = vocabulary(section.targets).index
    classify(as_words(squares), states, np.array(codes, np.uint16), flips, index, classes)
    return classes
