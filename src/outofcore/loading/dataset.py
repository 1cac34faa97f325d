"""A store as a map-style torch dataset, for use with any sampler."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Never, overload

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from outofcore.checks import integers, word, words
from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch
from outofcore.errors import BudgetError, ParamsError
from outofcore.loading.arguments import budget_bytes, opened_all, refuse_unknown
from outofcore.loading.chunk_cache import ChunkCache
from outofcore.loading.gather import BatchBuffer
from outofcore.loading.residency import ResidencyPlan
from outofcore.loading.sequences import with_columns
from outofcore.loading.split import field_names, open_split
from outofcore.ndarrays import Ints
from outofcore.order.permutation import random_words
from outofcore.order.windows import Window
from outofcore.settings.sizes import format_bytes, format_least
from outofcore.store.joined import check_stores
from outofcore.store.reader import Store
from outofcore.system.recycling import Recycler


class Sample(dict[str, torch.Tensor]):
    """A sample of :class:`Samples`, known to torch's default collate function by its type."""


class Samples(Sequence[Sample]):
    """Samples that were read together: ``batch`` is what torch's default collate function makes of them."""

    def __init__(self, batch: Batch, count: int) -> None:
        self.batch = batch
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(f"expected one of {self._count} samples, got number {index}")
        return Sample((name, tensor[index]) for name, tensor in self.batch.items())


def _collate(samples: Sequence[Sample], *, collate_fn_map: object = None) -> Batch:
    del collate_fn_map
    if isinstance(samples, Samples):
        return samples.batch
    return default_collate([dict(sample) for sample in samples])  # type: ignore[no-any-return]  # of dicts, a dict


# torch documents this map for default_collate, and exports it nowhere else. Taking a batch of 1,024 rows apart and
# stacking them again was 12 times as slow.
default_collate_fn_map[Sample] = _collate


