"""A trained Go model, tried on games: its best moves in each position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from pydantic import Field
from torch import Tensor

from outofcore.domains.boards.positions import predicted_positions
from outofcore.domains.domain import Section
from outofcore.domains.go.draw import PLAYERS, frame_of, name_of, points_of
from outofcore.domains.go.learn.policy import PolicyTask
from outofcore.domains.go.params import FilterSection, GoSection
from outofcore.domains.go.schema import KO, MOVE_NUMBER, TO_PLAY
from outofcore.domains.predictor import Row
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.store.reader import Store


class Options(Section):
    """What is listed for each position."""

    best: int = Field(5, ge=1, le=1024, description="most probable moves that are listed")


def predict(task: Task, batch: Batch) -> dict[str, Tensor]:
    """Probabilities of all points and the pass (batch, points + 1) as ``move``; raises ParamsError for ``style``."""
    if not isinstance(task, PolicyTask):
        raise ParamsError(_no_moves())
    return {"move": task.predict(batch).softmax(1)}


def unfiltered(section: GoSection) -> GoSection:
    """All games on boards that the model knows; illegal moves are treated as in training."""
    if section.train.task != "policy":
        raise ParamsError(_no_moves())
    every = FilterSection()
    kept = {name: getattr(every, name) for name in ("min_moves", "min_rank", "handicap", "results")}
    filters = section.filters.model_copy(update={**kept, "duplicates": "keep"})
    return section.model_copy(update={"filters": filters})


def rows(
    task: PolicyTask, store: Store, part: str, predicted: Iterable[Mapping[str, Tensor]], options: Options
) -> Iterator[Row]:
    """A row per position: the move played, and the best moves; none on a stone or on a point that ko forbids."""
    del task
    for game, row, prediction in predicted_positions(store, part, predicted):
        points, shares = points_of(row), prediction["move"]
        frame, size = frame_of(row["stones"].shape[-1]), len(points)
        state, move = row["state"][0], int(row["move"][0])
        free = np.zeros(frame * frame + 1, np.bool_)
        free[:-1].reshape(frame, frame)[:size, :size] = points == 0
        free[-1] = True  # the pass
        if state[KO] >= 0:
            free[state[KO]] = False
        listed = [point for point in np.argsort(-shares, kind="stable").tolist() if free[point]]
        yield {
            "game": game,
            "move": int(state[MOVE_NUMBER]) + 1,
            "player": PLAYERS[int(state[TO_PLAY])],
            "played": name_of(move, frame, size),
            "probability": float(shares[move]),
            "best": {name_of(point, frame, size): float(shares[point]) for point in listed[: options.best]},
        }


def _no_moves() -> str:
    return (
        "this model tells players apart (go.train.task: style) and predicts no moves; train one with go.train.task: "
        "policy"
    )
