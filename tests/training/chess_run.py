"""Trains on a small chess store with the real loader; as a program it kills itself: ``STORE OUT STEP``."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.chess.model import ChessTask, measure_baseline
from outofcore.domains.chess.schema import POSITION_COLUMNS
from outofcore.domains.chess.tensors import ChessReading, TensorSection
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch
from outofcore.settings.machine import Machine
from outofcore.store.reader import Store, open_store
from outofcore.store.schema import Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit
from tests.domains.chess.positions import random_positions, stored_rows

TENSORS = TensorSection(planes=18, mirror=True, legal_mask=True)
SETTINGS = TrainSection(epochs=2, batch_size=100, learning_rate=3e-3, pool_blocks=4)


def write_store(folder: Path, positions: int = 1000) -> Path:
    """A sealed store of random games, a sequence every 50 positions."""
    fields = tuple(column.field for column in POSITION_COLUMNS if column.field.name in ChessReading(TENSORS).fields)
    layout = Layout(codec="zstd", chunk_rows=64, shard_rows=256)
    with ThreadPoolExecutor(1) as encoders:
        schema = Schema(rows=fields, sequences=())
        writer = StoreWriter(folder.with_suffix(".work"), {"": schema}, layout, ("train", "val"), encoders)
        for seed, (split, count) in enumerate({"train": positions, "val": 200}.items()):
            rows = stored_rows(random_positions(count, seed))
            writer.append("", split, rows, {"length": np.full(count // 50, 50, np.int64)})
        counts = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        names = {name: np.array(["x"], object) for name in ("name", "digest")}
        attributes = {"domain": "chess", "parts": [""], "splits": ["train", "val"]}
        with Target(folder) as target:
            writer.commit(target, attributes, {**counts, **names})
    return folder


class KilledIn(ChessTask):
    """Ends its process, without a word, in the middle of a step."""

    step = -1
    calls = 0

    def loss(self, batch: Batch) -> Any:
        """The loss of a piece; two pieces a batch."""
        self.calls += 1
        if self.calls == 2 * self.step:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(batch)


def train_chess(folder: Path | str, out: Path, *, killed_in: int = -1) -> dict[str, Any]:
    """Train to the end, or on to the end, or to the kill."""
    store = open_store(folder)
    torch.manual_seed(SETTINGS.seed)
    task = KilledIn(TENSORS, BoardTrainSection(), *measure_baseline(store, TENSORS))
    task.step = killed_in
    return train(store, task, TENSORS, out, memory=2**27, micro_batch=50)


def train(
    store: Store, task: ChessTask, tensors: TensorSection, out: Path, *, memory: int, micro_batch: int
) -> dict[str, Any]:
    """Train on one thread, streamed, with a checkpoint after every step."""
    torch.set_num_threads(1)
    training, validation = open_loaders(
        store,
        task,
        ChessReading(tensors),
        SETTINGS,
        Machine(memory=memory, residency="streamed"),
        torch.device("cpu"),
    )
    return fit(
        task,
        training,
        validation,
        SETTINGS,
        name="chess",
        out=out,
        identity={"store": store.digest},
        device="cpu",
        micro_batch=micro_batch,
        threads=1,
        checkpoint_seconds=0,
    )


if __name__ == "__main__":
    train_chess(Path(sys.argv[1]), Path(sys.argv[2]), killed_in=int(sys.argv[3]))
