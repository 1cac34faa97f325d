"""Where decoded rows are kept during an epoch: the batches are the same, at different cost in memory and time.

A :class:`Residency` says what it needs of the budget, and keeps the rows; ``settings/residencies.py`` lists all.
"""

from __future__ import annotations

import pkgutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import BudgetError, StoreError
from outofcore.loading.gather import BatchBuffer, gather
from outofcore.loading.memory import BatchBytes, MemoryEstimate, piece_chunks
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.order.windows import touched
from outofcore.settings.hardware import usable_memory
from outofcore.settings.residencies import RESIDENCIES, ResidencyName
from outofcore.settings.sizes import format_bytes, format_least
from outofcore.store.bulk import read_chunks
from outofcore.system.recycling import Recyclers

Work = Callable[[], None]

TOUCHED_ROWS = 1 << 19  # of packed samples, looked at together

_WORTH_KEEPING = 0.1  # below this share of the chunks, keeping some saves too little


@dataclass(frozen=True, kw_only=True)
class ResidencyPlan:
    """A residency within a budget, and why it was chosen."""

    kind: ResidencyName  # never "auto"
    reason: str  # one line for the user
    slots: int = 0  # of decoded chunks in host memory
    pinned: int = 0  # of these, for chunks that stay

    def open(self, split: Split, recyclers: Recyclers) -> Residency:
        """The residency, still empty."""
        residency: type[Residency] = pkgutil.resolve_name(RESIDENCIES[self.kind])
        return residency(split, self, recyclers)


class Residency(ABC):
    """Keeps chunks and gathers rows from them.

    A subclass decodes chunks (``_load``), or maps them.
    """

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
        for store, _, of_store in self.rows.by_store(new):
            for array in self.rows.stores[store].values():
                array.announce(of_store)
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
            read_chunks([*self.rows.stores[store].values()], of_store, buffers, slots[places])
            for store, places, of_store in self.rows.by_store(chunks)
        )

    def _fill(self, chunks: Ints) -> None:
        read = self._load(chunks)
        self._ready[chunks] = True
        with self._lock:
            self.bytes_read += read


def choose(
    kind: ResidencyName, estimates: Sequence[MemoryEstimate], budget: int
) -> tuple[list[ResidencyPlan], BatchBytes, int]:
    """Where the rows of parts that are read together are kept, and the batches, and the bytes that are left for them.

    Raises BudgetError with the least that works if the budget is too small, StoreError if the residency does not suit.
    """
    if kind == "mapped" and not all(estimate.mappable for estimate in estimates):
        raise StoreError(
            "residency 'mapped' needs a store with codec 'none' on a disk of this machine: "
            "use residency 'streamed', or convert with store.codec: none"
        )
    batches = BatchBytes(*map(max, zip(*(estimate.batches for estimate in estimates), strict=True)))
    tables, decoding = sum(estimate.tables for estimate in estimates), max(estimate.decoding for estimate in estimates)
    arenas = [_least_slots(kind, estimate) * estimate.chunk for estimate in estimates]
    kept = "all rows" if kind == "ram" else "two pools"
    ledger = {kept: sum(arenas), "batches in flight": batches.least, "chunks being decoded": decoding}
    ledger["order and tables"] = tables
    opening = sum(estimate.opening for estimate in estimates)
    ledger["tables while they are read"] = max(0, opening - sum(ledger.values()))
    least = sum(ledger.values())
    if any(estimate.limits.access == "anywhere" for estimate in estimates) and kept != "all rows":
        _refuse_anywhere(kind, estimates, budget, sum(ledger.values()) - sum(arenas))
    if least > budget:
        first, *others = ((name, format_bytes(size)) for name, size in ledger.items() if size)
        parts = f" for each of {len(estimates)} parts" if len(estimates) > 1 and first[0] == kept else ""
        raise BudgetError(
            f"a memory budget of {format_bytes(budget)} is too small: {first[0]}{parts} take {first[1]}"
            f"{''.join(f', {name} {size}' for name, size in others)}; the least that works is {format_least(least)}"
        )
    room = budget - tables - decoding - batches.least - sum(arenas)
    plans: dict[int, ResidencyPlan] = {}
    for number in sorted(range(len(estimates)), key=lambda number: estimates[number].decoded):
        # Small groups of batches cost more than reading some rows again does.
        spare = max(0, room - (batches.best - batches.least))
        plans[number] = _plan(kind, estimates[number], room, spare, budget)
        room -= plans[number].slots * estimates[number].chunk - arenas[number]
    return [plans[number] for number in range(len(estimates))], batches, room + batches.least


