"""Train the smallest model on the smallest store and print the memory of this process, in bytes."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import psutil
import torch
from torch import Tensor, nn

from outofcore.domains.reading import Draws
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.store.reader import open_store
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit

ROWS = 64
SPLITS = ("train", "val")


class NothingTask(Task):
    """A model of one number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed squared differences from the rows, and their number."""
        return ((self.weight - batch["x"]) ** 2).sum(), torch.tensor(len(batch["x"]))

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        return {"rows": torch.tensor(len(batch["x"]))}

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {name: float(value) for name, value in sums.items()}


class NothingReading:
    """Rows unchanged."""

    fields: ClassVar[tuple[str, ...]] = ("x",)

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        del draws
        return {"x": torch.from_numpy(rows["x"])}


def write_store(path: Path) -> None:
    """Write a store of 64 rows per split."""
    schema = Schema(rows=(Field(name="x", dtype="float32", doc="ones"),), sequences=())
    texts, numbers = np.array(["nothing"], object), np.zeros(1, np.int64)
    sources = {
        **dict.fromkeys(("name", "digest"), texts),
        **dict.fromkeys(("bytes", "found", "accepted", "rejected"), numbers),
    }
    with ThreadPoolExecutor(1) as encoders:
        writer = StoreWriter(path.with_suffix(".work"), {"": schema}, Layout(), SPLITS, encoders)
        for split in SPLITS:
            writer.append("", split, {"x": np.ones(ROWS, np.float32)}, {"length": np.array([ROWS])})
        with Target(path) as target:
            writer.commit(target, {"domain": "nothing", "parts": [""], "splits": list(SPLITS)}, sources)


def main(optimizer: str, ranks: int) -> None:
    """Train it, and measure what the process holds."""
    if ranks > 1:
        import_module("torch._dynamo")  # as DistributedDataParallel does
    section = TrainSection.model_validate({"batch_size": 32, "optimizer": optimizer})
    with tempfile.TemporaryDirectory() as name:
        folder, task = Path(name), NothingTask()
        write_store(folder / "store.zarr")
        loaders = open_loaders(
            open_store(folder / "store.zarr"),
            task,
            NothingReading(),
            section,
            memory=1 << 30,
            residency="streamed",
            device=torch.device("cpu"),
        )
        fit(task, *loaders, section, name="nothing", out=folder, identity={}, device="cpu", threads=1)
        sys.stdout.write(f"{psutil.Process().memory_info().rss}\n")
