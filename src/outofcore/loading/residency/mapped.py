"""Uncompressed shards mapped into memory: nothing is read twice, and only the page cache holds data.

A shard file is an index, then the chunks, each followed by its checksum, so rows are at odd offsets, which the gather
supports. A chunk's checksum is verified when an epoch first needs it, and the sizes of its files with every pool. A
file truncated between that and the gather ends the process (SIGBUS), as with every memory map; changed bytes there are
detected by the next epoch.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from outofcore.errors import StoreError
from outofcore.loading.gather import ABSENT
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
        some = next(iter(self.fields.values()))
        self._shard_chunks = some.shard_rows // some.chunk_rows

    def bring(self, chunks: Ints) -> list[Work]:
        """The work maps and verifies the chunks new to this epoch; raises DamagedStore if a shard's size changed."""
        for shard in np.unique(chunks // self._shard_chunks).tolist():
            for array in self.fields.values():
                name = array.shard_file(shard)
                if array.files.exists(name):
                    array.files.check_size(name)
        return [partial(self._verify, int(chunk)) for chunk in chunks[~self._verified[chunks]]]

    def release(self, chunks: Ints) -> None:
        """Do nothing: mappings stay, and the page cache belongs to the system."""

    def settle(self) -> None:
        """Forget what was verified: the next epoch verifies again."""
        self._verified[:] = False

    def _verify(self, chunk: int) -> None:
        for number, (name, array) in enumerate(self.fields.items()):
            located = array.locate(chunk)
            if located is None:
                self.addresses[number, chunk] = self._fill(name, array).ctypes.data
                continue
            shard, offset, length = located
            content = self._map(name, array, shard)
            array.decode(chunk, content[offset : offset + length].tobytes(), None)
            if self.addresses[number, chunk] == ABSENT:
                self.addresses[number, chunk] = content.ctypes.data + offset
                with self._lock:
                    self.bytes_read += length
        self._verified[chunk] = True

    def _map(self, name: str, array: Array, shard: int) -> npt.NDArray[np.uint8]:
        with self._lock:
            if (name, shard) not in self._maps:
                mapped = self._mapped(array, array.shard_file(shard))
                self._maps[name, shard] = np.frombuffer(mapped, np.uint8)
            return self._maps[name, shard]

    def _mapped(self, array: Array, file: str) -> mmap.mmap:
        files = array.files
        try:
            return mmap.mmap(files.open(file).number, files.size(file), access=mmap.ACCESS_READ)
        except OSError as error:
            message = (
                f"{files.root}: {file} cannot be mapped into memory: {error.strerror} ({len(self._maps)} files are); "
                "raise the limit of open files with 'ulimit -n', or use residency 'streamed'"
            )
            raise StoreError(message) from error

    def _fill(self, name: str, array: Array) -> npt.NDArray[np.generic]:
        with self._lock:
            if name not in self._fills:
                self._fills[name] = np.full((array.chunk_rows, *array.shape[1:]), array.fill, array.dtype)
            return self._fills[name]
