"""A trained Go model, tried on games: its best moves in each position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.boards.predict import Options as Options  # of Domain.prediction_options
from outofcore.domains.boards.predict import predicted_positions
from outofcore.domains.domain import Row
from outofcore.domains.go.draw import PLAYERS, frame_of, name_of, points_of
from outofcore.domains.go.filters import FilterSection
from outofcore.domains.go.learn.policy import PolicyTask
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.schema import KO, MOVE_NUMBER, TO_PLAY
from outofcore.domains.go.symmetry import OFF_BOARD, SYMMETRIES, tables
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.store.reader import Store


def predict(task: Task, batch: Batch) -> dict[str, Tensor]:
    """Probabilities of all points and the pass (batch, points + 1) as ``move``, averaged over the eight symmetries.

    Models that learnt them also give ``value`` and ``score`` (batch,) of the side to play. Raises ParamsError for
    ``style``.
    """
    if not isinstance(task, PolicyTask):
        raise ParamsError(_no_moves())
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
        there = target[:, symmetry].to(task.device)
        outputs = [logits.softmax(1).gather(1, torch.where(there == OFF_BOARD, points, there)), *outcome]
        sums = [one + other for one, other in zip(sums, outputs, strict=True)] if sums else outputs
    return {name: each / SYMMETRIES for name, each in zip(("move", "value", "score"), sums, strict=False)}


def unfiltered(section: GoSection) -> GoSection:
    """All games on boards that the model knows; illegal moves are treated as in training."""
    if section.train.task != "policy":
        raise ParamsError(_no_moves())
    filters = FilterSection(sizes=section.filters.sizes, illegal=section.filters.illegal, duplicates="keep")
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
        sign = 1 - 2 * int(state[TO_PLAY])
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
            **{f"{name}_for_black": sign * float(each) for name, each in prediction.items() if name != "move"},
        }


def _no_moves() -> str:
    return (
        "this model tells players apart (go.train.task: style) and predicts no moves; train one with go.train.task: "
        "policy"
    )
