"""Trains a small chess model on as many ranks as torchrun starts, noting each sample: ``STORE OUT KILLED_IN SIGNAL``.

SIGKILL reaches all ranks, another signal the second one only.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.chess.model import ChessTask, measure_baseline
from outofcore.domains.chess.tensors import TensorSection
from outofcore.domains.task import Batch
from outofcore.store.reader import open_store
from outofcore.training.ranks import this_rank
from tests.training.chess_run import SETTINGS, train

TENSORS = TensorSection(planes=18)


class Noting(ChessTask):
    """Writes down what it is trained on, a line a step and rank; sends its process a signal in the middle of a step."""

    notes: Path
    killed_in = -1
    sent = signal.SIGKILL
    steps = 0

    def micro_batches(self, batch: Batch, size: int) -> Iterator[Batch]:
        """The pieces of a batch, noted in training."""
        if self.training:
            self.steps += 1
            names = sorted(batch)
            samples = [
                hashlib.sha256(b"".join(batch[name][place].numpy().tobytes() for name in names)).hexdigest()[:16]
                for place in range(len(batch[names[0]]))
            ]
            with self.notes.open("a") as file:
                file.write(json.dumps(samples) + "\n")
            if self.steps == self.killed_in and (self.sent == signal.SIGKILL or this_rank().rank == 1):
                os.kill(os.getpid(), self.sent)
        return super().micro_batches(batch, size)


def train_ranks(
    folder: Path, out: Path, killed_in: int = -1, number: signal.Signals = signal.SIGKILL
) -> dict[str, Any]:
    """Train to the end, or on to the end, or to the kill."""
    store, ranks = open_store(folder), this_rank()
    torch.manual_seed(SETTINGS.seed)
    task = Noting(TENSORS, BoardTrainSection(), *measure_baseline(store, TENSORS))
    out.mkdir(parents=True, exist_ok=True)
    task.notes, task.killed_in = out / f"samples.{ranks.world}.{ranks.rank}", killed_in
    task.sent = number
    return train(store, task, TENSORS, out, memory=2**28, micro_batch=30)


if __name__ == "__main__":
    train_ranks(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), signal.Signals[sys.argv[4]])
