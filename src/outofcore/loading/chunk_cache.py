"""A cache of decoded chunks in host memory: the residencies ``streamed``, ``hybrid`` and ``ram``.

They differ in slots: for two pools, for more, or for all chunks, so that the first epoch of ``ram`` streams and needs
no separate reading phase. The pinned chunks are fixed: an epoch uses each chunk once, so a least-recently-used cache
would have evicted each chunk by the time it is needed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import BudgetError
from outofcore.loading.gather import ABSENT
from outofcore.loading.residency import Residency, ResidencyPlan
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.system.recycling import Recyclers


class ChunkCache(Residency):
    """Decoded chunks in slots of a fixed arena.

    A pool's chunks are decoded directly into slots; after the pool is consumed they stay until their slots are needed,
    oldest first. A chunk shared by pools is decoded once. ``pinned`` of the ``slots`` of a plan are for chunks that are
    never evicted.
    """

    def __init__(self, split: Split, plan: ResidencyPlan, recyclers: Recyclers) -> None:
        super().__init__(split, plan, recyclers)
        used = np.arange(self.chunks) if split.used is None else split.used
        pinned = min(plan.pinned, len(used))
        pinned_before = np.arange(len(used) + 1, dtype=np.int64) * pinned // max(len(used), 1)
        self._pinned = np.zeros(self.chunks, np.bool_)
        self._pinned[used] = np.diff(pinned_before) > 0  # evenly spread
        self._slots = min(plan.slots, len(used))
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
            self._holders[chunks] += 1
            for chunk in chunks.tolist():
                self._idle.pop(chunk, None)
            new = chunks[self._slot[chunks] < 0]
            if (missing := len(new) - len(self._free) - len(self._idle)) > 0:
                raise BudgetError(f"{len(chunks)} chunks are needed together, {missing} more than there is room for")
            while len(self._free) < len(new):
                self._evict(next(iter(self._idle)))
            self._slot[new] = [self._free.pop() for _ in new]
        return new

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
