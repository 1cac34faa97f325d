"""Where decoded rows are kept during an epoch: the batches are the same, at different cost in memory and time.

A :class:`Residency` says what it needs of the budget, and keeps the rows; ``settings/residencies.py`` lists all.
"""

from __future__ import annotations

import pkgutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.loading.batch_memory import Recyclers
from outofcore.loading.gather import BatchBuffer, gather
from outofcore.loading.memory import InFlight, Ledger, MemoryEstimate, piece_chunks, prove
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.order.windows import touched
from outofcore.settings.residencies import RESIDENCIES, ResidencyName
from outofcore.store.bulk import read_chunks

Work = Callable[[], None]

TOUCHED_ROWS = 1 << 19  # of packed samples, looked at together


@dataclass(frozen=True, kw_only=True)
class ResidencyPlan:
    """A residency within a budget, and why it was chosen."""

    kind: ResidencyName  # never "auto"
    reason: str  # one line for the user
    pool_slots: int = 0  # for chunks of pools
    pinned_chunks: int = 0  # that stay

    @property
    def host_chunks(self) -> int:
        """Chunks in host memory."""
        return self.pool_slots + self.pinned_chunks

    def open(self, split: Split, recyclers: Recyclers) -> Residency:
        """The residency, still empty."""
        return residency_named(self.kind)(split, self, recyclers)


