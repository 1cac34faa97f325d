"""What is loaded, and the usual ways to load it without a store, from ``.npy`` files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from harness.rows import LENGTH, SETS, Batch, RowSet, sizes
from harness.sides import Epoch
from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.tensors import ChessReading

CHESS = ChessReading(TensorSection(planes=12, view="white"))
THREADS = 2


class Plain:
    """Rows of a set to tensors, by the code that other libraries use."""

    def __init__(self, kind: RowSet) -> None:
        self.fields = tuple(kind.row.names or ())
        self._read = kind.read

    def __call__(self, rows: Mapping[str, np.ndarray[Any, Any]], _: np.ndarray[Any, Any]) -> Batch:
        """Tensors of columns; nothing is drawn."""
        return self._read(rows)


def reading_of(kind: str) -> Any:
    """How rows become tensors."""
    return CHESS if kind == "chess" else Plain(SETS[kind])


def window_of(kind: str) -> dict[str, Any] | None:
    """What a sample reads, where it is more than a row."""
    return {"length": LENGTH + 1, "stride": LENGTH, "mode": "pack"} if kind == "text" else None


def columns(arrays: str, fields: tuple[str, ...], *, mapped: bool) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.load(f"{arrays}/{name}.npy", mmap_mode="r" if mapped else None) for name in fields}


def gathered(arrays: str, kind: str, threads: int = THREADS, *, mapped: bool = False) -> Epoch:
    """Rows of a permutation, then the same reading."""
    reading = reading_of(kind)
    loaded = columns(arrays, reading.fields, mapped=mapped)

    def batch(rows: np.ndarray[Any, Any]) -> int:
        taken = {name: np.take(column, rows, axis=0) for name, column in loaded.items()}
        return len(next(iter(reading(taken, np.zeros(len(rows), np.uint64)).values())))

    return made_ahead(batch, len(loaded[reading.fields[0]]), SETS[kind].batch, threads)


def bits(arrays: str) -> Epoch:
    """Bitboards, moves and results, and numpy's unpackbits."""
    kind = SETS["chess"]
    loaded = columns(arrays, kind.row.names or (), mapped=False)

    def batch(rows: np.ndarray[Any, Any]) -> int:
        return len(kind.read({name: np.take(column, rows, axis=0) for name, column in loaded.items()})["planes"])

    return made_ahead(batch, len(loaded["move"]), kind.batch, THREADS)


def made_ahead(batch: Callable[[np.ndarray[Any, Any]], int], count: int, size: int, threads: int) -> Epoch:
    """Epochs of batches, made by threads while earlier ones are consumed, or by the consumer for one thread."""
    pool = ThreadPoolExecutor(threads)

    def epoch() -> Iterator[int]:
        order = np.random.default_rng(0).permutation(count)
        parts = (order[at : at + size] for at in range(0, count, size))
        if threads == 1:
            yield from map(batch, parts)
            return
        waiting = deque(pool.submit(batch, rows) for rows in islice(parts, 4 * threads))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(batch, rows) for rows in islice(parts, 1))

    return epoch


def random_places(tokens: str) -> Epoch:
    """The usual way with text: slices at random places of a mapped file, each widened, all stacked."""
    batch = SETS["text"].batch

    def epoch() -> Iterator[int]:
        mapped = np.load(tokens, mmap_mode="r")
        while True:
            starts = torch.randint(len(mapped) - LENGTH, (batch,)).tolist()
            for shift in (0, 1):
                torch.stack([torch.from_numpy(mapped[at + shift :][:LENGTH].astype(np.int64)) for at in starts])
            yield batch

    return epoch


class Items(Dataset[dict[str, Any]]):
    """A mapped file per field, row by row: what one writes first."""

    def __init__(self, loaded: dict[str, np.ndarray[Any, Any]]) -> None:
        self.columns = loaded

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: np.array(column[row]) for name, column in self.columns.items()}


def items(arrays: str, kind: str, workers: int) -> Epoch:
    rows = SETS[kind]
    dataset = Items(columns(arrays, rows.row.names or (), mapped=True))
    batches = DataLoader(dataset, rows.batch, shuffle=True, num_workers=workers, collate_fn=partial(stacked, rows))
    return lambda: sizes(batches)


def stacked(kind: RowSet, rows: list[dict[str, Any]]) -> Batch:
    return kind.read({name: np.stack([row[name] for row in rows]) for name in rows[0]})
