"""One way of getting shuffled batches of chess positions as planes; started by ``bench/loader.py``.

Ways with a store read it by the loader. The others read the same rows from ``.npy`` files: ``gather`` and
``gather bits`` hold them in memory, ``memmap`` takes whole batches of a mapped file, ``items`` is a torch DataLoader
that asks for them one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.tensors import ChessReading
from outofcore.loading.loader import loader
from serving import serve

BATCH = 1024
READING = ChessReading(TensorSection(planes=12, view="white"))
Epoch = Callable[[], Iterator[int]]


def stored(store: Path, residency: Any, memory: str, pool_blocks: int = 64) -> Epoch:
    """The project's loader."""
    batches = loader(
        store, "train", BATCH, tensors=READING, memory=memory, residency=residency, pool_blocks=pool_blocks
    )
    return lambda: (len(batch["target"]) for batch in batches)


def columns(folder: Path, *, mapped: bool) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r" if mapped else None) for name in READING.fields}


def orders(rows: int) -> Iterator[np.ndarray[Any, Any]]:
    order = np.random.default_rng(0).permutation(rows)
    return (order[at : at + BATCH] for at in range(0, rows, BATCH))


def gathered(folder: Path, *, mapped: bool) -> Epoch:
    """Rows of a permutation, whole batches at a time, then the same reading."""
    fields = columns(folder, mapped=mapped)
    draws = np.zeros(BATCH, np.uint64)

    def epoch() -> Iterator[int]:
        for rows in orders(len(fields["move"])):
            taken = {name: np.take(column, rows, axis=0) for name, column in fields.items()}
            yield len(READING(taken, draws[: len(rows)])["target"])

    return epoch


def bits(folder: Path) -> Epoch:
    """The least that gives planes: boards, moves and results from memory, and numpy's unpackbits."""
    fields = columns(folder, mapped=False)

    def epoch() -> Iterator[int]:
        for rows in orders(len(fields["move"])):
            boards = np.take(fields["boards"], rows, axis=0).view(np.uint8).reshape(len(rows), 96)
            batch = {
                "planes": torch.from_numpy(np.unpackbits(boards, axis=1, bitorder="little").reshape(-1, 12, 8, 8)),
                "move": torch.from_numpy(np.take(fields["move"], rows)),
                "result": torch.from_numpy(np.take(fields["result"], rows)),
            }
            yield len(batch["move"])

    return epoch


class Items(Dataset[dict[str, torch.Tensor]]):
    """What one writes first: a mapped file, a position at a time."""

    def __init__(self, folder: Path) -> None:
        self.fields = columns(folder, mapped=True)

    def __len__(self) -> int:
        return len(self.fields["move"])

    def __getitem__(self, row: int) -> dict[str, Any]:
        boards = np.unpackbits(self.fields["boards"][row].view(np.uint8), bitorder="little")
        return {
            "planes": torch.from_numpy(boards.reshape(12, 8, 8)),
            "move": int(self.fields["move"][row]),
            "result": int(self.fields["result"][row]),
        }


def items(folder: Path, workers: int) -> Epoch:
    batches = DataLoader(Items(folder), BATCH, shuffle=True, num_workers=workers)
    return lambda: (len(batch["move"]) for batch in batches)


def engine(name: str, store: Path, plain: Path, arrays: Path) -> Epoch:
    """By name; ``store`` is compressed, ``plain`` is not."""
    ways: dict[str, Callable[[], Epoch]] = {
        "streamed 32 MiB": lambda: stored(store, "streamed", "32MiB", pool_blocks=16),
        "streamed": lambda: stored(store, "streamed", "128MiB"),
        "streamed 256 MiB": lambda: stored(store, "auto", "256MiB"),
        "streamed 1 GiB": lambda: stored(store, "auto", "1GiB"),
        "mapped": lambda: stored(plain, "mapped", "128MiB"),
        "ram": lambda: stored(store, "ram", "8GiB"),
        "gather": lambda: gathered(arrays, mapped=False),
        "gather bits": lambda: bits(arrays),
        "memmap": lambda: gathered(arrays, mapped=True),
        "items": lambda: items(arrays, 0),
        "items, 2 workers": lambda: items(arrays, 2),
    }
    return ways[name]()


def compile_all() -> None:
    """Have the reading compiled, before time or memory is looked at."""
    shapes = {"boards": ((12,), np.uint64), "state": ((4,), np.uint8), "move": ((), np.uint16)}
    shapes |= {"result": ((), np.int8), "ply": ((), np.uint16)}
    READING({name: np.zeros((1, *shape), dtype) for name, (shape, dtype) in shapes.items()}, np.zeros(1, np.uint64))


if __name__ == "__main__":
    compile_all()
    serve(lambda: engine(sys.argv[1], *map(Path, sys.argv[2:5])))
