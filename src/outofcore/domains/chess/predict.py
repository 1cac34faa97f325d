"""A trained chess model, tried on games: its best moves in each position, and the result that it expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import chess
import numpy as np
from pydantic import Field
from torch import Tensor

from outofcore.domains.boards import predict as boards
from outofcore.domains.boards.gallery import LISTED, mistakes_of
from outofcore.domains.boards.predict import Prediction, predict_rows, predicted_positions
from outofcore.domains.chess.codes import BLACK_TO_MOVE, CHESS960, LARGEST_PLY
from outofcore.domains.chess.draw import board_of, move_of
from outofcore.domains.chess.gallery import picture
from outofcore.domains.chess.model import ChessTask
from outofcore.domains.chess.moves import flip_code, move_code, vocabulary
from outofcore.domains.chess.oracle import Replay
from outofcore.domains.chess.params import ChessSection, FilterSection, TensorSection
from outofcore.domains.chess.pgn.classes import castles_as_in_chess960
from outofcore.domains.chess.schema import POSITION_COLUMNS
from outofcore.domains.chess.squares import as_words
from outofcore.domains.chess.tensors import make_reading
from outofcore.domains.chess.widening import classify
from outofcore.domains.domain import PREDICTED_SPLIT, Judge, Row
from outofcore.domains.gallery import Picture
from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch
from outofcore.errors import RawInputError
from outofcore.ndarrays import Ints
from outofcore.store.reader import Store
from outofcore.store.schema import Columns


class Options(boards.Options):
    """What is listed for each position, and of whom a FEN is."""

    elo: int = Field(0, ge=0, le=9999, description="Elo of both players of a FEN, where the model takes it; 0: unknown")


def predict(task: ChessTask, batch: Batch) -> dict[str, Tensor]:
    """Probabilities of moves (batch, classes) as ``target``, and expected results (batch,) as ``value``."""
    logits, value = task.predict(batch)
    return {"target": logits.softmax(1), "value": value}


def unfiltered(section: ChessSection) -> ChessSection:
    """All positions of all games of the kinds of chess that the model was trained on."""
    filters = FilterSection(variants=section.filters.variants, duplicates="keep", unfinished="keep")
    return section.model_copy(update={"filters": filters})


def answer(task: ChessTask, raw: Path, section: ChessSection, options: Options) -> Iterator[Row] | None:
    """Predictions for a position, if the input is a FEN."""
    words = str(raw).split()
    if len(words) not in (4, 6) or raw.exists():
        return None
    try:
        board = chess.Board(str(raw), chess960=castles_as_in_chess960(str(raw)))
    except ValueError:
        return None
    board.castling_rights = board.clean_castling_rights()  # a right whose rook has left is none
    if not board.is_valid():
        raise RawInputError(f"{raw}: expected a legal position, python-chess reports {board.status().name}")
    reading = make_reading({}, section).plain()
    fields = {column.field.name: column.field for column in POSITION_COLUMNS}
    unknown = {
        name: np.full((1, *fields[name].shape), fields[name].fill or 0, fields[name].dtype) for name in reading.fields
    }
    row = _with_board(unknown, board)
    if row is None:
        raise RawInputError(f"{raw}: expected a position with a legal move, got {board.result()}")
    elo = {name: np.full(1, options.elo, np.int16) for name in reading.columns}
    row = {**row, **elo, "ply": np.full(1, min(board.ply(), LARGEST_PLY), np.uint16)}
    (prediction,) = predict_rows(task, predict, reading, [(row, {})])
    return iter([position_row(task, row, board, prediction, options)])


def rows(
    task: ChessTask,
    store: Store,
    part: str,
    predicted: Iterable[Mapping[str, Tensor]],
    options: boards.Options,
    reading: Reading,
) -> Iterator[Row]:
    """A row per position: the move played in SAN, the best legal moves, and the result that White may expect.

    The last row of a game is of the position that it ends with, in which no move was played, unless the game is over.
    """
    variants = store.sequences(PREDICTED_SPLIT, part)["variant"].read()

    def after(game: int, rows: Columns) -> Columns | None:
        row = {name: column[-1:] for name, column in rows.items()}
        board = board_of(row, chess960=variants[game - 1] == CHESS960)
        move, _ = move_of(row, board)
        if not board.is_legal(move):
            return None
        board.push(move)
        return _with_board({**row, "ply": row["ply"] + 1}, board)

    positions = predicted_positions(task, predict, store, part, predicted, reading, after)
    for game, row, prediction, follows in positions:
        board = board_of(row, chess960=variants[game - 1] == CHESS960)
        yield {"game": game, **position_row(task, row, board, prediction, options, played=follows)}


def _with_board(row: Columns, board: chess.Board) -> Columns | None:
    """The row with another board, and some move that is legal there; None if there is none."""
    move = next(iter(board.legal_moves), None)
    if move is None:
        return None
    replay = Replay()
    replay.add(board, move)
    return {**row, **replay.rows()}


def mistakes(store: Store, split: str, judge: Judge) -> Sequence[Picture]:
    """The positions whose move played the model expected least."""
    task, judged = judge()
    variants = store.sequences(split)["variant"].read()

    def draw(game: int, row: Columns, prediction: Prediction) -> tuple[Picture, Row]:
        board = board_of(row, chess960=variants[game] == CHESS960)
        return picture(store, split, game, row), position_row(task, row, board, prediction, LISTED, played=True)

    return mistakes_of(task, store, split, judged, draw)


def position_row(
    task: ChessTask,
    row: Columns,
    board: chess.Board,
    prediction: Prediction,
    options: boards.Options,
    *,
    played: bool = False,
) -> Row:
    """What is listed of a position; the move of the row counts if it was ``played``."""
    move, written = move_of(row, board) if played else (None, "")
    moves = list(board.legal_moves)
    known = prediction["target"][_classes(row, moves, task.section)]
    by_move = {board.san(moves[n]): float(known[n]) for n in np.argsort(-known, kind="stable")}
    seen_by_mover = task.section.view == "mover" and board.turn == chess.BLACK
    value = float(prediction["value"])
    return {
        "ply": int(row["ply"][0]),
        "played": written,
        "probability": by_move[written] if move in moves else None,
        "best": dict(list(by_move.items())[: options.best]),
        "expected_result": -value if seen_by_mover else value,
    }


def _classes(position: Columns, moves: list[chess.Move], section: TensorSection) -> Ints:
    """Class of each move in a position, as the tensors show it."""
    codes = [move_code(move.from_square, move.to_square, (move.promotion or 1) - 1) for move in moves]
    count, black = len(codes), int(position["state"][0, 0]) == BLACK_TO_MOVE
    flip = flip_code(0) if black and section.view == "mover" else 0
    classes = np.empty(count, np.int64)
    squares, states = (np.repeat(position[name], count, axis=0) for name in ("squares", "state"))
    flips = np.full(count, flip, np.uint16)
    index = vocabulary(section.targets).index
    classify(as_words(squares), states, np.array(codes, np.uint16), flips, index, classes)
    return classes
