"""What a run needs to go on exactly where it stood: weights, optimizer, the loader's position, the curves so far."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outofcore.training.feed import LoaderState

VERSION = 1


@dataclass
class Progress:
    """How far a run is.

    Attributes
    ----------
    step
        Optimizer steps made.
    epoch, batches
        The epoch in progress, and its batches that were trained on.
    loader
        State of the training loader after them; None at the start of an epoch.
    history
        Rows of the curves: step and figures by name.
    loss_sum, loss_count
        Loss since the last row of the curves, and what it counts.
    validated
        Step of the last validation, -1 before the first.
    sums
        What the last validation added up.
    """

    step: int = 0
    epoch: int = 0
    batches: int = 0
    loader: LoaderState | None = None
    history: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    loss_sum: float = 0.0
    loss_count: float = 0.0
    validated: int = -1
    sums: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A run as it lies on disk.

    Attributes
    ----------
    identity
        What the run is: its params and its store. Another identity, another run.
    model, optimizer
        Their state dicts.
    progress
        How far it is.
    """

    identity: str
    model: dict[str, Any]
    optimizer: dict[str, Any]
    progress: Progress

    def save(self, path: Path) -> None:
        """Write the file whole, or leave the one that was there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".part")
        content = {"version": VERSION, **vars(self), "progress": vars(self.progress)}
        with unfinished.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> Checkpoint | None:
        """Read a checkpoint; None if there is none of this version."""
        if not path.exists():
            return None
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content.pop("version") != VERSION:
            return None
        return cls(**{**content, "progress": Progress(**content["progress"])})
