"""Stored chunks of an ordinary Zarr in files, decoded by compiled code: zarr-python takes longer to reach a chunk.

Ordinary is: cut along the first axis only, numbers in C order and of this machine's byte order, and at most one
compressor, zstd or Blosc; Zarr v2, or v3 with or without shards. All else, and each chunk that is missing, damaged or
unusual in any way, is left to zarr-python.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import zarr
import zarr.storage

from outofcore.errors import DamagedStore
from outofcore.ndarrays import Ints
from outofcore.store.bulk import KINDS, decode_plain
from outofcore.store.shards import decoded_index, index_bytes
from outofcore.system.descriptors import Descriptor

_TOGETHER = 256  # stored chunks that are decoded in one call
_LEAST_BYTES = 1024  # of a decoded chunk in a shard: the indexes that are kept take a small part of what they are for
_INDEX: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


class PlainChunks:
    """The stored chunks of an array, numbered along its first axis; thread-safe."""

    def __init__(self, array: zarr.Array[Any], kind: int, folder: str, shard_rows: int, *, at_start: bool) -> None:
        self._array, self._kind, self._folder, self._at_start = array, kind, folder, at_start
        self._rows = array.chunks[0]
        self._row_bytes = array.dtype.itemsize * math.prod(array.shape[1:])
        self._most = self._rows * self._row_bytes * 129 // 128 + 1024  # bytes of a chunk that did not compress
        self._sharded = shard_rows // self._rows  # chunks of a shard; 0 without shards
        self._indexes: dict[int, tuple[tuple[int, ...], Ints]] = {}  # of shards: identity of the file, and its index
        self.index_bytes = 16 * self._sharded * -(-array.shape[0] // shard_rows) if shard_rows else 0

    def read(self, starts: Ints, counts: Ints, buffer: npt.NDArray[Any], slots: Ints) -> npt.NDArray[np.bool_]:
        """Decode ranges of rows into slots of a buffer; whether each range could be."""
        if not buffer[:1].flags.c_contiguous:
            return np.zeros(len(starts), np.bool_)
        step = max(1, _TOGETHER * self._rows // max(int(counts.max(initial=1)), 1))
        return np.concatenate(
            [
                self._read(starts[at : at + step], counts[at : at + step], buffer, slots[at : at + step])
                for at in range(0, len(starts), step)
            ]
        )

    def _read(self, starts: Ints, counts: Ints, buffer: npt.NDArray[Any], slots: Ints) -> npt.NDArray[np.bool_]:
        low, high = starts // self._rows, -(-(starts + counts) // self._rows)
        owner = np.repeat(np.arange(len(starts)), high - low)
        before = np.cumsum(high - low) - (high - low)
        number = np.arange(len(owner)) - (before - low)[owner]
        begin = np.maximum(number * self._rows, starts[owner])
        end = np.minimum((number + 1) * self._rows, (starts + counts)[owner])
        jobs = np.empty((len(owner), 7), np.int64)
        jobs[:, 4] = (begin - number * self._rows) * self._row_bytes
        jobs[:, 5] = buffer.ctypes.data + slots[owner] * buffer.strides[0] + (begin - starts[owner]) * self._row_bytes
        jobs[:, 6] = (end - begin) * self._row_bytes
        files, own = np.unique(number // max(self._sharded, 1), return_inverse=True)
        names = [self._file(file) for file in files.tolist()]
        paths = np.frombuffer(b"".join(names), np.uint8)
        jobs[:, 0] = (paths.ctypes.data + np.cumsum([0, *map(len, names)]))[own]
        if self._sharded:
            for place, file in enumerate(files.tolist()):
                at = np.flatnonzero(own == place)
                jobs[at, 1:3] = self._index(file, names[place])[number[at] - file * self._sharded]
            jobs[:, 3] = np.maximum(jobs[:, 2], 1)  # one of no bytes is not stored
        else:
            jobs[:, 1:4] = 0, self._most, 0
        done = np.ones(len(starts), np.bool_)
        done[owner[~decode_plain(self._kind, jobs, self._rows * self._row_bytes)]] = False
        return done

    def _file(self, number: int) -> bytes:
        """The path of a file, as C has it."""
        key = self._array.metadata.encode_chunk_key((number, *(0,) * (self._array.ndim - 1)))
        return os.fsencode(f"{self._folder}/{key}") + b"\0"

    def _index(self, shard: int, name: bytes) -> Ints:
        """Offset and length of each chunk of a shard, (chunks, 2); 0 for one that is left to zarr-python."""
        size = index_bytes(self._sharded)
        try:
            file = Descriptor(os.fsdecode(name[:-1]))
            status = os.fstat(file.number)
            identity = status.st_ino, status.st_mtime_ns, status.st_size
            known = self._indexes.get(shard)
            if known and known[0] == identity:
                return known[1]
            start = 0 if self._at_start else max(status.st_size - size, 0)
            index = decoded_index(file.read(start, size), self._sharded)
        except (OSError, DamagedStore):
            return np.zeros((self._sharded, 2), np.int64)
        sound = (index[:, 0] < status.st_size) & (index[:, 1] <= self._most)
        kept = np.where(sound[:, np.newaxis], index, 0).astype(np.int64)
        self._indexes[shard] = identity, kept
        return kept


def plain_chunks(array: zarr.Array[Any]) -> PlainChunks | None:
    """The chunks of an array, if it is ordinary and in files of this machine."""
    store, facts = array.store_path.store, cast(Any, array.metadata.to_dict())
    kind, (rows, *inner), shard = _kind(facts, array.dtype), array.chunks, array.shards
    if (
        type(store) is not zarr.storage.LocalStore
        or kind is None
        or sys.byteorder != "little"
        or (*inner,) != array.shape[1:]
        or (shard is not None and shard[1:] != array.shape[1:])
        or (shard is not None and rows * array.dtype.itemsize * math.prod(inner) < _LEAST_BYTES)
    ):
        return None
    at_start = shard is not None and facts["codecs"][0]["configuration"]["index_location"] == "start"
    folder = str(Path(store.root, array.store_path.path))
    return PlainChunks(array, kind, folder, shard[0] if shard is not None else 0, at_start=at_start)


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
