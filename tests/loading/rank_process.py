"""A rank that reads slowly and notes each batch that it received, with the state after it, until it is killed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.settings.residencies import ResidencyName

STEP_SECONDS = 0.004


@dataclass(frozen=True)
class Note:
    """A batch that a rank received: the numbers of its rows, and the state of its loader after it."""

    rows: list[int]
    state: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> list[Self]:
        """All that were written whole."""
        text = path.read_text() if path.exists() else ""
        return [cls(**json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def open_rank(store: Path | list[Path], residency: ResidencyName, rank: int, world: int) -> Loader:
    """The loader of a rank; global batches are the same for every ``world``."""
    return loader(
        store,
        batch_size=48,
        seed=5,
        memory="8MiB",
        shuffle=Shuffle(pool_blocks=4),
        tensors=("id",),
        residency=residency,
        last="drop",
        rank=rank,
        world_size=world,
    )


def run(
    store: Path | list[Path], residency: ResidencyName, rank: int, world: int, state: dict[str, Any] | None, notes: Path
) -> None:
    """Read the rest of the epoch, noting each batch before the next is asked for."""
    batches = open_rank(store, residency, rank, world)
    if state is not None:
        batches.load_state_dict(state)
    with notes.open("w") as file:
        for batch in batches:
            file.write(json.dumps({"rows": batch["id"].tolist(), "state": batches.state_dict()}) + "\n")
            file.flush()
            time.sleep(STEP_SECONDS)


def merged(notes: Sequence[list[Note]]) -> list[Note]:
    """The global batches that every rank received, rows sorted, with the state after each."""
    steps = []
    for of_ranks in zip(*notes, strict=False):
        first, *others = (note.state for note in of_ranks)
        assert all(state == first for state in others)
        steps.append(Note(sorted(row for note in of_ranks for row in note.rows), first))
    return steps
