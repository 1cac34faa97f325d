"""Decoded chunks in slots of a fixed arena: the residencies ``streamed``, ``hybrid`` and ``ram``.

A pool's chunks take free slots and are decoded straight into them; the slot is free again when the pool is consumed. A
chunk that two pools share is decoded once. Chunks that are *kept* stay once they are decoded: none of them is
``streamed``, some ``hybrid``, all ``ram``; so ``ram`` needs no reading phase of its own, its first epoch streams.
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
from outofcore.store.reader import Array


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
        kept = int(self._keep.sum())
        self._slots = min(kept + passing, self.chunks)
        self.name = "ram" if kept == self.chunks else "hybrid" if kept else "streamed"
        self._changed = threading.Condition()
        self._buffers: list[npt.NDArray[Any]] = []
        self._origins: list[int] = []
        self._slot = np.full(self.chunks, -1, np.int64)
        self._holders = np.zeros(self.chunks, np.int64)
        self._decoded = np.zeros(self.chunks, np.bool_)
        self._free = np.arange(self._slots, dtype=np.int64)

    def bring(self, chunks: Ints) -> list[Work]:
        """Take slots for the chunks that have none; the work decodes one chunk of every field."""
        if not self._buffers:
            self._buffers = [
                np.empty((self._slots, array.chunk_rows, *array.shape[1:]), array.dtype)
                for array in self.fields.values()
            ]
            self._origins = [buffer.ctypes.data for buffer in self._buffers]
        with self._changed:
            self._holders[chunks] += 1
            new = chunks[self._slot[chunks] < 0]
            if len(new) > self._slots:
                message = f"a pool needs {len(new)} chunks, there is room for {self._slots}"
                raise BudgetError(message)
            self._changed.wait_for(lambda: len(self._free) >= len(new))
            taken, self._free = self._free[: len(new)], self._free[len(new) :]
            self._slot[new] = taken
        return [partial(self._decode, int(chunk), int(slot)) for chunk, slot in zip(new, taken, strict=True)]

    def release(self, chunks: Ints) -> None:
        """Free the slots of chunks that no other pool needs and that are not kept."""
        with self._changed:
            self._holders[chunks] -= 1
            self._vacate(chunks[(self._holders[chunks] == 0) & ~self._keep[chunks]])
            self._changed.notify_all()

    def settle(self) -> None:
        """Forget everything but what is kept and decoded."""
        self._holders[:] = 0
        self._vacate(np.flatnonzero((self._slot >= 0) & ~(self._keep & self._decoded)))
        if not self._keep.any():
            self._buffers = []

    def _vacate(self, chunks: Ints) -> None:
        self._free = np.append(self._free, self._slot[chunks])
        self._slot[chunks] = -1
        self._decoded[chunks] = False
        self.addresses[:, chunks] = ABSENT

    def _decode(self, chunk: int, slot: int) -> None:
        read = 0
        for number, (array, buffer) in enumerate(zip(self.fields.values(), self._buffers, strict=True)):
            read += array.chunk(chunk, buffer[slot])
            self.addresses[number, chunk] = self._origins[number] + slot * buffer.strides[0]
        self._decoded[chunk] = True
        with self._changed:
            self.bytes_read += read
