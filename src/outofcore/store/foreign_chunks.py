"""Stored chunks of other software's Zarr: plain ones are decoded by compiled code, all others by zarr-python.

Plain is: cut along the first axis only, numbers in C order and of this machine's byte order, and at most one
compressor, zstd or Blosc; Zarr v2, or v3 with or without shards; in local files, or at an address. zarr-python takes
longer to reach a chunk; it reads all else, and each chunk that is missing, damaged or unusual in any way. Chunks of
Blosc are checked before it decompresses them: that trusts their header, so of one that was cut short it reads beyond
the end, and what lies in memory there becomes values.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numcodecs.blosc
import numpy as np
import numpy.typing as npt
import zarr
import zarr.abc.codec
import zarr.codecs
import zarr.codecs.numcodecs

from outofcore.errors import DamagedStore, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.bulk import KINDS, decode_plain
from outofcore.store.codecs import check_blosc
from outofcore.store.files import Ranges
from outofcore.store.remote import RemoteFiles
from outofcore.store.shards import decoded_index, index_bytes
from outofcore.system.descriptors import Descriptor

_TOGETHER = 256  # stored chunks that are decoded in one call
_FETCHED = 2  # ranges of rows that a thread fetches together: as much as the loader counts for decoding one
_LEAST_BYTES = 1024  # of a decoded chunk in a shard: the indexes that are kept take a small part of what they are for
_INDEX: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


class PlainChunks:
    """The stored chunks of an array, numbered along its first axis; thread-safe."""

    def __init__(
        self, array: zarr.Array[Any], files: Path | RemoteFiles, kind: int, shard_rows: int, *, at_start: bool
    ) -> None:
        self._array, self._files, self._kind, self._at_start = array, files, kind, at_start
        self._folder = f"{files}/" if isinstance(files, Path) else ""  # joined as text, in less time
        self._rows = array.chunks[0]
        self._row_bytes = array.dtype.itemsize * math.prod(array.shape[1:])
        self._most = self._rows * self._row_bytes * 129 // 128 + 1024  # bytes of a chunk that did not compress
        self._sharded = shard_rows // self._rows  # chunks of a shard; 0 without shards
        self._indexes: dict[str, tuple[tuple[int, ...], Ints]] = {}  # of shards: identity of the file, and its index
        self.index_bytes = 16 * self._sharded * -(-array.shape[0] // shard_rows) if shard_rows else 0

    def read(self, starts: Ints, counts: Ints, buffer: npt.NDArray[Any], slots: Ints) -> npt.NDArray[np.bool_]:
        """Decode ranges of rows into slots of a buffer; whether each range could be."""
        if (
            not buffer[:1].flags.carray  # in C order, and writeable
            or buffer.dtype != self._array.dtype.newbyteorder("=")
            or buffer.shape[2:] != self._array.shape[1:]
            or counts.max(initial=0) > buffer.shape[1]
        ):
            return np.zeros(len(starts), np.bool_)
        step = max(1, _TOGETHER * self._rows // max(int(counts.max(initial=1)), 1))
        if not isinstance(self._files, Path):  # ranges that begin inside a chunk need parts of two each
            step = min(step, 1 if (starts % self._rows).any() else _FETCHED)
        done = np.zeros(len(starts), np.bool_)
        for span in (slice(first, first + step) for first in range(0, len(starts), step)):
            done[span] = self._read(starts[span], counts[span], buffer, slots[span])
        return done

    def announce(self, starts: Ints, stops: Ints) -> None:
        """Let the system begin to read the stored chunks of ranges of rows, if they are in files of this machine."""
        if not isinstance(self._files, Path):
            return
        ranges = zip((starts // self._rows).tolist(), (-(-stops // self._rows)).tolist(), strict=True)
        chunks = np.array(sorted({number for low, high in ranges for number in range(low, high)}), np.int64)
        files, inside = np.divmod(chunks, max(self._sharded, 1))
        for name, file in ((self._name(file), file) for file in np.unique(files).tolist()):
            stored = self._index(name)[inside[files == file]].tolist() if self._sharded else [(0, 0)]
            with suppress(OSError):  # such as a missing file: a chunk of fill values
                descriptor = Descriptor(self._folder + name)
                for offset, length in stored:
                    if length or not self._sharded:  # no chunk that its shard does not hold
                        descriptor.announce(offset, length)

    def _read(self, starts: Ints, counts: Ints, buffer: npt.NDArray[Any], slots: Ints) -> npt.NDArray[np.bool_]:
        low, high = starts // self._rows, -(-(starts + counts) // self._rows)
        owner = np.repeat(np.arange(len(starts)), high - low)
        before = np.cumsum(high - low) - (high - low)
        number = np.arange(len(owner)) - (before - low)[owner]
        begin = np.maximum(number * self._rows, starts[owner])
        end = np.minimum((number + 1) * self._rows, (starts + counts)[owner])
        jobs = np.empty((len(owner), 7), np.int64)
        jobs[:, 4] = (begin - number * self._rows) * self._row_bytes
        jobs[:, 5] = slots[owner] * buffer.strides[0] + (begin - starts[owner]) * self._row_bytes
        jobs[:, 6] = (end - begin) * self._row_bytes
        numbers, file_of_job = np.unique(number // max(self._sharded, 1), return_inverse=True)
        names = [self._name(file) for file in numbers.tolist()]
        if self._sharded:
            for file, (shard, name) in enumerate(zip(numbers.tolist(), names, strict=True)):
                of_file = np.flatnonzero(file_of_job == file)
                jobs[of_file, 1:3] = self._index(name)[number[of_file] - shard * self._sharded]
            jobs[:, 3] = np.maximum(jobs[:, 2], 1)  # one of no bytes is not stored
        else:
            jobs[:, 1:4] = 0, self._most, 0
        if isinstance(self._files, Path):
            paths = [os.fsencode(self._folder + name) + b"\0" for name in names]
            content: Any = np.frombuffer(b"".join(paths), np.uint8)
            jobs[:, 0] = (content.ctypes.data + np.cumsum([0, *map(len, paths)]))[file_of_job]
        else:
            jobs[:, 0], fetch = 0, self._fetch if self._sharded else self._fetch_whole
            content = fetch(self._files, names, file_of_job, jobs)
        done = np.ones(len(starts), np.bool_)
        done[owner[~decode_plain(self._kind, jobs, self._rows * self._row_bytes, buffer)]] = False
        del content  # which jobs point into
        return done

    def _name(self, number: int) -> str:
        """The file of a chunk or shard, in the folder of the array or from the address of the store on."""
        key = self._array.metadata.encode_chunk_key((number, *(0,) * (self._array.ndim - 1)))
        return key if isinstance(self._files, Path) else f"{self._array.store_path.path}/{key}".lstrip("/")

    def _fetch_whole(self, files: RemoteFiles, names: Sequence[str], file_of_job: Ints, jobs: Ints) -> object:
        """Fetch files into memory, and enter where each is."""
        try:
            contents = files.whole(names)
        except StoreError:
            contents = [b""] * len(names)
        parts = [np.frombuffer(content or b" ", np.uint8) for content in contents]
        jobs[:, 1] = np.array([part.ctypes.data for part in parts], np.int64)[file_of_job]
        jobs[:, 2] = np.array([*map(len, contents)], np.int64)[file_of_job]
        return parts

    def _fetch(self, files: RemoteFiles, names: Sequence[str], file_of_job: Ints, jobs: Ints) -> object:
        """Fetch chunks of shards, and enter where each is; neighbours by one request."""
        jobs_of = [np.flatnonzero((file_of_job == file) & (jobs[:, 2] > 0)) for file in range(len(names))]
        wanted = [Ranges(name, *jobs[of_file, 1:3].T) for name, of_file in zip(names, jobs_of, strict=True)]
        try:
            readers = files.open_ranges(wanted)
        except StoreError:  # another version, or less than the index says
            for name in names:
                self._indexes.pop(name, None)
            jobs[:, 2] = 0
            return None
        for of_file, reader in zip(jobs_of, readers, strict=True):
            jobs[of_file, 1] = reader.places
        return readers

    def _index(self, name: str) -> Ints:
        """Offset and length of each chunk of a shard, (chunks, 2); 0 for one that is left to zarr-python."""
        size, end = index_bytes(self._sharded), 2**62
        identity: tuple[int, ...] = ()
        known = self._indexes.get(name)
        try:
            if isinstance(self._files, Path):
                file = Descriptor(self._folder + name)
                status = os.fstat(file.number)
                identity, end = (status.st_ino, status.st_mtime_ns, status.st_size), status.st_size
            if known and known[0] == identity:
                return known[1]
            if isinstance(self._files, Path):
                raw = file.read(0 if self._at_start else max(end - size, 0), size)
            else:
                raw = self._files.pin(name, size, at_end=not self._at_start)
            index = decoded_index(raw, self._sharded)
        except (OSError, DamagedStore):  # missing, or damaged
            index = np.zeros((self._sharded, 2), np.uint64)
        except StoreError:  # the request failed: the next one may not
            return np.zeros((self._sharded, 2), np.int64)
        sound = (index[:, 0] < end) & (index[:, 1] <= self._most)
        kept = np.where(sound[:, np.newaxis], index, 0).astype(np.int64)
        self._indexes[name] = identity, kept
        return kept


def plain_chunks(array: zarr.Array[Any], files: Path | RemoteFiles | None) -> PlainChunks | None:
    """The chunks of an array that is ordinary, in a folder or a storage; None if zarr-python has to read it."""
    facts = cast(Any, array.metadata.to_dict())
    kind, (rows, *inner), shard = _kind(facts, array.dtype), array.chunks, array.shards
    if (
        files is None
        or kind is None
        or sys.byteorder != "little"
        or (*inner,) != array.shape[1:]
        or (shard is not None and shard[1:] != array.shape[1:])
        or (shard is not None and rows * array.dtype.itemsize * math.prod(inner) < _LEAST_BYTES)
    ):
        return None
    at_start = shard is not None and facts["codecs"][0]["configuration"]["index_location"] == "start"
    return PlainChunks(array, files, kind, shard[0] if shard is not None else 0, at_start=at_start)


def _kind(facts: Mapping[str, Any], dtype: np.dtype[Any]) -> int | None:
    """How chunks are decoded, by what a Zarr says of its array; None if by zarr-python."""
    if facts["zarr_format"] == 2:
        usual = facts["order"] == "C" and not facts["filters"] and dtype.newbyteorder("<") == dtype
        return KINDS.get(facts["compressor"]["id"] if facts["compressor"] else "") if usual else None
    codecs = facts["codecs"]
    if facts["storage_transformers"] or facts["chunk_grid"]["name"] != "regular":
        return None
    if codecs[0]["name"] == "sharding_indexed":
        if len(codecs) > 1 or list(codecs[0]["configuration"]["index_codecs"]) != _INDEX:
            return None
        codecs = codecs[0]["configuration"]["codecs"]
    if len(codecs) > 2 or codecs[0] not in (_INDEX[0], *([{"name": "bytes"}] if dtype.itemsize == 1 else [])):
        return None
    return KINDS.get(codecs[1]["name"] if len(codecs) == 2 else "")


def with_whole_chunks(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """The same array; reading a Blosc chunk that was cut short raises DamagedStore."""
    metadata: Any = array.metadata
    if metadata.zarr_format == 2:
        filters = metadata.filters and [*map(_checked_codec, metadata.filters)]
        metadata = dataclasses.replace(metadata, filters=filters, compressor=_checked_codec(metadata.compressor))
    else:
        metadata = dataclasses.replace(metadata, codecs=tuple(_checked_chain(metadata.codecs)))
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path, array.config))


class _CheckedBlosc(numcodecs.blosc.Blosc):  # type: ignore[misc]  # has no types
    """Of Zarr v2."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        check_blosc(memoryview(buf).cast("B"))
        return super().decode(buf, out)


