"""Leave epochs in given ways, with memory for chunks and batches between pages that nobody may touch.

A process of its own: a write outside that memory ends it. Rows are slow to decode, so that what was read ahead is late.
"""

from __future__ import annotations

import ctypes
import gc
import random
import signal
import sys
import time
import weakref
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import outofcore
from outofcore.errors import DamagedStore, ParamsError
from outofcore.loading import chunk_cache
from outofcore.loading.iteration import Loader
from outofcore.system import recycling

PAGE, PRIVATE, READ_WRITE = 4096, 0x22, 3
ROWS, ROW_BYTES, BATCH = 144, 4096, 32
DICE = random.Random(7)


class Guarded:
    """NumPy, whose empty arrays end at a page that cannot be touched, and begin after one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any = float) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if not size:
            return np.empty(shape, dtype)
        library = ctypes.CDLL(None)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        inside = -(-size // PAGE) * PAGE
        first = library.mmap(None, inside + 2 * PAGE, READ_WRITE, PRIVATE, -1, 0)
        library.mprotect(first, PAGE, 0)
        library.mprotect(first + PAGE + inside, PAGE, 0)
        memory = (ctypes.c_char * size).from_address(first + PAGE + inside - size)
        weakref.finalize(memory, library.munmap, first, inside + 2 * PAGE)
        return np.frombuffer(memory, dtype).reshape(shape)


def rows(numbers: Any) -> Any:
    """The rows of these numbers: 4 KiB that follow from each."""
    words = np.asarray(numbers, np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + np.arange(ROW_BYTES // 8)
    return words.astype(np.uint64)


def check(batch: dict[str, torch.Tensor]) -> list[int]:
    """The numbers of a batch, whose rows must be what was stored."""
    numbers = batch["number"].tolist()
    assert (batch["row"].numpy().view(np.uint64) == rows(numbers)).all(), "rows that are no rows of the store"
    return numbers


def slowly(decode: Any) -> Any:
    def later(*arguments: Any) -> Any:
        time.sleep(DICE.uniform(0, 0.003))
        return decode(*arguments)

    return later


class Leaving:
    """Ways to leave an epoch; each is called with a loader at the beginning of one."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.raises = self.collects = False

    def map(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if self.collects:
            gc.collect()
        if self.raises and DICE.random() < 0.3:
            raise ZeroDivisionError
        return batch

    def nothing(self, batches: Loader) -> None:
        for batch in batches:
            check(batch)

    def abandoned(self, batches: Loader) -> None:
        check(next(iter(batches)))

    def set_epoch(self, batches: Loader) -> None:
        check(next(iter(batches)))
        batches.set_epoch(DICE.randrange(100))

    def loaded_state(self, batches: Loader) -> None:
        check(next(iter(batches)))
        batches.load_state_dict(batches.state_dict())

    def closed(self, batches: Loader) -> None:
        check(next(iter(batches)))
        batches.close()

    def error_in_map(self, batches: Loader) -> None:
        self.raises = True
        with suppress(ParamsError):
            self.nothing(batches)
        self.raises = False

    def ctrl_c(self, batches: Loader) -> None:
        signal.setitimer(signal.ITIMER_REAL, DICE.uniform(0.001, 0.02))
        with suppress(KeyboardInterrupt):
            self.nothing(batches)
            time.sleep(1)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def collected_in_a_thread_of_its_own(self, batches: Loader) -> None:
        iterator = iter(batches)
        check(next(iterator))
        cycle = [iterator]
        cycle.append(cycle)  # type: ignore[arg-type]  # only garbage collection frees it
        self.collects = True
        del iterator, cycle
        time.sleep(0.02)
        self.collects = False

    def damage(self, batches: Loader) -> None:
        shard = self.store / "train/row/c.1.0"
        sound = shard.read_bytes()
        with shard.open("r+b") as file:
            file.seek(-len(sound) // 4, 2)
            file.write(bytes([sound[-len(sound) // 4] ^ 1]))
        with suppress(DamagedStore):
            self.nothing(batches)
        with shard.open("r+b") as file:
            file.write(sound)


def main(folder: str, epochs: str, *ways: str) -> None:
    """Leave so many epochs in each way, and read each once more."""
    for module in (chunk_cache, recycling):
        module.np = Guarded()  # type: ignore[attr-defined]
    chunk_cache.ChunkCache._decode = slowly(chunk_cache.ChunkCache._decode)  # type: ignore[method-assign]
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    store = Path(folder) / "rows.zarr"
    if not store.exists():
        fields = {"number": np.arange(ROWS), "row": rows(range(ROWS)).view(np.int64)}
        outofcore.write_store(store, fields, chunk_rows=16, shard_rows=32)
    leaving, gc_was = Leaving(store), gc.isenabled()
    gc.disable()
    for way, last in product(ways, ("drop", "keep")):
        options: dict[str, Any] = {"map": leaving.map, "threads": 3, "memory": "8MiB", "last": last}
        options |= {"shuffle": outofcore.Shuffle(pool_blocks=1)}
        batches = outofcore.loader(store, "train", BATCH, residency="streamed", tensors="stored", **options)
        for epoch in range(int(epochs)):
            batches.set_epoch(epoch)
            getattr(leaving, way)(batches)
            batches.set_epoch(epoch)
            numbers = [number for batch in batches for number in check(batch)]
            count = ROWS // BATCH * BATCH if last == "drop" else ROWS
            assert len(set(numbers)) == len(numbers) == count, f"{way}: {len(set(numbers))} of {len(numbers)} differ"
        batches.close()
        print(f"{way}, {last}: all rows as stored", flush=True)
    if gc_was:
        gc.enable()


if __name__ == "__main__":
    main(*sys.argv[1:])
