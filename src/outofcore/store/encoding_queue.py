"""Encode chunks in threads while the caller continues, and write them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from typing import Any, TypeVar

import numpy.typing as npt

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
