"""Where decoded rows are kept during an epoch: the batches are the same, at different cost in memory and time.

An :class:`Arena` holds decoded chunks in host memory, :class:`Mapped` maps the files of a store that is not compressed,
and :class:`outofcore.loading.device.OnDevice` holds the split on an accelerator.
"""

from __future__ import annotations

import mmap
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from outofcore.errors import BudgetError, StoreError
from outofcore.loading.batch_memory import Recyclers
from outofcore.loading.gather import ABSENT, BatchBuffer, gather
from outofcore.loading.split import Rows
from outofcore.loading.windows import Windows, touched
from outofcore.store.array import SealedArray
from outofcore.store.bulk import intact, read_chunks
from outofcore.store.local import with_room
from outofcore.system.recycling import Recycler

Ints = npt.NDArray[np.int64]
Work = Callable[[], None]

PIECE_BYTES = 4 << 20  # decoded; a few milliseconds of work, long compared with handing it out
TOUCHED_ROWS = 1 << 19  # of packed samples, looked at together
PIECES = 4  # at least, of what is brought together, for as many threads


def table_bytes(chunks: int, fields: int) -> int:
    """Bytes of the tables of a split's chunks."""
    of_chunk = 8 + 8 + 8 + 1 + 1  # origin, slot, holders; decoded, pinned
    of_field = 8 + 24 + 4  # address; offset, length and checksum in the manifest; the store's checksum
    return chunks * (of_chunk + fields * of_field)


