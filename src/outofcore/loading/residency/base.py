"""Interface of a residency, and the common part of those in host memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.loading.gather import Room, gather
from outofcore.store.reader import Array

Ints = npt.NDArray[np.int64]
Work = Callable[[], None]


class Residency(ABC):
    """Makes chunks available and gathers rows from them."""

    name: str

    def __init__(self, fields: Mapping[str, Array], length: int) -> None:
        self.fields = dict(fields)
        self.length = length
        self.bytes_read = 0
        some = next(iter(self.fields.values()))
        self.chunk_rows = some.chunk_rows
        self.chunks = some.chunks

    def has_room(self, chunks: Ints) -> bool:
        """Whether chunks can be brought now, or only after others are released."""
        del chunks
        return True

    @abstractmethod
    def bring(self, chunks: Ints) -> list[Work]:
        """Reserve existing room for chunks, and return the work that fills it.

        The chunks are available once all of that work, and that of every earlier call, is done. Pieces of work may run
        in any thread, in any order, concurrently, or not at all if the epoch is abandoned.
        """

    @abstractmethod
    def release(self, chunks: Ints) -> None:
        """Declare that the chunks of one :meth:`bring` are no longer gathered from."""

    @abstractmethod
    def settle(self) -> None:
        """Free all room that is not kept for the next epoch; called when no thread is working."""

    @abstractmethod
    def allocate(self, count: int) -> Room:
        """Room for the rows of ``count`` samples."""

    @abstractmethod
    def gather(self, first: Ints, room: Room, at: int) -> None:
        """Fill ``room`` from place ``at`` with the samples whose first rows are given."""


class HostResidency(Residency):
    """A residency with chunks in host memory, each at an address."""

    def __init__(self, fields: Mapping[str, Array], length: int) -> None:
        super().__init__(fields, length)
        self.addresses = np.zeros((len(self.fields), self.chunks), np.uint64)
        self._row_bytes = np.array([array.row_bytes for array in self.fields.values()], np.int64)

    def allocate(self, count: int) -> Room:
        """Uninitialised numpy arrays, (count, ...) or (count, length, ...)."""
        window = (self.length,) if self.length > 1 else ()
        arrays: dict[str, npt.NDArray[Any]] = {
            name: np.empty((count, *window, *array.shape[1:]), array.dtype) for name, array in self.fields.items()
        }
        return Room(arrays)

    def gather(self, first: Ints, room: Room, at: int) -> None:
        """Copy each window once, from its chunks to its place in the batch."""
        gather(self.addresses, first, self.length, self.chunk_rows, self._row_bytes, room, at)
