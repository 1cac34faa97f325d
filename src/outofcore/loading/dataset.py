"""A store as a map-style torch dataset, for whoever brings a sampler of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import default_collate_fn_map

from outofcore.domains.reading import Reading
from outofcore.errors import BudgetError
from outofcore.loading.batch import Batch, RawReading
from outofcore.loading.budget import budget_bytes
from outofcore.loading.gather import Room
from outofcore.loading.permutation import random_words
from outofcore.loading.residency.arena import Arena
from outofcore.loading.sampling.base import touched
from outofcore.loading.split import open_split
from outofcore.loading.windows import Window
from outofcore.sizes import format_bytes
from outofcore.store.reader import Store

Ints = npt.NDArray[np.int64]


class ReadyBatch(dict[str, torch.Tensor]):
    """A batch that needs no collating; torch's default collate function passes it on.

    That function looks at item 0 of what it is given to learn what to collate, so item 0 of a batch is the batch.
    """

    def __missing__(self, key: object) -> ReadyBatch:
        if key == 0:
            return self
        raise KeyError(key)


def _pass_on(batch: ReadyBatch, *, collate_fn_map: object = None) -> ReadyBatch:
    del collate_fn_map
    return batch


default_collate_fn_map[ReadyBatch] = _pass_on


class ZarrDataset(Dataset[Batch]):
    """The samples of a split by number.

    A ``DataLoader`` asks for a batch at a time and gets it ready made: sorted by chunk, gathered, read in one step.
    Works with any sampler, with ``Subset`` and ``ConcatDataset``, and with worker processes however they are started:
    each opens the store for itself and has a cache of its own. Random single rows of a compressed store decode a chunk
    each; :func:`outofcore.loader` is the fast way.

    Parameters
    ----------
    store
        A store, or its folder.
    split, part
        Which split of which part.
    tensors
        What makes tensors of rows; None for the stored fields as they are.
    fields
        Without ``tensors``, the fields to read; None for all.
    window
        Rows of a sample; None for single rows.
    memory
        Bytes for decoded chunks, in each process.

    Raises
    ------
    BudgetError
        If the memory does not hold the chunks of one sample.
    """

    def __init__(
        self,
        store: Store | str | Path,
        split: str = "train",
        *,
        tensors: Reading | None = None,
        fields: tuple[str, ...] | None = None,
        window: Window | Mapping[str, Any] | None = None,
        part: str = "",
        memory: str | int = "64MiB",
    ) -> None:
        root = store.root if isinstance(store, Store) else store
        window = Window(**window) if isinstance(window, Mapping) else window
        self._made_with = root, split, tensors, fields, window, part, memory
        self._split = open_split(store, split, part, tensors.fields if tensors is not None else fields)
        self._windows = self._split.windows(window, phase=False)
        self._reading = tensors or RawReading({name: array.dtype for name, array in self._split.fields.items()})
        chunk = self._split.chunk_rows * self._split.row_bytes
        self._slots = budget_bytes(memory) // max(chunk, 1)
        needed = min(
            (self._windows.length + self._split.chunk_rows - 2) // self._split.chunk_rows + 1,
            self._split.chunks,
        )
        if self._slots < needed:
            message = (
                f"a memory budget of {format_bytes(budget_bytes(memory))} does not hold the {needed} chunks of one "
                f"sample; the least that works is {format_bytes(needed * chunk)}"
            )
            raise BudgetError(message)
        self._process = 0
        self._lock = threading.Lock()
        self._arena: Arena | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self._made_with

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        root, split, tensors, fields, window, part, memory = state
        self.__init__(  # type: ignore[misc]  # a copy in another process opens the store for itself
            root, split, tensors=tensors, fields=fields, window=window, part=part, memory=memory
        )

    def __len__(self) -> int:
        return self._windows.samples

    def __getitem__(self, index: int | Sequence[int]) -> Batch:
        """A sample by number, or the batch of several."""
        if isinstance(index, Sequence | np.ndarray):
            return self.__getitems__(index)
        return {name: tensor[0] for name, tensor in self.__getitems__([index]).items()}

    def __getitems__(self, indices: Sequence[int] | Ints) -> ReadyBatch:
        """The batch of several samples, in the given order.

        Raises
        ------
        IndexError
            If there is no such sample.
        """
        samples = np.asarray(indices, np.int64)
        count = len(self)
        outside = samples[(samples < -count) | (samples >= count)]
        if len(outside):
            message = f"{self._split.path}: no sample {outside[0]}; there are {count:,}"
            raise IndexError(message)
        first = self._windows.first_rows(np.where(samples < 0, samples + count, samples))
        # Random choices of a reading follow torch's seed, which differs from worker to worker.
        draws = random_words(0, 1, len(first), int(torch.randint(2**62, ())))
        return ReadyBatch(self._reading(self._rows(first), draws))

    def _rows(self, first: Ints) -> dict[str, Any]:
        if self._process != os.getpid():  # a lock that another thread held during a fork stays locked in the child
            self._process, self._lock = os.getpid(), threading.Lock()
            self._arena = Arena(self._split.fields, self._windows.length, self._slots)
        assert self._arena is not None
        with self._lock:
            room = self._arena.allocate(len(first))
            chunks = self._touched(first)
            if len(chunks) <= self._slots:
                self._gather(self._arena, first, chunks, room, 0)
                return room.arrays
            order = np.argsort(first, kind="stable")
            self._gather_in_parts(self._arena, first[order], room)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return {name: np.take(array, back, axis=0) for name, array in room.arrays.items()}

    def _gather_in_parts(self, arena: Arena, first: Ints, room: Room) -> None:
        """Gather ascending windows whose chunks do not fit together, as many at a time as do."""
        start = 0
        while start < len(first):
            last_chunk = max(int(first[start]), 0) // arena.chunk_rows + self._slots
            ends = first + (self._windows.length - 1)
            stop = max(start + 1, int(np.searchsorted(ends, last_chunk * arena.chunk_rows)))
            part = first[start:stop]
            self._gather(arena, part, self._touched(part), room, start)
            start = stop

    def _gather(self, arena: Arena, first: Ints, chunks: Ints, room: Room, at: int) -> None:
        try:
            for work in arena.bring(chunks):
                work()
            arena.gather(first, room, at)
            arena.release(chunks)
        except BaseException:
            arena.settle()
            raise

    def _touched(self, first: Ints) -> Ints:
        return touched(first, self._windows.length, self._split.chunk_rows, self._split.chunks)