def piece_chunks(brought: int, chunk_bytes: int) -> int:
    """Chunks per piece of work."""
    return max(1, min(PIECE_BYTES // max(chunk_bytes, 1), -(-brought // PIECES)))


class Residency(ABC):
    """Makes chunks available and gathers rows."""

    name: str

    def __init__(self, rows: Rows, windows: Windows) -> None:
        self.rows = rows
        self.fields, self.chunk_rows, self.chunks = rows.fields, rows.chunk_rows, rows.chunks
        self.length, self.packs = windows.length, windows.packs
        self.bytes_read = 0
        self.origins = rows.chunk_origins()

    def touched(self, first: Ints) -> Ints:
        """The chunks that hold the samples with these first rows, ascending."""
        if self.packs is None:
            return touched(first, self.length, self.chunk_rows, self.origins)
        slab, marks = max(1, TOUCHED_ROWS // self.length), np.zeros(self.chunks, np.bool_)
        for begin in range(0, len(first), slab):
            starts, lengths, _ = self.packs.runs(first[begin : begin + slab])
            marks[touched(starts, np.maximum(lengths, 1), self.chunk_rows, self.origins)] = True
        return np.flatnonzero(marks)

    @abstractmethod
    def bring(self, chunks: Ints) -> list[Work]:
        """Assign slots to chunks, and return the tasks that decode into them.

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
    def allocate(self, count: int) -> BatchBuffer:
        """A buffer for the rows of ``count`` samples."""

    @abstractmethod
    def gather(self, first: Ints, buffer: BatchBuffer, at: int) -> None:
        """Fill ``buffer`` from place ``at`` with the samples whose first rows are given."""


class HostResidency(Residency):
    """A residency with chunks in host memory, each at an address."""

    def __init__(self, rows: Rows, windows: Windows, recyclers: Recyclers | None = None) -> None:
        super().__init__(rows, windows)
        self.addresses = np.zeros((len(self.fields), self.chunks), np.uint64)
        self._row_bytes = np.array([array.row_bytes for array in self.fields.values()], np.int64)
        self._chunk_bytes = self.chunk_rows * rows.row_bytes
        self._recyclers = defaultdict(Recycler) if recyclers is None else recyclers

    def allocate(self, count: int) -> BatchBuffer:
        """Uninitialised numpy arrays, (count, ...) or (count, length, ...)."""
        window = (self.length,) if self.length > 1 else ()
        return BatchBuffer(
            {
                name: self._recyclers[name].empty((count, *window, *array.shape[1:]), array.dtype)
                for name, array in self.fields.items()
            }
        )

    def gather(self, first: Ints, buffer: BatchBuffer, at: int) -> None:
        """Copy each window once, from its chunks to its place in the batch."""
        starts, lengths = (first, None) if self.packs is None else self.packs.runs(first)[:2]
        gather(self.addresses, starts, self.length, self.chunk_rows, self.origins, self._row_bytes, buffer, at, lengths)


class Arena(HostResidency):
    """Decoded chunks in slots of a fixed arena: the residencies ``streamed``, ``hybrid`` and ``ram``.

    A pool's chunks are decoded directly into slots; after the pool is consumed they stay until their slots are needed,
    oldest first. A chunk shared by pools is decoded once. There is a slot for each of the ``pinned_chunks``, which are
    never evicted: none in ``streamed``, some in ``hybrid``, all in ``ram``, whose first epoch therefore streams and
    needs no separate reading phase; ``pool_slots`` are for the others. The pinned ones are fixed: an epoch uses each
    chunk once, so a least-recently-used cache would have evicted each chunk by the time it is needed again.
    """

    def __init__(
        self,
        rows: Rows,
        windows: Windows,
        pool_slots: int,
        pinned_chunks: int = 0,
        used: Ints | None = None,  # the chunks that are ever brought; None for all
        recyclers: Recyclers | None = None,
    ) -> None:
        super().__init__(rows, windows, recyclers)
        used = np.arange(self.chunks) if used is None else used
        pinned = min(pinned_chunks, len(used))
        pinned_before = np.arange(len(used) + 1, dtype=np.int64) * pinned // max(len(used), 1)
        self._pinned = np.zeros(self.chunks, np.bool_)
        self._pinned[used] = np.diff(pinned_before) > 0  # evenly spread
        self._slots = min(pinned + pool_slots, len(used))
        self.name = "ram" if pinned == len(used) else "hybrid" if pinned else "streamed"
        self._lock = threading.Lock()
        self._buffers: list[npt.NDArray[Any]] = []
        self._origins: list[int] = []
        self._slot = np.full(self.chunks, -1, np.int64)
        self._holders = np.zeros(self.chunks, np.int64)
        self._decoded = np.zeros(self.chunks, np.bool_)
        self._idle: dict[int, None] = {}  # unused chunks, longest idle first
        self._free = list(range(self._slots))

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
                raise BudgetError(f"{len(chunks)} chunks are needed together, {missing} more than there is room for")
            self._holders[chunks] += 1
            for chunk in chunks.tolist():
                self._idle.pop(chunk, None)
            new = chunks[self._slot[chunks] < 0].tolist()
            while len(self._free) < len(new):
                self._evict(next(iter(self._idle)))
            taken = [self._free.pop() for _ in new]
            self._slot[new] = taken
        together = piece_chunks(len(new), self._chunk_bytes)
        starts = range(0, len(new), together)
        return [partial(self._decode, new[at : at + together], taken[at : at + together]) for at in starts]

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
        undecoded = ~self._decoded
        self.addresses[:, undecoded] = ABSENT
        self._slot[undecoded] = -1
        evictable = np.flatnonzero(self._decoded & ~self._pinned).tolist()
        self._idle = {chunk: None for chunk in self._idle if self._decoded[chunk]} | dict.fromkeys(evictable)
        used = set(self._slot[self._decoded].tolist())
        self._free = [slot for slot in range(self._slots) if slot not in used]

    def _missing(self, chunks: Ints) -> int:
        """Number of slots that are lacking to bring chunks."""
        slots = self._slot[chunks]
        wanted = sum(chunk in self._idle for chunk in chunks[slots >= 0].tolist())
        return int(np.count_nonzero(slots < 0)) - (len(self._free) + len(self._idle) - wanted)

    def _evict(self, chunk: int) -> None:
        self._decoded[chunk] = False
        self._idle.pop(chunk, None)
        self._free.append(int(self._slot[chunk]))
        self._slot[chunk] = -1
        self.addresses[:, chunk] = ABSENT

    def _decode(self, chunks: list[int], slots: list[int]) -> None:
        numbers, places, read = np.array(chunks), np.array(slots), 0
        for store, own, of_store in self.rows.by_store(numbers):
            read += read_chunks([*self.rows.stores[store].values()], of_store, self._buffers, places[own])
        for number, buffer in enumerate(self._buffers):
            self.addresses[number, chunks] = (self._origins[number] + places * buffer.strides[0]).astype(np.uint64)
        self._decoded[chunks] = True
        with self._lock:
            self.bytes_read += read


class Mapped(HostResidency):
    """Uncompressed shards mapped into memory: nothing is read twice, and only the page cache holds data.

    A shard file is an index, then the chunks, each followed by its checksum, so rows are at odd offsets, which the
    gather supports. A chunk's checksum is verified when an epoch first needs it, and the sizes of its files with every
    pool. A file truncated between that and the gather ends the process (SIGBUS), as with every memory map; changed
    bytes there are detected by the next epoch.
    """

    name = "mapped"

    def __init__(self, rows: Rows, windows: Windows, recyclers: Recyclers | None = None) -> None:
        super().__init__(rows, windows, recyclers)
        self._stores = cast("Sequence[Mapping[str, SealedArray]]", rows.stores)
        self._lock = threading.Lock()
        self._maps: dict[tuple[int, str, int], npt.NDArray[np.uint8]] = {}
        self._fills: dict[tuple[int, str], npt.NDArray[np.generic]] = {}
        self._lengths = np.zeros(self.addresses.shape, np.int64)  # encoded bytes, 0 for a chunk of fill values
        self._verified = np.zeros(self.chunks, np.bool_)

    def bring(self, chunks: Ints) -> list[Work]:
        """The work maps and verifies the chunks new to this epoch; raises DamagedStore if a shard's size changed."""
        for store, _, of_store in self.rows.by_store(chunks):
            for array in self._stores[store].values():
                for shard in np.unique(of_store * array.chunk_rows // array.shard_rows).tolist():
                    name = array.shard_file(shard)
                    if array.files.exists(name):
                        array.files.check_size(name)
        new = chunks[~self._verified[chunks]]
        together = piece_chunks(len(new), self._chunk_bytes)
        return [partial(self._verify, new[at : at + together]) for at in range(0, len(new), together)]

    def release(self, chunks: Ints) -> None:
        """Do nothing: mappings stay, and the page cache belongs to the system."""

    def settle(self) -> None:
        """Forget what was verified: the next epoch verifies again."""
        self._verified[:] = False

    def _verify(self, chunks: Ints) -> None:
        for chunk in chunks[(self.addresses[:, chunks] == ABSENT).any(axis=0)].tolist():
            self._locate(chunk)
        for number, name in enumerate(self.fields):
            written = chunks[self._lengths[number, chunks] > 0]
            sound = intact(self.addresses[number, written], self._lengths[number, written], self._sealed(name, written))
            for chunk in written[~sound].tolist():
                self._check(name, chunk)
        self._verified[chunks] = True

    def _locate(self, chunk: int) -> None:
        store, own = self.rows.place(chunk)
        for number, (name, array) in enumerate(self._stores[store].items()):
            located = array.locate(own)
            if located is None:
                array.require_sealed(own, b"")
                self.addresses[number, chunk] = self._fill(store, name).ctypes.data
                continue
            shard, offset, length = located
            self._lengths[number, chunk] = length
            self.addresses[number, chunk] = self._map(store, name, shard).ctypes.data + offset
            with self._lock:
                self.bytes_read += length

    def _sealed(self, name: str, chunks: Ints) -> Ints:
        """The sealed checksums of chunks of a field."""
        places = [self.rows.place(chunk) for chunk in chunks.tolist()]
        return np.array([self._stores[store][name].checksums[own] for store, own in places], np.int64)

    def _check(self, name: str, chunk: int) -> None:
        """Raise DamagedStore, unless only the compiled check found fault with the chunk."""
        store, own = self.rows.place(chunk)
        array = self._stores[store][name]
        located = array.locate(own)
        assert located is not None
        shard, offset, length = located
        array.decode(own, self._map(store, name, shard)[offset : offset + length].tobytes(), None)

    def _map(self, store: int, name: str, shard: int) -> npt.NDArray[np.uint8]:
        with self._lock:
            if (store, name, shard) not in self._maps:
                array = self._stores[store][name]
                mapped = self._mapped(array, array.shard_file(shard))
                self._maps[store, name, shard] = np.frombuffer(mapped, np.uint8)
            return self._maps[store, name, shard]

    def _mapped(self, array: SealedArray, file: str) -> mmap.mmap:
        files = array.files
        try:
            return with_room(lambda: mmap.mmap(files.open(file).number, files.size(file), access=mmap.ACCESS_READ))
        except OSError as error:
            raise StoreError(
                f"{files.root}: {file} cannot be mapped into memory: {error.strerror} ({len(self._maps)} files are); "
                "raise the limit of open files with 'ulimit -n', or use residency 'streamed'"
            ) from error

    def _fill(self, store: int, name: str) -> npt.NDArray[np.generic]:
        array = self._stores[store][name]
        with self._lock:
            if (store, name) not in self._fills:
                self._fills[store, name] = np.full((array.chunk_rows, *array.shape[1:]), array.fill, array.dtype)
            return self._fills[store, name]
