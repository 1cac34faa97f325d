"""Tasks trained on a Go store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outofcore.domains.go.learn.identification import choose_panel, identify, opening_maps
from outofcore.domains.go.learn.players import find_players, read_games
from outofcore.domains.go.learn.policy import PolicyTask, count_moves
from outofcore.domains.go.learn.style import StyleTask
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.tensors import make_reading
from outofcore.errors import ParamsError

if TYPE_CHECKING:
    from outofcore.domains.task import Task
    from outofcore.store.reader import Store

HELD_OUT = "val"


def make_task(store: Store, section: GoSection) -> Task:
    """The task named by ``train.task``, with its baseline measured on the store.

    Raises ParamsError if the store has too few players or held-out games for ``style``.
    """
    reading = make_reading(store.attributes, section)
    if section.train.task == "policy":
        return PolicyTask(reading, section.train.preset, count_moves(store, reading.frame))
    names = find_players(store, section.train)
    panel = choose_panel(read_games(store, HELD_OUT, names))
    baseline = identify(opening_maps(store, HELD_OUT, panel, reading.frame), panel)
    if not baseline:
        message = (
            f"go.train: none of {len(names)} players has two games in the {HELD_OUT} split, one to be known by and one "
            "to ask with; raise go.splits.val"
        )
        raise ParamsError(message)
    return StyleTask(reading, section.train, read_games(store, "train", names), panel, baseline)
