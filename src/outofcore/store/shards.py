"""Shard files, written chunk by chunk: byte for byte what zarr-python writes, without holding a shard in memory.

A shard is a Zarr v3 ``sharding_indexed`` file with its index at the start: for each chunk its offset and length
(little-endian uint64, both 2**64 - 1 where the chunk is empty), the index's CRC-32C, then the chunks in order.
zarr-python can only write a shard from all its decoded rows at once, a hundred megabytes a field; here a chunk goes to
the file as soon as it is full, and a stopped conversion goes on after the last chunk that is known to be whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import google_crc32c
import numpy as np

from outofcore.store.codecs import CRC_BYTES

EMPTY = 2**64 - 1


def index_bytes(chunks: int) -> int:
    """Size of the index of a shard of so many chunks, its checksum included."""
    return 16 * chunks + CRC_BYTES


def shard_name(number: int, dimensions: int) -> str:
    """File name of a shard of an array that is cut along its first axis only."""
    return ".".join(["c", str(number), *["0"] * (dimensions - 1)])


class Shard(Protocol):
    """Takes the chunks of one shard, in order.

    Attributes
    ----------
    path
        Where the finished shard stands.
    lengths
        Encoded lengths of its chunks so far (0 for an empty chunk).
    """

    path: Path
    lengths: list[int]

    @property
    def full(self) -> bool:
        """Whether no further chunk fits."""
        ...

    def append(self, encoded: bytes) -> None:
        """Add the next chunk; no bytes for one that holds the fill value only."""
        ...

    def sync(self) -> None:
        """Bring what was appended to the disk."""
        ...

    def close(self) -> None:
        """Leave the shard unfinished."""
        ...

    def finish(self) -> tuple[int, str] | None:
        """Size and SHA-256 of the finished shard; None where all chunks are empty and there is no file."""
        ...


ShardMaker = Callable[[Path, int, list[int] | None], Shard]
"""Begins a shard: its path, chunks of a full one, and encoded lengths of the chunks that it has already."""


def unfinished(path: Path, chunks: int, lengths: Sequence[int]) -> Iterator[bytes]:
    """Encoded chunks that a stopped process has left of a shard, no bytes for one of nothing but the fill value.

    Parameters
    ----------
    path
        Where the finished shard would stand.
    chunks
        Chunks of a full shard.
    lengths
        Their encoded lengths.
    """
    partial = _partial(path)
    with (partial if partial.exists() else path).open("rb") as stream:  # it may have been finished in the meantime
        stream.seek(index_bytes(chunks))
        for length in lengths:
            yield stream.read(length)


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


class ShardFile:
    """One shard being written, under a name of its own until it is whole.

    Parameters
    ----------
    path
        Where the finished shard stands.
    chunks
        Chunks of a full shard.
    lengths
        Encoded lengths of the chunks that stand in the unfinished file already (0 for an empty chunk).
    """

    def __init__(self, path: Path, chunks: int, lengths: list[int] | None = None) -> None:
        self.path = path
        self.chunks = chunks
        self.lengths = list(lengths or [])
        self._partial = _partial(path)
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        self._end = index_bytes(chunks) + sum(self.lengths)
        written = any(self.lengths)
        if written and not self._partial.exists():  # it was finished after the state that names these lengths
            path.rename(self._partial)
        self._file = self._partial.open("r+b" if written else "w+b")
        self._file.truncate(self._end)
        self._file.seek(self._end)

    @property
    def full(self) -> bool:
        """Whether no further chunk fits."""
        return len(self.lengths) == self.chunks

    def append(self, encoded: bytes) -> None:
        """Add the next chunk; no bytes for one that holds the fill value only."""
        self._file.write(encoded)
        self.lengths.append(len(encoded))
        self._end += len(encoded)

    def sync(self) -> None:
        """Bring what was appended to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Leave the unfinished file as it is; what a full disk does not take is written again by the next run."""
        with suppress(OSError):
            self._file.close()

    def finish(self) -> tuple[int, str] | None:
        """Write the index and give the shard its name.

        Returns
        -------
        Size and SHA-256 of the file; None where all chunks are empty: such a shard has no file, as in any Zarr store.
        """
        if not any(self.lengths):
            self._file.close()
            self._partial.unlink()
            return None
        index = np.full((self.chunks, 2), EMPTY, dtype="<u8")
        offset = index_bytes(self.chunks)
        for chunk, length in enumerate(self.lengths):
            if length:
                index[chunk] = offset, length
                offset += length
        body = index.tobytes()
        self._file.seek(0)
        self._file.write(body + google_crc32c.value(body).to_bytes(CRC_BYTES, "little"))
        self.sync()
        self._file.seek(0)
        digest = hashlib.file_digest(self._file, "sha256").hexdigest()
        self._file.close()
        self._partial.replace(self.path)
        return offset, digest
