"""Arrays of a store, read lazily by chunk; in a sealed store each chunk is checked against its checksum."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.files import Files, Ranges, read_checked
from outofcore.store.local import LocalFiles
from outofcore.store.schema import Field, Layout, dtype_of
from outofcore.store.seal import ADVICE
from outofcore.store.shards import read_index, shard_name

Checksums = Callable[[str], npt.NDArray[np.uint32]]
"""The checksums of the chunks of an array, by its path, as they were sealed; 0 for a chunk that is not stored."""


class Array(ABC):
    """One field of a table, read by chunks of rows along its first axis; text has dtype object."""

    mappable = False  # whether its chunks are in uncompressed files of this machine
    decoding = 1  # chunks that a thread holds while it decodes one
    cached_bytes = 0  # kept between reads
    fetching = 0  # bytes held while a copy on this machine is filled

    def __init__(
        self,
        root: Path | str,  # of its store
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunk_rows: int,
        shard_rows: int,
        codec_name: str = "none",
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.root, self.path = root, path
        self.shape, self.dtype, self.attributes = shape, dtype, attributes or {}
        self.chunk_rows, self.shard_rows, self.codec_name = chunk_rows, shard_rows, codec_name
        self.chunks = -(-shape[0] // chunk_rows)
        self.row_bytes = dtype.itemsize * math.prod(shape[1:])  # decoded; a pointer for text

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        """Decode a chunk into ``out``; returns the bytes read. Raises DamagedStore if a bit has changed."""

    def chunks_into(self, chunks: Ints, buffer: npt.NDArray[Any], slots: Ints) -> int:
        """Decode chunks into slots of a buffer (slots, chunk_rows, ...); returns the bytes read."""
        return sum(
            self.chunk(number, buffer[slot]) for number, slot in zip(chunks.tolist(), slots.tolist(), strict=True)
        )

    def announce(self, chunks: Ints) -> None:  # noqa: B027 - few can
        """Let the system begin to read chunks, ascending, that will be decoded."""

    def for_each(self, work: Callable[[int], object], chunks: Sequence[int]) -> None:
        """Call a function that reads for each of some chunks."""
        for number in chunks:
            work(number)

    def read(self, start: int = 0, stop: int | None = None, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Decoded rows ``start`` to ``stop`` (exclusive), into ``out`` if given; raises IndexError out of range."""
        start, stop = self.range_of(start, stop)
        if out is None:
            out = self._room(stop - start)
        size, chunks = self.chunk_rows, range(start // self.chunk_rows, -(-stop // self.chunk_rows))

        def read_chunk(number: int) -> None:
            first, last = max(start, number * size), min(stop, (number + 1) * size)
            target = out[first - start : last - start]
            if last - first == size and target.flags.c_contiguous:
                self.chunk(number, target)
            else:
                scratch = self._room(size)
                self.chunk(number, scratch)
                target[...] = scratch[first - number * size : last - number * size]

        self.for_each(read_chunk, chunks)
        return out

    def range_of(self, start: int, stop: int | None) -> tuple[int, int]:
        """First row and end of a range, None for that of the array; raises IndexError out of range."""
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"{self.path}: expected rows inside 0..{len(self)}, got {start}..{stop}")
        return start, stop

    def _room(self, rows: int) -> npt.NDArray[Any]:
        try:
            return np.empty((rows, *self.shape[1:]), self.dtype)
        except MemoryError as error:
            raise StoreError(f"{self.root}: {rows} rows of {self.path} do not fit into memory") from error


