"""Decoded chunks in slots of a fixed arena: the residencies ``streamed``, ``hybrid`` and ``ram``.

A pool's chunks take slots and are decoded straight into them; when the pool is consumed the chunks stay until their
slots are needed, those that have waited longest going first. A chunk that pools share is decoded once. Chunks that are
*kept* are never given up: none of them is ``streamed``, some ``hybrid``, all ``ram``; so ``ram`` needs no reading phase
of its own, its first epoch streams. Which ones are kept is fixed: an epoch comes by each chunk once, and a cache of
what was used last would have lost each chunk when its time comes again.
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

# Decoded bytes of a piece of work: about a millisecond, long beside what it costs to hand out.
_TOGETHER = 1 << 20


def spread(chunks: int, kept: int) -> npt.NDArray[np.bool_]:
    """Which of ``chunks`` chunks are kept, ``kept`` of them, evenly spread."""
    steps = np.arange(chunks + 1, dtype=np.int64) * min(kept, chunks) // max(chunks, 1)
    return np.diff(steps) > 0


class Arena(HostResidency):
    """Slots for decoded chunks.

    Parameters
    ----------
    fields, length
        As for every residency.
    passing
        Slots for chunks that come and go.
    kept
        Number of chunks that stay in memory once they are decoded, in slots of their own.
    """

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
        self._idle: dict[int, None] = {}  # chunks that nobody holds, the longest idle first
        self._free = list(range(self._slots))

    def has_room(self, chunks: Ints) -> bool:
        """Whether enough slots are free or hold chunks that nobody needs."""
        with self._lock:
            return self._missing(chunks) <= 0

    def bring(self, chunks: Ints) -> list[Work]:
        """Take slots for the chunks that have none; the work decodes some of them, all fields.

        Raises
        ------
        BudgetError
            If there are too few slots.
        """
        if not self._buffers:
            self._buffers = [
                np.empty((self._slots, array.chunk_rows, *array.shape[1:]), array.dtype)
                for array in self.fields.values()
            ]
            self._origins = [buffer.ctypes.data for buffer in self._buffers]
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
        """Let the chunks go that no other pool needs and that are not kept."""
        with self._lock:
            self._holders[chunks] -= 1
            for chunk in chunks[(self._holders[chunks] == 0) & ~self._keep[chunks]].tolist():
                self._idle[chunk] = None

    def settle(self) -> None:
        """Forget what was not decoded; nobody holds the rest."""
        self._holders[:] = 0
        for chunk in np.flatnonzero((self._slot >= 0) & ~self._decoded).tolist():
            self._idle.pop(chunk, None)
            self._give_up(chunk)
        held = np.flatnonzero((self._slot >= 0) & ~self._keep).tolist()
        self._idle = {**self._idle, **dict.fromkeys(held)}

    def _missing(self, chunks: Ints) -> int:
        """Slots that are lacking to bring chunks."""
        slots = self._slot[chunks]
        wanted = sum(chunk in self._idle for chunk in chunks[slots >= 0].tolist())
        return int(np.count_nonzero(slots < 0)) - (len(self._free) + len(self._idle) - wanted)

    def _give_up(self, chunk: int) -> None:
        self._idle.pop(chunk, None)
        self._free.append(int(self._slot[chunk]))
        self._slot[chunk] = -1
        self._decoded[chunk] = False
        self.addresses[:, chunk] = ABSENT

    def _decode(self, chunks: list[int], slots: list[int]) -> None:
        places = np.array(slots)
        read = self._reader.read(np.array(chunks), self._buffers, places)
        for number, buffer in enumerate(self._buffers):
            self.addresses[number, chunks] = (self._origins[number] + places * buffer.strides[0]).astype(np.uint64)
        self._decoded[chunks] = True
        with self._lock:
            self.bytes_read += read