def _least_slots(kind: ResidencyName, needs: MemoryEstimate) -> int:
    """Slots of the arena without which a split cannot be read."""
    mapped = kind == "mapped" or (kind == "auto" and _cached_by_system(needs))
    return 0 if mapped else needs.chunks if kind == "ram" or needs.limits.access == "anywhere" else needs.slots


def _cached_by_system(needs: MemoryEstimate) -> bool:
    """Whether rows may be mapped: where pages of the split stay in memory, or nothing else can hold them."""
    return needs.mappable and (needs.limits.access == "anywhere" or needs.decoded <= usable_memory().value)


def _plan(kind: ResidencyName, needs: MemoryEstimate, room: int, spare: int, budget: int) -> ResidencyPlan:
    """The slots of one part: ``room`` bytes are left beyond the least, ``spare`` where batches get theirs before."""
    least = _least_slots(kind, needs)
    exceeds = f"{format_bytes(needs.decoded)} decoded and batches in flight exceed the budget of {format_bytes(budget)}"
    more = min(spare // max(needs.chunk, 1), needs.chunks)  # slots in addition to those of two pools
    worthwhile = needs.limits.access != "anywhere" and more >= _WORTH_KEEPING * needs.chunks
    fits = (needs.chunks - least) * needs.chunk <= (spare if worthwhile or _cached_by_system(needs) else room)
    if kind == "ram" or (kind == "auto" and fits):
        reason = f"{format_bytes(needs.decoded)} decoded fit the budget of {format_bytes(budget)}"
        asked = "as requested" if kind == "ram" else reason
        return ResidencyPlan(kind="ram", reason=asked, slots=needs.chunks, pinned=needs.chunks)
    if kind == "mapped" or (kind == "auto" and least == 0 and needs.chunks):
        cached = f"{exceeds}; stored uncompressed, and {format_bytes(usable_memory().value)} of memory can cache files"
        return ResidencyPlan(kind="mapped", reason="as requested" if kind == "mapped" else cached)
    reason = exceeds if kind == "auto" else "as requested"
    if kind == "streamed" or (kind == "auto" and not worthwhile):
        return ResidencyPlan(kind="streamed", reason=reason, slots=least)
    share = f"{more / max(needs.chunks, 1):.0%} of the rows stay, in addition to two pools"
    # Recently used chunks are the ones to keep where they recur.
    pinned = 0 if needs.limits.access == "recurring" else more
    return ResidencyPlan(kind="hybrid", reason=f"{reason}; {share}", slots=least + more, pinned=pinned)


def _refuse_anywhere(kind: ResidencyName, estimates: Sequence[MemoryEstimate], budget: int, others: int) -> None:
    """Raise BudgetError if rows are drawn from everywhere at once, and neither held nor mapped."""
    held = [estimate for estimate in estimates if not (kind in ("auto", "mapped") and _cached_by_system(estimate))]
    whole = others + sum(estimate.decoded for estimate in held)
    if kind in ("streamed", "hybrid") or (kind == "auto" and whole > budget):
        raise BudgetError(
            "Shuffle(full=True) draws rows from everywhere at once, residencies 'streamed' and 'hybrid' hold one pool: "
            f"use shuffle=True, raise memory to {format_bytes(whole)}, or convert with "
            "store.codec: none, which can be mapped"
        )
