"""Tasks trained on a Go store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from outofcore.domains.go.learn.identification import Panel, choose_panel, identify, opening_maps
from outofcore.domains.go.learn.players import PlayedGames, find_players, read_games
from outofcore.domains.go.learn.policy import PolicyTask, count_moves
from outofcore.domains.go.learn.style import StyleTask
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.tensors import make_reading
from outofcore.errors import ParamsError

if TYPE_CHECKING:
    from torch import Tensor

    from outofcore.domains.task import Batch, Task
    from outofcore.store.reader import Store
    from outofcore.store.schema import Schema


def planned_task(section: GoSection, schemas: Mapping[str, Schema]) -> Task:
    """The task of :func:`make_task` before there is a store."""
    del schemas
    reading, none = make_reading({"params": section.model_dump(mode="json")}, section), np.empty(0, np.int64)
    if section.train.task == "policy":
        return PolicyTask(reading, section.train, np.zeros(reading.frame**2 + 1, np.int64))
    games = PlayedGames(none, none.reshape(0, 2), none, none, none, none.astype(np.bool_))
    return _PlannedStyleTask(reading, section.train, games, Panel(none, none, none, none.astype(np.bool_)), [])


def make_task(store: Store, section: GoSection, evaluated: Store, split: str) -> Task:
    """The task of ``train.task``, with its baseline measured on the store."""
    reading = make_reading(store.attributes, section)
    if section.train.task == "policy":
        return PolicyTask(reading, section.train, count_moves(store, reading.frame))
    names = find_players(store, section.train)
    panel = choose_panel(read_games(evaluated, split, names))
    baseline = identify(opening_maps(evaluated, split, panel, reading.frame), panel)
    if not baseline:
        raise ParamsError(
            f"go.train: none of {len(names)} players has two games in the {split} split, one to be known by and one "
            f"to ask with; raise go.splits.{split}"
        )
    return StyleTask(reading, section.train, read_games(store, "train", names), panel, baseline)


class _PlannedStyleTask(StyleTask):
    """Without games there is nothing to contrast; the embeddings take nearly all of the memory."""

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self._embed(batch, slice(None)).sum(), torch.tensor(len(batch["move"]))
