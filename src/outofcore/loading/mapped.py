"""Uncompressed shards mapped into memory: the residency ``mapped``."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from outofcore.errors import StoreError
from outofcore.loading.gather import ABSENT
from outofcore.loading.residency import Residency, ResidencyPlan
from outofcore.loading.split import Split
from outofcore.ndarrays import Bytes, Ints
from outofcore.store.array import SealedArray
from outofcore.store.bulk import intact
from outofcore.store.local import with_room
from outofcore.system.recycling import Recyclers


class Mapped(Residency):
    """Maps shard files: nothing is read twice, and only the page cache holds data.

    A shard file is an index, then the chunks, each followed by its checksum, so rows are at odd offsets, which the
    gather supports. A chunk's checksum is verified when an epoch first needs it, and the sizes of its files with every
    pool. A file truncated between that and the gather ends the process (SIGBUS), as with every memory map; changed
    bytes there are detected by the next epoch.
    """

    def __init__(self, split: Split, plan: ResidencyPlan, recyclers: Recyclers) -> None:
        super().__init__(split, plan, recyclers)
        self._stores = cast("Sequence[Mapping[str, SealedArray]]", split.rows.stores)
        self._maps: dict[tuple[int, str, int], Bytes] = {}
        self._fills: dict[tuple[int, str], npt.NDArray[np.generic]] = {}
        self._lengths = np.zeros(self.addresses.shape, np.int64)  # encoded bytes, 0 for a chunk of fill values

    def settle(self) -> None:
        """Forget what was verified: the next epoch verifies again."""
        self._ready[:] = False

    def _reserve(self, chunks: Ints) -> Ints:
        """Raise DamagedStore if a shard's size changed."""
        for store, _, of_store in self.rows.by_store(chunks):
            for array in self._stores[store].values():
                for shard in np.unique(of_store * array.chunk_rows // array.shard_rows).tolist():
                    name = array.shard_file(shard)
                    if array.files.exists(name):
                        array.files.check_size(name)
        return super()._reserve(chunks)

    def _load(self, chunks: Ints) -> int:
        """Map chunks, and verify them."""
        unmapped = chunks[(self.addresses[:, chunks] == ABSENT).any(axis=0)].tolist()
        read = sum(map(self._locate, unmapped))
        for number, name in enumerate(self.fields):
            written = chunks[self._lengths[number, chunks] > 0]
            sound = intact(self.addresses[number, written], self._lengths[number, written], self._sealed(name, written))
            for chunk in written[~sound].tolist():
                self._check(name, chunk)
        return read

    def _locate(self, chunk: int) -> int:
        """Map a chunk; returns its encoded bytes."""
        store, chunk_of_store = self.rows.place(chunk)
        for number, (name, array) in enumerate(self._stores[store].items()):
            located = array.locate(chunk_of_store)
            if located is None:
                array.require_sealed(chunk_of_store, b"")
                self.addresses[number, chunk] = self._fill_values(store, name).ctypes.data
                continue
            shard, offset, length = located
            self._lengths[number, chunk] = length
            self.addresses[number, chunk] = self._map(store, name, shard).ctypes.data + offset
        return int(self._lengths[:, chunk].sum())

    def _sealed(self, name: str, chunks: Ints) -> Ints:
        """The sealed checksums of ascending chunks of a field."""
        sealed = np.empty(len(chunks), np.int64)
        for store, places, of_store in self.rows.by_store(chunks):
            sealed[places] = self._stores[store][name].checksums[of_store]
        return sealed

    def _check(self, name: str, chunk: int) -> None:
        """Raise DamagedStore, unless only the compiled check found fault with the chunk."""
        store, chunk_of_store = self.rows.place(chunk)
        array = self._stores[store][name]
        array.chunk(chunk_of_store, np.empty((array.chunk_rows, *array.shape[1:]), array.dtype))

    def _map(self, store: int, name: str, shard: int) -> Bytes:
        with self._lock:
            if (store, name, shard) not in self._maps:
                array = self._stores[store][name]
                mapped = self._mapped(array, array.shard_file(shard))
                self._maps[store, name, shard] = np.frombuffer(mapped, np.uint8)
            return self._maps[store, name, shard]

    def _mapped(self, array: SealedArray, file: str) -> mmap.mmap:
        files = array.files

        def mapping() -> mmap.mmap:
            descriptor = files.open(file)  # it may be kept nowhere else, and its number be that of another file next
            return mmap.mmap(descriptor.number, files.size(file), access=mmap.ACCESS_READ)

        try:
            mapped = with_room(mapping)
        except OSError as error:
            raise StoreError(
                f"{files.root}: {file} cannot be mapped into memory: {error.strerror} ({len(self._maps)} files are); "
                "raise the limit of open files with 'ulimit -n', or use residency 'streamed'"
            ) from error
        if hasattr(mapped, "madvise"):  # what is needed was announced: nothing around it
            mapped.madvise(mmap.MADV_RANDOM)
        return mapped

    def _fill_values(self, store: int, name: str) -> npt.NDArray[np.generic]:
        array = self._stores[store][name]
        with self._lock:
            if (store, name) not in self._fills:
                self._fills[store, name] = np.full((array.chunk_rows, *array.shape[1:]), array.fill, array.dtype)
            return self._fills[store, name]
