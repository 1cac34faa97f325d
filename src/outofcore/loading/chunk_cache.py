"""A cache of decoded chunks in host memory: the residencies ``streamed``, ``hybrid`` and ``ram``.

They differ in how many chunks are pinned: none, some, or all, so that the first epoch of ``ram`` streams and needs no
separate reading phase. The pinned ones are fixed: an epoch uses each chunk once, so a least-recently-used cache would
have evicted each chunk by the time it is needed again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import BudgetError
from outofcore.loading.batch_memory import Recyclers
from outofcore.loading.gather import ABSENT
from outofcore.loading.memory import Ledger, MemoryEstimate
from outofcore.loading.residency import Residency, ResidencyPlan
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.settings.residencies import ResidencyName
from outofcore.settings.sizes import format_bytes

_WORTH_KEEPING = 0.1  # below this share of the chunks, keeping some saves too little


class ChunkCache(Residency):
    """Decoded chunks in slots of a fixed arena.

    A pool's chunks are decoded directly into slots; after the pool is consumed they stay until their slots are needed,
    oldest first. A chunk shared by pools is decoded once. There is a slot for each of the ``pinned_chunks``, which are
    never evicted; ``pool_slots`` are for the others.
    """

    def __init__(self, split: Split, plan: ResidencyPlan, recyclers: Recyclers) -> None:
        super().__init__(split, plan, recyclers)
        used = np.arange(self.chunks) if split.used is None else split.used
        pinned = min(plan.pinned_chunks, len(used))
        pinned_before = np.arange(len(used) + 1, dtype=np.int64) * pinned // max(len(used), 1)
        self._pinned = np.zeros(self.chunks, np.bool_)
        self._pinned[used] = np.diff(pinned_before) > 0  # evenly spread
        self._slots = min(pinned + plan.pool_slots, len(used))
        self._buffers: list[npt.NDArray[Any]] = []
        self._slot = np.full(self.chunks, -1, np.int64)
        self._holders = np.zeros(self.chunks, np.int64)
        self._idle: dict[int, None] = {}  # unused chunks, longest idle first
        self._free = list(range(self._slots))

    def release(self, chunks: Ints) -> None:
        """Release the chunks that no other pool needs and that are not kept."""
        with self._lock:
            self._holders[chunks] -= 1
            for chunk in chunks[(self._holders[chunks] == 0) & ~self._pinned[chunks]].tolist():
                self._idle[chunk] = None

    def settle(self) -> None:
        """Forget chunks that were not decoded and release the others.

        Computed only from what is decoded, so that an interrupted :meth:`bring` or call of this neither loses a slot
        nor assigns it twice.
        """
        self._holders[:] = 0
        undecoded = ~self._ready
        self.addresses[:, undecoded] = ABSENT
        self._slot[undecoded] = -1
        evictable = np.flatnonzero(self._ready & ~self._pinned).tolist()
        self._idle = {chunk: None for chunk in self._idle if self._ready[chunk]} | dict.fromkeys(evictable)
        used = set(self._slot[self._ready].tolist())
        self._free = [slot for slot in range(self._slots) if slot not in used]

    def _reserve(self, chunks: Ints) -> Ints:
        """Assign slots to the chunks that have none, and return these; raises BudgetError."""
        if not self._buffers:
            self._buffers = [
                np.empty((self._slots, array.chunk_rows, *array.shape[1:]), array.dtype)
                for array in self.fields.values()
            ]
        with self._lock:
            missing = self._missing(chunks)
            if missing > 0:
                raise BudgetError(f"{len(chunks)} chunks are needed together, {missing} more than there is room for")
            self._holders[chunks] += 1
            for chunk in chunks.tolist():
                self._idle.pop(chunk, None)
            new = chunks[self._slot[chunks] < 0]
            while len(self._free) < len(new):
                self._evict(next(iter(self._idle)))
            self._slot[new] = [self._free.pop() for _ in new]
        return new

    def _missing(self, chunks: Ints) -> int:
        """Number of slots that are lacking to bring chunks."""
        slots = self._slot[chunks]
        wanted = sum(chunk in self._idle for chunk in chunks[slots >= 0].tolist())
        return int(np.count_nonzero(slots < 0)) - (len(self._free) + len(self._idle) - wanted)

    def _evict(self, chunk: int) -> None:
        self._ready[chunk] = False
        self._idle.pop(chunk, None)
        self._free.append(int(self._slot[chunk]))
        self._slot[chunk] = -1
        self.addresses[:, chunk] = ABSENT

    def _load(self, chunks: Ints) -> int:
        slots = self._slot[chunks]
        read = self._decode(chunks, self._buffers, slots)
        for number, buffer in enumerate(self._buffers):
            self.addresses[number, chunks] = (buffer.ctypes.data + slots * buffer.strides[0]).astype(np.uint64)
        return read


class Streamed(ChunkCache):
    """Two pools: one in use, one being read."""

    name: ResidencyName = "streamed"

    @classmethod
    def suits(cls, needs: MemoryEstimate, budget: int) -> str:
        return needs.exceeds(budget)

    @staticmethod
    def ledger(needs: MemoryEstimate) -> Ledger:
        return {f"two pools of {needs.pool_blocks} blocks": needs.slots * needs.chunk}

    @classmethod
    def plan(cls, needs: MemoryEstimate, budget: int, reason: str) -> ResidencyPlan:
        if needs.access == "anywhere":
            raise BudgetError(
                f"Shuffle(full=True) draws rows from everywhere at once, residency {cls.name!r} holds one pool: "
                f"use shuffle=True, raise memory to {format_bytes(needs.whole)}, or convert with "
                "store.codec: none, which can be mapped"
            )
        return super().plan(needs, budget, reason)


class Hybrid(Streamed):
    """Two pools, and as many pinned chunks as the budget holds."""

    name = "hybrid"

    @classmethod
    def suits(cls, needs: MemoryEstimate, budget: int) -> str:
        return needs.exceeds(budget) if _worthwhile(needs, budget) else ""

    @classmethod
    def plan(cls, needs: MemoryEstimate, budget: int, reason: str) -> ResidencyPlan:
        plan, pinned = super().plan(needs, budget, reason), _pinned(needs, budget)
        share = pinned / max(needs.chunks, 1)
        # Recently used chunks are the ones to keep where they recur.
        slots, pinned = (pinned, 0) if needs.access == "recurring" else (0, pinned)
        reason = f"{reason}; {share:.0%} of the rows stay, in addition to two pools"
        return replace(plan, reason=reason, pool_slots=plan.pool_slots + slots, pinned_chunks=pinned)


class Ram(ChunkCache):
    """All chunks."""

    name: ResidencyName = "ram"
    forecast = "loaded"

    @classmethod
    def suits(cls, needs: MemoryEstimate, budget: int) -> str:
        # Where all rows leave too little for batches in flight, these hold up more than reading some rows again does.
        least = needs.whole + (needs.ahead if _worthwhile(needs, budget) else 0)
        reason = f"{format_bytes(needs.decoded)} decoded fit the budget of {format_bytes(budget)}"
        return reason if least <= budget else ""

    @staticmethod
    def ledger(needs: MemoryEstimate) -> Ledger:
        return {"all rows": needs.decoded}

    @classmethod
    def plan(cls, needs: MemoryEstimate, budget: int, reason: str) -> ResidencyPlan:
        plan = super().plan(needs, budget, reason)
        return replace(plan, pool_slots=0, pinned_chunks=needs.chunks)


def _pinned(needs: MemoryEstimate, budget: int) -> int:
    """Chunks that can stay in memory in addition to two pools and batches in flight."""
    return max(0, min((budget - needs.streamed - needs.ahead) // needs.chunk, needs.chunks))


def _worthwhile(needs: MemoryEstimate, budget: int) -> bool:
    return needs.access != "anywhere" and _pinned(needs, budget) >= _WORTH_KEEPING * needs.chunks