class SealedArray(Array):
    """A field of a sealed store: shards of chunks, each checked against its checksum."""

    def __init__(self, files: Files, path: str, field: Field, layout: Layout, rows: int, checksums: Checksums) -> None:
        shape, dtype, sizes = (rows, *field.shape), np.dtype(dtype_of(field)), (layout.chunk_rows, layout.shard_rows)
        super().__init__(files.root, path, shape, dtype, *sizes, layout.codec, field.attributes)
        self.files, self.fetching = files, files.fetching
        self.mappable = layout.codec == "none" and isinstance(files, LocalFiles)
        self.codec = ChunkCodec(layout.codec, layout.level, field.dtype)
        self.fill = field.fill if dtype == "O" else np.array(field.fill, dtype)[()]
        self.shard_chunks, self._checksums = layout.shard_rows // layout.chunk_rows, checksums
        self.manifests: dict[int, Ints] = {}  # of the shards that were read of

    def __repr__(self) -> str:
        return f"Array({self.path}, shape={self.shape}, dtype={self.dtype}, codec={self.codec.name})"

    def shard_file(self, number: int) -> str:
        """Path of a shard in the store; a shard of nothing but the fill value has no file."""
        return f"{self.path}/{shard_name(number, len(self.shape))}"

    def manifest(self, shard: int) -> Ints:
        """Offset, length and sealed checksum of each chunk of a shard, (chunks, 3); 0 for one that is not stored."""
        if shard not in self.manifests:
            first, name, index = shard * self.shard_chunks, self.shard_file(shard), None
            if self.files.exists(name):
                plain = self.codec.name == "none" and self.dtype != "O"
                whole = self.chunk_rows * self.row_bytes + CRC_BYTES if plain else None
                index = read_index(self.files, name, self.shard_chunks, whole)[: self.chunks - first]
            sealed = self.checksums[first : first + self.shard_chunks]
            manifest = np.zeros((len(sealed), 3), np.int64)
            manifest[:, :2] = 0 if index is None else index
            manifest[:, 2] = sealed
            self.manifests[shard] = manifest
        return self.manifests[shard]

    def chunks_of(self, name: str) -> dict[int, int]:
        """The chunks of a shard's file by their offsets in it, ascending; none if it is no shard of this array."""
        number = name.removeprefix(f"{self.path}/c.").partition(".")[0]
        if not number.isdecimal() or len(number) > 19 or self.shard_file(int(number)) != name:
            return {}
        offsets, first = self.manifest(int(number))[:, 0].tolist(), int(number) * self.shard_chunks
        return {offset: first + place for place, offset in enumerate(offsets) if offset}

    def announce(self, chunks: Ints) -> None:
        if not isinstance(self.files, LocalFiles):  # others take no advice, and fetch indexes with the chunks
            return
        shards, inside = np.divmod(chunks, self.shard_chunks)
        for shard in np.unique(shards).tolist():
            stored = self.manifest(shard)[inside[shards == shard]]
            if (stored := stored[stored[:, 1] > 0]).size:
                self.files.announce(Ranges(self.shard_file(shard), stored[:, 0], stored[:, 1]))

    @cached_property
    def checksums(self) -> npt.NDArray[np.uint32]:
        """The sealed checksum of each chunk, 0 for one that holds only the fill value; raises DamagedStore."""
        return self._checksums(self.path)

    def locate(self, number: int) -> tuple[int, int, int] | None:
        """Shard, offset in its file and encoded length of a chunk; None if it holds only the fill value."""
        shard, place = divmod(number, self.shard_chunks)
        offset, length, _ = self.manifest(shard)[place].tolist()
        return (shard, offset, length) if length else None

    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        """Decode a chunk into ``out``; returns the bytes read. Raises DamagedStore if a bit has changed."""
        place = self.locate(number)
        if place is None:
            self.require_sealed(number, b"")
            out[...] = self.fill
            return 0
        shard, offset, length = place
        read_checked(
            self.files, self.shard_file(shard), offset, length, lambda encoded: self.decode(number, encoded, out)
        )
        return length

    def decode(self, number: int, encoded: bytes, out: npt.NDArray[Any] | None) -> None:
        """Check the bytes of a chunk and decode them into ``out``, if given; raises DamagedStore."""
        try:
            if out is None:
                self.codec.check(encoded)
            else:
                self.codec.decode(encoded, out)
        except (DamagedStore, RuntimeError, ValueError, MemoryError) as error:
            shard = self.shard_file(number * self.chunk_rows // self.shard_rows)
            raise DamagedStore(
                f"{self.files.root}: field {self.path}, shard {shard}, chunk {number} "
                f"(rows from {number * self.chunk_rows}) is damaged: {error}; {ADVICE}"
            ) from error
        self.require_sealed(number, encoded)

    def require_sealed(self, number: int, encoded: bytes) -> None:
        """Raise DamagedStore unless a chunk is the one that was sealed at this place."""
        shard, place = divmod(number, self.shard_chunks)
        if int.from_bytes(encoded[-CRC_BYTES:], "little") != self.manifest(shard)[place, 2]:
            raise DamagedStore(
                f"{self.files.root}: chunk {number} of field {self.path} (rows from {number * self.chunk_rows}) is of "
                "another version of the store, or of another place in it: files were swapped, or a copy over this "
                f"store was not finished; {ADVICE}"
            )

    def damage(self, number: int, encoded: memoryview) -> str:
        """Result of a chunk's checksum: a description of damage, or ""."""
        try:
            self.decode(number, bytes(encoded), None)
        except DamagedStore as error:
            return str(error)
        return ""

    def for_each(self, work: Callable[[int], object], chunks: Sequence[int]) -> None:
        """The same, in parallel where reading is latency-bound."""
        for shard in {number * self.chunk_rows // self.shard_rows for number in chunks}:
            self.manifest(shard)  # once, and not in each of the threads that read chunks
        self.files.for_each(work, chunks)


class ArrayInMemory(Array):
    """Values in memory, read like those of a store."""

    def __init__(self, root: Path | str, path: str, values: npt.NDArray[Any]) -> None:
        rows = max(1, len(values))
        super().__init__(root, path, values.shape, values.dtype, rows, rows)
        self._values = values

    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        out[...] = self._values[number * self.chunk_rows :][: len(out)]
        return out.nbytes


class Table:
    """Arrays that share their first axis, by field name; ``path`` is their group in the store."""

    def __init__(self, path: str, fields: Mapping[str, Array]) -> None:
        self.path = path
        self.fields = fields

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    def __contains__(self, name: object) -> bool:
        """Whether there is a field of this name."""
        return name in self.fields

    def __iter__(self) -> Iterator[str]:
        """Names of the fields."""
        return iter(self.fields)

    def __getitem__(self, name: str) -> Array:
        """A field by name; the error for an unknown one lists the fields."""
        if name not in self.fields:
            raise StoreError(f"{self.path}: no field {name!r}; there are {', '.join(sorted(self.fields))}")
        return self.fields[name]

    def read(self, start: int = 0, stop: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """All fields of a range of rows."""
        return {name: array.read(start, stop) for name, array in self.fields.items()}

    def blocks(self, rows: int, *names: str) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Some fields of all rows, so many rows at a time."""
        for start in range(0, len(self), rows):
            yield {name: self[name].read(start, min(start + rows, len(self))) for name in names}