class ZarrDataset(Dataset[Batch]):
    """The samples of a split by number.

    A ``DataLoader`` asks for a batch at a time: sorted by chunk, gathered, read in one step, and ready without
    collating; a collate function of your own gets the samples, each a dict of tensors. Works with any sampler, with
    ``Subset`` and ``ConcatDataset``, and with worker processes however they are started: each opens the store for
    itself and has a cache of its own. Random single rows of a compressed store decode a chunk each;
    :func:`outofcore.loader` is the fast way.

    Parameters
    ----------
    data
        A store, or its folder; or several that are read as one, in the given order.
    split, part
        Which split of which part; a store with several parts asks for one.
    tensors, columns, window, where
        What a sample is, as in :func:`outofcore.loader`: by default the ready tensors of the store's domain.
    memory
        Bytes for decoded chunks, in each process.

    Raises
    ------
    BudgetError
        If the memory does not hold the chunks of one sample.
    """

    def __init__(
        self,
        data: Store | str | Path | Sequence[Store | str | Path],
        split: str = "train",
        *,
        tensors: Reading | Sequence[str] | None = None,
        columns: tuple[str, ...] = (),
        window: Window | Mapping[str, Any] | None = None,
        where: str | None = None,
        part: str | None = None,
        memory: str | int = "64MiB",
        **unknown: Never,
    ) -> None:
        budget, split = budget_bytes(memory), word("split", split)
        stores = opened_all(data, field_names(tensors))
        refuse_unknown(
            "ZarrDataset()", list(signature(type(self)).parameters)[:-1], unknown, [source.domain for source in stores]
        )
        check_stores(stores)
        known = stores[0].parts
        if part is None and len(known) > 1:
            raise ParamsError(
                f"{stores[0].root}: part: expected one of {', '.join(known)}; ConcatDataset joins several"
            )
        place = known[0] if part is None else word("part", part)
        what: dict[str, Any] = {
            "tensors": tensors,
            "columns": () if columns == () else words("columns", columns),
            "window": window,
            "where": where,
        }
        self._arguments = {"split": split, "part": place, "memory": memory, **what}
        self._split = open_split(stores, split, place, moves=False, budget=budget, **what)
        rows, extent = self._split.rows, self._split.windows.extent
        chunk = rows.chunk_rows * rows.row_bytes
        column_bytes = self._split.columns.bytes + (self._split.windows.bytes if where is not None else 0)
        self._slots = max(0, budget - column_bytes) // max(chunk, 1)
        self._plan = ResidencyPlan(kind="streamed", reason="", slots=self._slots)
        needed = min((extent + rows.chunk_rows - 2) // rows.chunk_rows + 1, rows.chunks)
        if self._slots < needed:
            raise BudgetError(
                f"a memory budget of {format_bytes(budget)} does not hold the {needed} chunks of one "
                f"sample; the least that works is {format_least(needed * chunk + column_bytes)}"
            )
        self._split.columns.read()
        # One lock a process: one that another thread held during a fork stays locked in the child.
        self._locks: dict[int, threading.Lock] = {}
        self._cache: tuple[int, ChunkCache] | None = None
        self._settled = True

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process has a cache of its own.
        return partial(type(self), self._split.stores, **self._arguments), ()

    def __len__(self) -> int:
        return self._split.windows.samples

    def __repr__(self) -> str:
        return f"ZarrDataset({self._split.where!r}, {self._split.name!r}): {len(self):,} samples"

    def __getitem__(self, index: int | slice | Sequence[int] | Ints) -> Batch:
        """A sample by number, or the batch of several, also by a slice."""
        if isinstance(index, slice):
            return self._batch(range(*index.indices(len(self))))
        if isinstance(index, Sequence | np.ndarray) or getattr(index, "ndim", None):
            return self._batch(index)  # type: ignore[arg-type]  # a tensor counts as a sequence
        return {name: tensor[0] for name, tensor in self._batch([index]).items()}

    def __getitems__(self, indices: Sequence[int] | Ints) -> Samples:
        """Several samples, in the given order; a ``DataLoader`` passes them to its collate function.

        Raises
        ------
        IndexError
            If there is no such sample.
        ParamsError
            If a number is not whole.
        """
        return Samples(self._batch(indices), len(indices))

    def _batch(self, indices: Sequence[int] | Ints) -> Batch:
        samples = integers("indices", indices if len(indices) else np.empty(0, np.int64))
        count = len(self)
        outside = samples[(samples < -count) | (samples >= count)]
        if len(outside):
            raise IndexError(f"{self._split.path}: no sample {outside[0]}; there are {count:,}")
        first = self._split.windows.first_rows(np.where(samples < 0, samples + count, samples))
        # Random choices of a reading follow torch's seed, which differs from worker to worker.
        draws = random_words(0, 1, len(first), int(torch.randint(2**62, ())))
        columns = self._split.columns
        batch = self._split.reading(self._rows(first) | columns.of_rows(first), draws)
        return with_columns(batch, columns.of(first))

    def _rows(self, first: Ints) -> dict[str, Any]:
        process = os.getpid()
        with self._locks.setdefault(process, threading.Lock()):
            if self._cache is None or self._cache[0] != process:
                self._cache = process, ChunkCache(self._split, self._plan, defaultdict(Recycler))
            cache = self._cache[1]
            buffer = cache.allocate(len(first))
            chunks = cache.touched(first)
            if len(chunks) <= self._slots:
                self._gather(cache, first, chunks, buffer, 0)
                return buffer.arrays
            order = np.argsort(first, kind="stable")
            self._gather_in_parts(cache, first[order], buffer)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return {name: np.take(array, back, axis=0) for name, array in buffer.arrays.items()}

    def _gather_in_parts(self, cache: ChunkCache, first: Ints, buffer: BatchBuffer) -> None:
        """Gather ascending windows whose chunks do not fit together, as many at a time as do."""
        start = 0
        while start < len(first):
            last_chunk = max(int(first[start]), 0) // cache.chunk_rows + self._slots
            ends = first + (self._split.windows.extent - 1)
            stop = max(start + 1, int(np.searchsorted(ends, last_chunk * cache.chunk_rows)))
            part = first[start:stop]
            self._gather(cache, part, cache.touched(part), buffer, start)
            start = stop

    def _gather(self, cache: ChunkCache, first: Ints, chunks: Ints, buffer: BatchBuffer, at: int) -> None:
        if not self._settled:  # an error or a Ctrl-C ended the last one
            cache.settle()
        self._settled = False
        for work in cache.bring(chunks):
            work()
        cache.gather(first, buffer, at)
        cache.release(chunks)
        self._settled = True