class Residency(ABC):
    """Keeps chunks and gathers rows from them.

    A subclass states what it keeps (``ledger``), when ``"auto"`` takes it (``suits``), and decodes chunks (``_load``).
    """

    name: ResidencyName
    forecast = "streamed"  # the column of 'outofcore plan' that forecasts it: loaded, streamed or mapped

    @classmethod
    @abstractmethod
    def suits(cls, needs: MemoryEstimate, budget: int) -> str:
        """Why ``"auto"`` takes it; "" if it does not."""

    @staticmethod
    @abstractmethod
    def ledger(needs: MemoryEstimate) -> Ledger:
        """Bytes of the budget that rows take at least."""

    @classmethod
    def plan(cls, needs: MemoryEstimate, budget: int, reason: str) -> ResidencyPlan:
        """The residency within a budget. Raises BudgetError if that is too small, StoreError if it does not suit."""
        prove(budget, [needs], cls.ledger)
        return ResidencyPlan(kind=cls.name, pool_slots=sum(cls.ledger(needs).values()) // needs.chunk, reason=reason)

    def __init__(self, split: Split, plan: ResidencyPlan, recyclers: Recyclers) -> None:
        del plan
        self.recyclers = recyclers
        self.rows = rows = split.rows
        self.fields, self.chunk_rows, self.chunks = rows.fields, rows.chunk_rows, rows.chunks
        self.length, self.packs = split.windows.length, split.windows.packs
        self.bytes_read = 0
        self.origins = rows.chunk_origins()
        self.addresses = np.zeros((len(self.fields), self.chunks), np.uint64)  # of chunks, where in host memory
        self._chunk_bytes = rows.chunk_rows * rows.row_bytes
        self._row_bytes = np.array([array.row_bytes for array in self.fields.values()], np.int64)
        self._ready = np.zeros(self.chunks, np.bool_)  # chunks that rows can be gathered from
        self._lock = threading.Lock()

    def touched(self, first: Ints) -> Ints:
        """The chunks that hold the samples with these first rows, ascending."""
        if self.packs is None:
            return touched(first, self.length, self.chunk_rows, self.origins)
        slab, marks = max(1, TOUCHED_ROWS // self.length), np.zeros(self.chunks, np.bool_)
        for begin in range(0, len(first), slab):
            starts, lengths, _ = self.packs.runs(first[begin : begin + slab])
            marks[touched(starts, np.maximum(lengths, 1), self.chunk_rows, self.origins)] = True
        return np.flatnonzero(marks)

    def bring(self, chunks: Ints) -> list[Work]:
        """Make room for chunks, and return the tasks that decode into it.

        The chunks are available once all of that work, and that of every earlier call, is done. Pieces of work may run
        in any thread, in any order, concurrently, or not at all if the epoch is abandoned.
        """
        new = self._reserve(chunks)
        piece = piece_chunks(len(new), self._chunk_bytes)
        return [partial(self._fill, new[at : at + piece]) for at in range(0, len(new), piece)]

    def release(self, chunks: Ints) -> None:  # noqa: B027 - most keep them
        """Declare that the chunks of one :meth:`bring` are no longer gathered from."""

    def settle(self) -> None:  # noqa: B027 - most have none
        """Free all room that is not kept for the next epoch; called when no thread is working."""

    def allocate(self, count: int) -> BatchBuffer:
        """An uninitialised buffer for the rows of ``count`` samples, (count, ...) or (count, length, ...) by field."""
        window = (self.length,) if self.length > 1 else ()
        return BatchBuffer(
            {
                name: self.recyclers[name].empty((count, *window, *array.shape[1:]), array.dtype)
                for name, array in self.fields.items()
            }
        )

    def gather(self, first: Ints, buffer: BatchBuffer, at: int) -> None:
        """Fill ``buffer`` from place ``at`` with the samples whose first rows are given; each row is copied once."""
        starts, lengths = (first, None) if self.packs is None else self.packs.runs(first)[:2]
        gather(self.addresses, starts, self.length, self.chunk_rows, self.origins, self._row_bytes, buffer, at, lengths)

    def _reserve(self, chunks: Ints) -> Ints:
        """Make room for those of the chunks that are to be loaded, and return them."""
        return chunks[~self._ready[chunks]]

    @abstractmethod
    def _load(self, chunks: Ints) -> int:
        """Decode chunks, ascending; returns the bytes read."""

    def _decode(self, chunks: Ints, buffers: Sequence[npt.NDArray[Any]], slots: Ints) -> int:
        """Decode chunks into slots of one buffer (slots, chunk_rows, ...) per field; returns the bytes read."""
        return sum(
            read_chunks([*self.rows.stores[store].values()], of_store, buffers, slots[own])
            for store, own, of_store in self.rows.by_store(chunks)
        )

    def _fill(self, chunks: Ints) -> None:
        read = self._load(chunks)
        self._ready[chunks] = True
        with self._lock:
            self.bytes_read += read


def residency_named(name: str) -> type[Residency]:
    """The class of a residency."""
    residency: type[Residency] = pkgutil.resolve_name(RESIDENCIES[name])
    return residency


def choose(kind: ResidencyName, needs: Sequence[MemoryEstimate], budget: int) -> list[ResidencyPlan]:
    """Choose residencies for splits that are read together, or check the user's choice."""
    if len(needs) == 1:
        return [_choose(kind, replace(needs[0], ahead=needs[0].groups(needs[0].group_batches)), budget)]
    residency = residency_named("streamed" if kind == "auto" else kind)
    prove(budget, needs, residency.ledger)
    least = [estimate.least(sum(residency.ledger(estimate).values())) for estimate in needs]
    whole = kind == "ram" or any(estimate.access == "anywhere" for estimate in needs)
    groups = 0 if whole else max(estimate.groups(1) for estimate in needs)
    shares = divide(max(budget - groups, sum(least)), needs, least)
    return [_choose(kind, estimate, share) for estimate, share in zip(needs, shares, strict=True)]


def _choose(kind: ResidencyName, needs: MemoryEstimate, budget: int) -> ResidencyPlan:
    if kind != "auto":
        return residency_named(kind).plan(needs, budget, "as requested")
    offers = ((residency, residency.suits(needs, budget)) for residency in map(residency_named, RESIDENCIES))
    residency, reason = next(offer for offer in offers if offer[1])
    return residency.plan(needs, budget, reason)


def divide(budget: int, needs: Sequence[MemoryEstimate], least: Sequence[int]) -> list[int]:
    """Give each split the least that it needs; the rest goes to the smallest first, so that it can be held whole."""
    shares = list(least)
    left = budget - sum(shares)
    for number in sorted(range(len(needs)), key=lambda number: needs[number].whole):
        more = min(left, max(0, needs[number].whole - shares[number]))
        shares[number] += more
        left -= more
    return [share + left // len(needs) for share in shares] if left else shares


def in_flight(needs: Sequence[MemoryEstimate], plans: Sequence[ResidencyPlan], budget: int) -> InFlight:
    """Batches in flight, within what the residencies leave of the budget."""
    kept = sum(estimate.fixed + plan.host_chunks * estimate.chunk for estimate, plan in zip(needs, plans, strict=True))
    flight = max(needs, key=lambda estimate: estimate.batches).in_flight(max(0, budget - kept))
    return flight if len(needs) == 1 else flight._replace(group_batches=1)