class _BloscCheck(zarr.abc.codec.BytesBytesCodec):
    """Of Zarr v3, between a stored chunk and Blosc."""

    is_fixed_size = True

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        del chunk_spec
        return input_byte_length

    def to_dict(self) -> dict[str, Any]:
        """What other pipelines of zarr-python, which decode by themselves, may leave out."""
        return {"name": "outofcore.blosc_check", "configuration": {}, "must_understand": False}

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> list[Any]:
        """The chunks as they are."""
        chunks = [chunk for chunk, _ in chunks_and_specs]
        for chunk in chunks:
            if chunk is not None:
                check_blosc(memoryview(chunk.as_numpy_array()))
        return chunks


def _checked_codec(codec: Any) -> Any:
    if not isinstance(codec, numcodecs.blosc.Blosc):
        return codec
    configuration = codec.get_config()
    del configuration["id"]
    return _CheckedBlosc(**configuration)


def _checked_chain(codecs: Iterable[Any]) -> Iterator[Any]:
    for codec in codecs:
        if isinstance(codec, zarr.codecs.ShardingCodec):
            yield dataclasses.replace(codec, codecs=tuple(_checked_chain(codec.codecs)))
        else:
            yield codec
        if isinstance(codec, zarr.codecs.BloscCodec | zarr.codecs.numcodecs.Blosc):
            yield _BloscCheck()
