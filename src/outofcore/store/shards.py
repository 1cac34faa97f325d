"""Write shard files chunk by chunk, byte for byte as zarr-python does, without holding a shard in memory.

A shard is a Zarr v3 ``sharding_indexed`` file with its index at the start: offset and length of each chunk
(little-endian uint64, both 2**64 - 1 for an empty chunk), the index's CRC-32C, then the chunks in order. zarr-python
can only write a shard from all its decoded rows at once, a hundred megabytes per field; here a chunk is written as soon
as it is full, and a stopped conversion resumes after the last chunk known to be complete.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import google_crc32c
import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore
from outofcore.ndarrays import Ints
from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.files import Files, read_checked
from outofcore.store.seal import ADVICE
from outofcore.system.durable import writing

EMPTY = 2**64 - 1


def index_bytes(chunks: int) -> int:
    """Size of a shard's index for this many chunks, including its checksum."""
    return 16 * chunks + CRC_BYTES


def decoded_index(raw: bytes, chunks: int) -> npt.NDArray[np.uint64]:
    """Offset and length of each chunk, (chunks, 2), both EMPTY for one that is not stored; raises DamagedStore."""
    index = np.empty((chunks, 2), "<u8")
    ChunkCodec("none", 0, "uint64").decode(raw, index)
    return index


def read_index(files: Files, name: str, chunks: int, whole: int | None) -> Ints:
    """Offset and length of each chunk of a shard, (chunks, 2), both 0 for one that is not stored.

    ``whole`` is the encoded length of every chunk, None if they differ. Raises DamagedStore if the index has changed or
    the chunks are not consecutive in the file, since compiled code reads where it points.
    """

    def checked(raw: bytes) -> Ints:
        try:
            index = decoded_index(raw, chunks)
        except DamagedStore as error:
            raise DamagedStore(f"{files.root}: index of shard {name} is damaged; {ADVICE}") from error
        wrong = _misplaced(index, files.size(name), whole)
        if wrong:
            raise DamagedStore(f"{files.root}: index of shard {name} {wrong}; {ADVICE}")
        return np.where(index == EMPTY, 0, index).astype(np.int64)

    return read_checked(files, name, 0, index_bytes(chunks), checked)


def _misplaced(index: npt.NDArray[np.uint64], size: int, whole: int | None) -> str:
    """What is wrong with the offsets of chunks in a file of this size, or ""."""
    written = index[(index != EMPTY).any(1)]
    offsets, lengths = written.T
    first = index_bytes(len(index))
    # Numbers are checked before they are added, so that sums stay within 64 bits.
    if (written > size).any() or not lengths.all():
        return "names chunks of no bytes, or beyond its end"
    if (offsets != np.uint64(first) + np.cumsum(lengths) - lengths).any() or first + int(lengths.sum()) != size:
        return "does not name its chunks one after the other"
    if whole is not None and (lengths != whole).any():
        return f"names chunks of other lengths than {whole} bytes"
    return ""


def shard_name(number: int, dimensions: int) -> str:
    """File name of a shard of an array that is cut only along its first axis."""
    return ".".join(["c", str(number), *["0"] * (dimensions - 1)])


def check_unfinished(path: Path, chunks: int, lengths: Sequence[int]) -> None:
    """Check every chunk of a shard that a stopped process left; raises DamagedStore.

    ``path`` is that of the finished shard, ``chunks`` the number in a full shard, ``lengths`` those of encoded chunks.
    """
    if not any(lengths):
        return
    partial = _partial(path)
    place = partial if partial.exists() else path  # it may have been finished in the meantime
    try:
        with place.open("rb") as stream:
            stream.seek(index_bytes(chunks))
            for number, length in enumerate(lengths):
                if length:
                    _check(place, number, stream.read(length), length)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise DamagedStore(f"{path}: the shard that a stopped run has begun is gone") from error


def _check(path: Path, number: int, encoded: bytes, length: int) -> None:
    try:
        ChunkCodec.check(encoded)
    except DamagedStore as error:
        missing = f"{length - len(encoded)} bytes are missing" if len(encoded) < length else str(error)
        raise DamagedStore(f"{path}: chunk {number} that a stopped run has left is damaged: {missing}") from error


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


class ShardFile:
    """One shard being written, chunk by chunk, under a temporary name."""

    def __init__(self, path: Path, chunks: int, lengths: Sequence[int] = ()) -> None:
        """``lengths`` are those of the encoded chunks in an unfinished file, 0 for an empty chunk."""
        self.path = path
        self.chunks = chunks  # of a full shard
        self.lengths = list(lengths)
        self._partial = _partial(path)
        self._open()

    def _open(self) -> None:
        end, written = index_bytes(self.chunks) + sum(self.lengths), any(self.lengths)
        with writing(self.path):
            self._partial.parent.mkdir(parents=True, exist_ok=True)
            if written and not self._partial.exists():  # it was finished after the state that names these lengths
                self.path.rename(self._partial)
            self._file = self._partial.open("r+b" if written else "w+b")
            self._file.truncate(end)
            self._file.seek(end)

    @property
    def full(self) -> bool:
        return len(self.lengths) == self.chunks

    def append(self, encoded: bytes) -> None:
        """Add the next chunk; empty bytes for one with only the fill value."""
        with writing(self.path):
            self._file.write(encoded)
        self.lengths.append(len(encoded))

    def sync(self) -> None:
        """Flush appended chunks to the disk."""
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Leave the unfinished file as it is; chunks lost to a full disk are rewritten by the next run."""
        with suppress(OSError):
            self._file.close()

    def finish(self) -> tuple[int, str] | None:
        """Write the index and rename the shard; returns size and SHA-256, None if all chunks are empty: no file."""
        if not any(self.lengths):
            with writing(self.path):
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
        with writing(self.path):
            self._file.seek(0)
            self._file.write(body + google_crc32c.value(body).to_bytes(CRC_BYTES, "little"))
            self.sync()
            self._file.seek(0)
            digest = hashlib.file_digest(self._file, "sha256").hexdigest()
            self._file.close()
            self._partial.replace(self.path)
        return offset, digest
