"""A trained Go model, tried on games: its best moves in each position, or the style of the player of each file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.boards.gallery import LISTED, mistakes_of
from outofcore.domains.boards.predict import Options as Options  # of Domain.prediction_options
from outofcore.domains.boards.predict import Prediction, predicted_positions
from outofcore.domains.domain import PREDICTED_SPLIT, Judge, Row
from outofcore.domains.gallery import Picture
from outofcore.domains.go.draw import PLAYERS, frame_of, name_of, points_of
from outofcore.domains.go.filters import FilterSection
from outofcore.domains.go.gallery import picture
from outofcore.domains.go.model import PolicyTask
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.play.oracle import next_position
from outofcore.domains.go.players import file_owners, read_games
from outofcore.domains.go.schema import KO, MOVE_NUMBER, TO_PLAY
from outofcore.domains.go.style import StyleTask
from outofcore.domains.go.widening import OFF_BOARD, SYMMETRIES, tables
from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch
from outofcore.store.reader import Store
from outofcore.store.schema import Columns


def predict(task: PolicyTask | StyleTask, batch: Batch) -> dict[str, Tensor]:
    """Probabilities of all points and the pass (batch, points + 1) as ``move``, averaged over the eight symmetries.

    Models that learnt them also give ``value`` and ``score`` (batch,) of the side to play. A model of the task
    ``style`` gives ``vector`` (batch, dimensions) in place of all these.
    """
    if isinstance(task, StyleTask):
        return {"vector": task.vectors(batch)}
    planes, points = batch["planes"], torch.arange(task.frame**2 + 1, device=task.device)
    size = batch["on_board"][:, 0].sum(1).long() if "on_board" in batch else torch.tensor([task.frame] * len(planes))
    source, target = (
        torch.from_numpy(table[size.cpu().numpy()].astype(np.int64)) for table in tables(task.frame, task.sizes)
    )
    padded = functional.pad(planes.flatten(2), (0, 1))
    sums: list[Tensor] = []
    for symmetry in range(SYMMETRIES):
        shown = padded.gather(2, source[:, symmetry, None].to(task.device).expand(-1, planes.shape[1], -1))
        logits, *outcome = task.predict({**batch, "planes": shown.reshape(planes.shape)})
        places = target[:, symmetry].to(task.device)
        outputs = [logits.softmax(1).gather(1, torch.where(places == OFF_BOARD, points, places)), *outcome]
        sums = [one + other for one, other in zip(sums, outputs, strict=True)] if sums else outputs
    return {name: total / SYMMETRIES for name, total in zip(("move", "value", "score"), sums, strict=False)}


def unfiltered(section: GoSection) -> GoSection:
    """All games on boards that the model knows; illegal moves are treated as in training."""
    filters = FilterSection(sizes=section.filters.sizes, illegal=section.filters.illegal, duplicates="keep")
    return section.model_copy(update={"filters": filters})


def rows(
    task: PolicyTask | StyleTask,
    store: Store,
    part: str,
    predicted: Iterable[Mapping[str, Tensor]],
    options: Options,
    reading: Reading,
) -> Iterator[Row]:
    """A row per position, or of the task ``style`` per file.

    The move played, and the best moves; none on a stone or on a point that ko forbids. The last row of a game is of the
    position that it ends with, in which no move was played, unless both have passed.
    """
    if isinstance(task, StyleTask):
        yield from _players(task, store, part, predicted)
        return
    positions = predicted_positions(
        task, predict, store, part, predicted, reading, lambda _, earlier: next_position(earlier)
    )
    for game, row, prediction, follows in positions:
        yield {"game": game, **position_row(row, prediction, options, played=follows)}


def mistakes(store: Store, split: str, judge: Judge) -> Sequence[Picture]:
    """The positions whose move played the model expected least; none of a model of the task ``style``."""
    task, judged = judge()

    def draw(game: int, row: Columns, prediction: Prediction) -> tuple[Picture, Row]:
        return picture(store, split, game, row), position_row(row, prediction, LISTED, played=True)

    return mistakes_of(task, store, split, judged, draw) if isinstance(task, PolicyTask) else ()


def position_row(row: Columns, prediction: Prediction, options: Options, *, played: bool) -> Row:
    """What is listed of a position; the move of the row counts if it was ``played``."""
    points, shares = points_of(row), prediction["move"]
    frame, size = frame_of(row["stones"].shape[-1]), len(points)
    state, move = row["state"][0], int(row["move"][0])
    sign = 1 - 2 * int(state[TO_PLAY])
    free = np.zeros(frame * frame + 1, np.bool_)
    free[:-1].reshape(frame, frame)[:size, :size] = points == 0
    free[-1] = True  # the pass
    if state[KO] >= 0:
        free[state[KO]] = False
    listed = [point for point in np.argsort(-shares, kind="stable").tolist() if free[point]]
    return {
        "move": int(state[MOVE_NUMBER]) + 1,
        "player": PLAYERS[int(state[TO_PLAY])],
        "played": name_of(move, frame, size) if played else "",
        "probability": float(shares[move]) if played else None,
        "best": {name_of(point, frame, size): float(shares[point]) for point in listed[: options.best]},
        **{f"{name}_for_black": sign * float(value) for name, value in prediction.items() if name != "move"},
    }


def _players(task: StyleTask, store: Store, part: str, predicted: Iterable[Mapping[str, Tensor]]) -> Iterator[Row]:
    """The player of each file, and the mean vector of that player's moves; of all moves where nobody is known."""
    table, games = store.rows(PREDICTED_SPLIT, part), store.sequences(PREDICTED_SPLIT, part)
    starts, labels = games["start"].read(), games["player_of_file"].read()
    owners = file_owners(store, PREDICTED_SPLIT)
    names = tuple(set(owners.values()))
    numbers = {name: number for number, name in enumerate(names)}
    files, file_of = np.unique(np.asarray(labels, str), return_inverse=True)
    owner = np.array([numbers[owners[file]] if file in owners else -1 for file in files.tolist()])[file_of, None]
    own_side = (read_games(store, PREDICTED_SPLIT, names).sides == owner) | (owner < 0)
    sums, moves = np.zeros((len(files), task.network.where.embedding_dim)), np.zeros(len(files), np.int64)
    first = 0
    for batch in predicted:
        vectors = batch["vector"].numpy()
        last = first + len(vectors)
        game = np.searchsorted(starts, np.arange(first, last), "right") - 1
        own = own_side[game, table["state"].read(first, last)[:, TO_PLAY]]
        own &= vectors.any(axis=1)  # beyond the moves that the model knows
        np.add.at(sums, file_of[game[own]], vectors[own])
        moves += np.bincount(file_of[game[own]], minlength=len(files))
        first = last
    means = sums / np.maximum(moves, 1)[:, None]
    for file, count, vector in zip(files.tolist(), np.bincount(file_of).tolist(), means.tolist(), strict=True):
        yield {"file": file, "player": owners.get(file, ""), "games": count, "vector": vector}
