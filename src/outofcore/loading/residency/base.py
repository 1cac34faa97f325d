"""What the loader asks of a residency, and what those in this machine's memory have in common."""

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
    """Brings chunks in reach and gathers rows from them.

    Parameters
    ----------
    fields
        The arrays to read, by name; they share rows, chunks and shards.
    length
        Rows of a sample.

    Attributes
    ----------
    bytes_read
        Bytes read from the store so far.
    """

    name: str

    def __init__(self, fields: Mapping[str, Array], length: int) -> None:
        self.fields = dict(fields)
        self.length = length
        self.bytes_read = 0
        some = next(iter(self.fields.values()))
        self.chunk_rows = some.chunk_rows
        self.chunks = some.chunks

    def has_room(self, chunks: Ints) -> bool:
        """Whether chunks can be brought now; else once others are released."""
        del chunks
        return True

    @abstractmethod
    def bring(self, chunks: Ints) -> list[Work]:
        """Reserve room for chunks, which there must be, and return the work that fills it.

        The chunks may be gathered from once all of that work, and that of every earlier call, is done. Pieces of work
        may run in any thread, in any order, side by side; they need not run at all if the epoch is given up.
        """

    @abstractmethod
    def release(self, chunks: Ints) -> None:
        """Say that the chunks of one :meth:`bring` will not be gathered from any more."""

    @abstractmethod
    def settle(self) -> None:
        """Give back all room that is not kept for the next epoch; called when no thread works any more."""

    @abstractmethod
    def allocate(self, count: int) -> Room:
        """Room for the rows of ``count`` samples."""

    @abstractmethod
    def gather(self, first: Ints, room: Room, at: int) -> None:
        """Fill ``room`` from place ``at`` on with the samples whose first rows are given."""


class HostResidency(Residency):
    """A residency whose chunks lie in this machine's memory, each at an address."""

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
