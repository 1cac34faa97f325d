"""Uncompressed shards, mapped into memory: nothing is read twice, nothing held but the page cache.

A shard file is an index, then the chunks, each followed by its checksum, so rows lie at odd offsets; the gather by
addresses does not mind. A chunk's checksum is verified when the chunk is first needed.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from outofcore.loading.residency.base import HostResidency, Ints, Work
from outofcore.store.reader import Array


class Mapped(HostResidency):
    """Maps the shards of fields that are stored without compression."""

    name = "mapped"

    def __init__(self, fields: Mapping[str, Array], length: int) -> None:
        super().__init__(fields, length)
        self._lock = threading.Lock()
        self._maps: dict[tuple[str, int], npt.NDArray[np.uint8]] = {}
        self._fills: dict[str, npt.NDArray[np.generic]] = {}
        self._verified = np.zeros(self.chunks, np.bool_)

    def bring(self, chunks: Ints) -> list[Work]:
        """The work maps and verifies the chunks that are needed for the first time."""
        return [partial(self._verify, int(chunk)) for chunk in chunks[~self._verified[chunks]]]

    def release(self, chunks: Ints) -> None:
        """Nothing: what is mapped stays mapped, and the page cache is the system's."""

    def settle(self) -> None:
        """Nothing."""

    def _verify(self, chunk: int) -> None:
        for number, (name, array) in enumerate(self.fields.items()):
            located = array.locate(chunk)
            if located is None:
                self.addresses[number, chunk] = self._fill(name, array).ctypes.data
                continue
            shard, offset, length = located
            content = self._map(name, array, shard)
            array.decode(chunk, content[offset : offset + length].tobytes(), None)
            self.addresses[number, chunk] = content.ctypes.data + offset
            with self._lock:
                self.bytes_read += length
        self._verified[chunk] = True

    def _map(self, name: str, array: Array, shard: int) -> npt.NDArray[np.uint8]:
        with self._lock:
            if (name, shard) not in self._maps:
                with array.shard_path(shard).open("rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._maps[name, shard] = np.frombuffer(mapped, np.uint8)
            return self._maps[name, shard]

    def _fill(self, name: str, array: Array) -> npt.NDArray[np.generic]:
        with self._lock:
            if name not in self._fills:
                self._fills[name] = np.full((array.chunk_rows, *array.shape[1:]), array.fill, array.dtype)
            return self._fills[name]
