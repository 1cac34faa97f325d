"""Write one table: append rows, encode whole chunks in parallel, write shards in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, wait
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from outofcore.store.bulk import encode_chunks
from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.metadata import array_document
from outofcore.store.schema import Columns, Field, Layout, filler
from outofcore.store.shards import ShardFile, check_unfinished, index_bytes, shard_name

TOGETHER_BYTES = 2**20
"""Rows that are encoded in one call, of whole chunks."""

SealedFiles = dict[str, tuple[int, str]]
"""Size and SHA-256 by path relative to the store."""

# Most groups of chunks that are being encoded, or encoded and not yet written.
AHEAD = 16
# Most shards of a table that are being finished, each with an open file for every field.
FINISHING = 4

Chunk = list[npt.NDArray[Any]]
"""The rows of a chunk, by field."""
EncodedChunk = list[bytes]
Item = TypeVar("Item")


class EncodingQueue:
    """The chunks of all tables of a store that are not written yet: their number is bounded, however many tables."""

    def __init__(self, encoders: Executor) -> None:
        self.encoders = encoders
        self.bytes_waiting = 0  # of the chunks, before they are encoded
        self.bytes_written = 0  # of all tables, counted by them
        self._finishing: deque[Future[Any]] = deque()
        self._waiting: deque[tuple[Future[list[EncodedChunk]], Callable[[EncodedChunk], None], int]] = deque()

    def put(
        self,
        chunks: list[Chunk],
        encode: Callable[[list[Chunk]], list[EncodedChunk]],
        write: Callable[[EncodedChunk], None],
    ) -> None:
        """Have chunks encoded; a later call writes them, after those before. Their rows must not change any more."""
        while self._waiting and (self._waiting[0][0].done() or len(self._waiting) >= AHEAD):
            self._write_first()
        size = sum(_most_bytes(array) for chunk in chunks for array in chunk)
        self.bytes_waiting += size
        self._waiting.append((self.encoders.submit(encode, chunks), write, size))

    def finish_shards(self, finish: Callable[[], Item]) -> Future[Item]:
        """Have the shards of a table finished in another thread, after most of those before."""
        while len(self._finishing) >= FINISHING:
            wait([self._finishing.popleft()])
        future = self.encoders.submit(finish)
        self._finishing.append(future)
        return future

    def finish(self) -> None:
        """Wait for all chunks and write them."""
        while self._waiting:
            self._write_first()

    def _write_first(self) -> None:
        future, write, size = self._waiting[0]
        encoded = future.result()  # chunks that cannot be encoded stay, for all later waits
        self._waiting.popleft()
        self.bytes_waiting -= size
        for chunk in encoded:
            write(chunk)


def _most_bytes(rows: npt.NDArray[Any]) -> int:
    """Bytes of rows before they are compressed; of a text at most four per character, and four for its length."""
    return 4 * (rows.size + sum(map(len, filter(None, rows.flat)))) if rows.dtype.kind in "OT" else rows.nbytes


class TableWriter:
    """Appends rows to the arrays of one table."""

    def __init__(
        self,
        root: Path,
        path: str,
        fields: tuple[Field, ...],
        layout: Layout,
        queue: EncodingQueue,
    ) -> None:
        self.path = path
        self.fields = fields
        self.layout = layout
        self.rows = 0
        self.files: SealedFiles = {}
        self._root = root
        self._queue = queue
        self._codecs = [ChunkCodec(layout.codec, layout.level, field.dtype) for field in fields]
        self._waiting: dict[str, list[npt.NDArray[Any]]] = {field.name: [] for field in fields}
        self._waiting_rows = 0
        self._shards: dict[str, ShardFile] = {}
        self._shard_number = 0
        self._finishing: deque[Future[SealedFiles]] = deque()
        self.checksums = {field.name: bytearray() for field in fields}  # of all chunks that are written

    def append(self, columns: Columns) -> None:
        """Add rows; ``columns`` holds every field, all of one length, in arrays that do not change any more."""
        count = len(columns[self.fields[0].name])
        for field in self.fields:
            array = columns[field.name]
            if array.shape != (count, *field.shape):
                raise ValueError(f"{self.path}/{field.name}: expected shape {(count, *field.shape)}, got {array.shape}")
            if field.dtype != "string" and array.dtype != np.dtype(field.dtype):
                raise ValueError(f"{self.path}/{field.name}: expected dtype {field.dtype}, got {array.dtype}")
            self._waiting[field.name].append(array)
        self.rows += count
        self._waiting_rows += count
        if self._waiting_rows >= self.layout.chunk_rows:
            self._write_chunks(self._waiting_rows // self.layout.chunk_rows)

    def end(self) -> None:
        """Write the rest, padded to a whole chunk, as no more rows come; the last shard is finished in a thread."""
        rest = self._waiting_rows
        if rest:
            for field in self.fields:
                self._waiting[field.name].append(filler(field, self.layout.chunk_rows - rest))
            self._waiting_rows = self.layout.chunk_rows
            self._write_chunks(1)
        self._queue.finish()
        self._finish_shards()

    def close(self) -> None:
        """:meth:`end`, and wait until all shards are finished."""
        try:
            self.end()
            self._take_finished(wait_for_all=True)
        except BaseException:
            self.abandon()
            raise

    def documents(self) -> dict[str, dict[str, Any]]:
        """The ``zarr.json`` of each array, by name."""
        return {
            f"{self.path}/{field.name}/zarr.json": array_document(self.path, field, self.layout, self.rows)
            for field in self.fields
        }

    def snapshot(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """State from which a later process can resume; unfinished shards are flushed to the disk.

        JSON values, and bytes: the checksums by the table's path, the rows that wait for the rest of their chunk by the
        field's.
        """
        self._take_finished(wait_for_all=True)
        for shard in self._shards.values():
            shard.sync()
        facts = {
            "rows": self.rows,
            "shard": self._shard_number,
            "lengths": {name: list(shard.lengths) for name, shard in self._shards.items()},
            "waiting": self._waiting_rows,
            "files": dict(self.files),
        }
        contents = {self.path: b"".join(self.checksums.values())}
        for field in self.fields if self._waiting_rows else ():
            rest = np.concatenate(self._waiting[field.name])
            contents[f"{self.path}/{field.name}"] = ChunkCodec("none", 0, field.dtype).encode(rest)
        return facts, contents

    def restore(self, facts: Mapping[str, Any], contents: Mapping[str, bytes]) -> None:
        """Resume from a :meth:`snapshot`; raises DamagedStore."""
        self.rows, self._shard_number, self._waiting_rows = facts["rows"], facts["shard"], facts["waiting"]
        self.files = {name: (size, digest) for name, (size, digest) in facts["files"].items()}
        self._queue.bytes_written += sum(size for size, _ in self.files.values())
        self._queue.bytes_written += sum(map(sum, facts["lengths"].values()))
        size = len(contents[self.path]) // len(self.fields)
        for number, field in enumerate(self.fields):
            self.checksums[field.name] += contents[self.path][number * size : (number + 1) * size]
            if self._waiting_rows:
                rest = filler(field, self._waiting_rows)
                ChunkCodec("none", 0, field.dtype).decode(contents[f"{self.path}/{field.name}"], rest)
                self._waiting[field.name].append(rest)
            if field.name in facts["lengths"]:
                self._shards[field.name] = self._open_shard(field, facts["lengths"][field.name])

    def abandon(self) -> None:
        """Close the files as they are, after those that are being finished."""
        wait(self._finishing)
        for shard in self._shards.values():
            shard.close()

    def _write_chunks(self, chunks: int) -> None:
        size = self.layout.chunk_rows
        cut = [cut_chunks(self._waiting[field.name], size, chunks) for field in self.fields]
        self._waiting_rows -= chunks * size
        rows = [list(arrays) for arrays in zip(*cut, strict=True)]
        encode = partial(encode_chunks, self.fields, self._codecs)
        task_chunks = max(1, TOGETHER_BYTES // max(1, sum(array.nbytes for array in rows[0])))
        for first in range(0, chunks, task_chunks):
            self._queue.put(rows[first : first + task_chunks], encode, self._append_chunk)

    def _append_chunk(self, encoded: list[bytes]) -> None:
        for field, content in zip(self.fields, encoded, strict=True):
            if field.name not in self._shards:
                self._shards[field.name] = self._open_shard(field, [])
            self._shards[field.name].append(content)
            self.checksums[field.name] += content[-CRC_BYTES:] or bytes(CRC_BYTES)
            self._queue.bytes_written += len(content)
        if self._shards[self.fields[0].name].full:
            self._finish_shards()
        self._take_finished(wait_for_all=False)

    def _open_shard(self, field: Field, lengths: list[int]) -> ShardFile:
        name = shard_name(self._shard_number, 1 + len(field.shape))
        chunks = self.layout.shard_rows // self.layout.chunk_rows
        path = self._root / self.path / field.name / name
        check_unfinished(path, chunks, lengths)
        return ShardFile(path, chunks, lengths)

    def _finish_shards(self) -> None:
        """Have the shards finished in another thread: their digests and the disk take a while."""
        if self._shards:
            index = index_bytes(self.layout.shard_rows // self.layout.chunk_rows)
            self._queue.bytes_written += index * sum(any(shard.lengths) for shard in self._shards.values())
            shards = [*self._shards.values()]
            self._finishing.append(self._queue.finish_shards(lambda: _finished(self._root, shards)))
            self._shard_number += 1
            self._shards = {}

    def _take_finished(self, *, wait_for_all: bool) -> None:
        while self._finishing and (wait_for_all or self._finishing[0].done()):
            whole = self._finishing[0].result()
            self._finishing.popleft()
            self.files.update(whole)


def _finished(root: Path, shards: Iterable[ShardFile]) -> SealedFiles:
    """Finish shards; returns those that have a file."""
    try:
        facts = {shard.path.relative_to(root).as_posix(): shard.finish() for shard in shards}
    except BaseException:
        for shard in shards:
            shard.close()
        raise
    return {name: sealed for name, sealed in facts.items() if sealed}


def cut_chunks(parts: list[npt.NDArray[Any]], size: int, chunks: int) -> list[npt.NDArray[Any]]:
    """Cut whole chunks off arrays; what is left is copied, so that a few rows keep no large array alive."""
    *waiting, rows = parts  # of which only the last one ends a chunk
    first = size - sum(map(len, waiting))
    last = first + (chunks - 1) * size
    cut = [np.concatenate([*waiting, rows[:first]])]
    cut += [rows[start : start + size] for start in range(first, last, size)]
    parts[:] = [rows[last:].copy()]
    return cut
