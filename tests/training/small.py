"""A small task, and a loader in memory with the interface of the real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task


class ListLoader:
    """Batches of tensors in memory; the order is a function of (seed, epoch), the state counts what was given."""

    def __init__(self, columns: Batch, batch_size: int, *, seed: int = 0, shuffle: bool = True) -> None:
        self.columns, self.batch_size, self.seed, self.shuffle = columns, batch_size, seed, shuffle
        self.given = 0
        self.epoch = 0
        self.reads: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return -(-len(next(iter(self.columns.values()))) // self.batch_size)

    @property
    def step(self) -> int:
        return self.epoch * len(self) - (-self.given // self.batch_size)

    @property
    def epoch_steps(self) -> int:
        return len(self)

    def set_epoch(self, epoch: int) -> None:
        self.epoch, self.given = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "seed": self.seed, "given": self.given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        assert state["seed"] == self.seed
        self.epoch, self.given = state["epoch"], state["given"]

    def __iter__(self) -> Iterator[Batch]:
        count = len(next(iter(self.columns.values())))
        order = np.random.default_rng([self.seed, self.epoch]).permutation(count) if self.shuffle else np.arange(count)
        while self.given < count:
            rows = torch.from_numpy(order[self.given : self.given + self.batch_size])
            self.reads.append((self.epoch, self.given))
            self.given += len(rows)
            yield {name: column[rows] for name, column in self.columns.items()}
        self.given = 0


class WeightedRegression(Task):
    """Fits y = f(x), each sample with a weight of its own, so that micro-batches count unequally."""

    def __init__(self, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1))

    def _error(self, batch: Batch) -> Tensor:
        return (self.net(batch["x"])[:, 0] - batch["y"]).square() * batch["weight"]

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self._error(batch).sum(), batch["weight"].sum()

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        return {"error": self._error(batch).sum(), "weight": batch["weight"].sum()}

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {"error": float(sums["error"] / sums["weight"]), "weight": float(sums["weight"])}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        return {"errors": [{"kind": "val", "error": float(sums["error"])}]}


def columns(count: int, seed: int) -> Batch:
    """Samples whose weights are mostly 0 or 1 and sometimes 9."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 4, generator=draw)
    weight = torch.tensor([0.0, 1.0, 1.0, 9.0])[torch.randint(0, 4, (count,), generator=draw)]
    return {"x": x, "y": (x[:, 0] * x[:, 1]).tanh(), "weight": weight}


def loaders(batch_size: int = 16) -> tuple[ListLoader, ListLoader]:
    """A training loader of 100 samples, so with a short last batch, and a validation loader of 40."""
    return ListLoader(columns(100, 1), batch_size), ListLoader(columns(40, 2), 16, shuffle=False)


def section(**settings: Any) -> TrainSection:
    return TrainSection(**{"epochs": 3, "batch_size": 16, "learning_rate": 1e-2, **settings})
