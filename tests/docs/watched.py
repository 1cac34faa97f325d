"""Runs a program and notes each batch that a loader gives it: ``PROGRAM NOTES STOP_AFTER``.

A line has the split, the epoch, and a digest of each sample; the rank begins the name of the file. The process kills
itself (SIGKILL) when it asks for another batch of the split ``train`` after STOP_AFTER of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from outofcore.loading.iteration import Loader

Batch = dict[str, torch.Tensor]


def digests(batch: Batch) -> list[str]:
    columns = [batch[name].numpy() for name in sorted(batch)]
    return [
        hashlib.sha256(b"".join(value.tobytes() for value in sample)).hexdigest()[:16]
        for sample in zip(*columns, strict=True)
    ]


def watch(notes: Path, stop_after: int) -> None:
    iterate, given = Loader.__iter__, 0

    def noted(self: Loader) -> Iterator[Batch]:
        nonlocal given
        split = self.readers[0].split.name
        with (notes / f"{os.environ.get('RANK', 0)}-{os.getpid()}.jsonl").open("a") as file:
            for batch in iterate(self):
                if split == "train":
                    if given == stop_after:
                        os.kill(os.getpid(), signal.SIGKILL)
                    given += 1
                file.write(json.dumps([split, self.epoch, digests(batch)]) + "\n")
                file.flush()
                yield batch

    Loader.__iter__ = noted  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    # A program may start itself again, once a rank: sys.argv stays as it is.
    program, folder, count = sys.argv[1:]
    watch(Path(folder), int(count))
    exec(compile(Path(program).read_text(), program, "exec"))
