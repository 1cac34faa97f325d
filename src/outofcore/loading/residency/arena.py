"""Decoded chunks in slots of a fixed arena: the residencies ``streamed``, ``hybrid`` and ``ram``.

A pool's chunks are decoded directly into slots; after the pool is consumed they stay until their slots are needed,
oldest first. A chunk shared by pools is decoded once. *Kept* chunks are never evicted: none in ``streamed``, some in
``hybrid``, all in ``ram``, whose first epoch therefore streams and needs no separate reading phase. The kept set is
fixed: an epoch uses each chunk once, so a least-recently-used cache would have evicted each chunk by the time it is
needed again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import BudgetError
from outofcore.loading.gather import ABSENT
from outofcore.loading.residency.base import HostResidency, Ints, Work
from outofcore.store.bulk import BulkReader
from outofcore.store.reader import Array

# Decoded bytes per piece of work: about a millisecond, long compared with handing it out.
_TOGETHER = 1 << 20


def spread(chunks: int, kept: int) -> npt.NDArray[np.bool_]:
    """Which of ``chunks`` chunks are kept: ``kept`` of them, evenly spread."""
    steps = np.arange(chunks + 1, dtype=np.int64) * min(kept, chunks) // max(chunks, 1)
    return np.diff(steps) > 0


class Arena(HostResidency):
    """Slots for decoded chunks: ``passing`` for temporary chunks, and one per ``kept`` chunk."""

    def __init__(self, fields: Mapping[str, Array], length: int, passing: int, kept: int = 0) -> None:
        super().__init__(fields, length)
        self._keep = spread(self.chunks, kept)
        self._reader = BulkReader(tuple(self.fields.values()))
        self._chunk_bytes = self.chunk_rows * sum(array.row_bytes for array in self.fields.values())
        self._slots = min(int(self._keep.sum()) + passing, self.chunks)
        self.name = "ram" if kept >= self.chunks else "hybrid" if kept else "streamed"
        self._lock = threading.Lock()
        self._buffers: list[npt.NDArray[Any]] = []
        self._origins: list[int] = []
        self._slot = np.full(self.chunks, -1, np.int64)
        self._holders = np.zeros(self.chunks, np.int64)
        self._decoded = np.zeros(self.chunks, np.bool_)
        self._idle: dict[int, None] = {}  # unused chunks, longest idle first
        self._free = list(range(self._slots))

    def has_room(self, chunks: Ints) -> bool:
        """Whether enough slots are free or hold unused chunks."""
        with self._lock:
            return self._missing(chunks) <= 0

    def bring(self, chunks: Ints) -> list[Work]:
        """Assign slots to the chunks that have none; the work decodes them; raises BudgetError."""
        if not self._buffers:
            buffers = [
                np.empty((self._slots, array.chunk_rows, *array.shape[1:]), array.dtype)
                for array in self.fields.values()
            ]
            self._origins = [buffer.ctypes.data for buffer in buffers]
            self._buffers = buffers
        with self._lock:
            missing = self._missing(chunks)
            if missing > 0:
                message = f"{len(chunks)} chunks are needed together, {missing} more than there is room for"
                raise BudgetError(message)
            self._holders[chunks] += 1
            for chunk in chunks.tolist():
                self._idle.pop(chunk, None)
            new = chunks[self._slot[chunks] < 0].tolist()
            while len(self._free) < len(new):
                self._give_up(next(iter(self._idle)))
            taken = [self._free.pop() for _ in new]
            self._slot[new] = taken
        together = max(1, _TOGETHER // self._chunk_bytes)
        starts = range(0, len(new), together)
        return [partial(self._decode, new[at : at + together], taken[at : at + together]) for at in starts]

    def release(self, chunks: Ints) -> None:
        """Release the chunks that no other pool needs and that are not kept."""
        with self._lock:
            self._holders[chunks] -= 1
            for chunk in chunks[(self._holders[chunks] == 0) & ~self._keep[chunks]].tolist():
                self._idle[chunk] = None

    def settle(self) -> None:
        """Forget chunks that were not decoded and release the others.

        Computed only from what is decoded, so that an interrupted :meth:`bring` or call of this neither loses a slot
        nor assigns it twice.
        """
        self._holders[:] = 0
        undecoded = ~self._decoded
        self.addresses[:, undecoded] = ABSENT
        self._slot[undecoded] = -1
        held = np.flatnonzero(self._decoded & ~self._keep).tolist()
        self._idle = {chunk: None for chunk in self._idle if self._decoded[chunk]} | dict.fromkeys(held)
        used = set(self._slot[self._decoded].tolist())
        self._free = [slot for slot in range(self._slots) if slot not in used]

    def _missing(self, chunks: Ints) -> int:
        """Number of slots that are lacking to bring chunks."""
        slots = self._slot[chunks]
        wanted = sum(chunk in self._idle for chunk in chunks[slots >= 0].tolist())
        return int(np.count_nonzero(slots < 0)) - (len(self._free) + len(self._idle) - wanted)

    def _give_up(self, chunk: int) -> None:
        self._decoded[chunk] = False
        self._idle.pop(chunk, None)
        self._free.append(int(self._slot[chunk]))
        self._slot[chunk] = -1
        self.addresses[:, chunk] = ABSENT

    def _decode(self, chunks: list[int], slots: list[int]) -> None:
        places = np.array(slots)
        read = self._reader.read(np.array(chunks), self._buffers, places)
        for number, buffer in enumerate(self._buffers):
            self.addresses[number, chunks] = (self._origins[number] + places * buffer.strides[0]).astype(np.uint64)
        self._decoded[chunks] = True
        with self._lock:
            self.bytes_read += read
