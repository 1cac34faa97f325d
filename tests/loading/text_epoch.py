"""Reads windows of tokens within a budget, in a process of its own, and prints by how many bytes the process grew."""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.domains.text.tensors import TextReading
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.system.peak_memory import MemoryWatch


def open_windows(store: Path, split: str, memory: int, threads: int) -> Loader:
    """Short windows whose documents are kept apart: many tensors for each stored byte."""
    return loader(
        store,
        split,
        32,
        memory=memory,
        residency="streamed",
        tensors=TextReading(0),
        window={"length": 65, "stride": 64},
        threads=threads,
    )


def main(store: Path, memory: int, threads: int) -> None:
    """Warm up on the small split, then measure an epoch of the large one."""
    warm = open_windows(store, "val", memory, 1)
    for _ in warm:
        pass
    warm.close()
    with MemoryWatch(interval=0.002) as before:
        pass
    with MemoryWatch(interval=0.002) as memory_held:
        for _ in open_windows(store, "train", memory, threads):
            pass
    sys.stdout.write(f"{memory_held.peak_bytes - before.peak_bytes}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
