"""Append-only files: the part counted by a checkpoint is on the disk and is verified on resumption."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from outofcore.errors import DamagedStore
from outofcore.system.durable import writing

_READ_BYTES = 1 << 20

Mark = tuple[int, str]
"""Bytes of the file that count, and their SHA-256."""


class AppendedFile:
    """A file to which bytes are appended, with a digest of all of them; opened by the first write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0
        self._digest = hashlib.sha256()
        self._synced = True
        self._stream: FileIO | None = None

    def write(self, content: bytes) -> None:
        """Append bytes; they count from the next :meth:`mark`."""
        rest = memoryview(content)
        try:
            with writing(self.path):
                stream = self._opened()
                while rest:
                    rest = rest[stream.write(rest) :]
        except BaseException:
            self.close()  # a partial write is truncated before the next write
            raise
        self._digest.update(content)
        self._bytes += len(content)
        self._synced = False

    def mark(self) -> Mark:
        """Flush everything to the disk."""
        if not self._synced:
            with writing(self.path):
                os.fsync(self._opened().fileno())
            self._synced = True
        return self._bytes, self._digest.hexdigest()

    def resume(self, mark: Sequence[int | str]) -> None:
        """Append after a mark, truncating what a stopped run wrote beyond it; raises DamagedStore."""
        expected = int(mark[0])
        digest = hashlib.sha256()
        missing = expected
        if expected:
            with self.path.open("rb") as stream:
                while missing and (block := stream.read(min(missing, _READ_BYTES))):
                    digest.update(block)
                    missing -= len(block)
        if missing or digest.hexdigest() != mark[1]:
            raise DamagedStore(f"{self.path.name} has changed")
        self._bytes, self._digest = expected, digest

    def content(self) -> bytes:
        """The bytes that count."""
        if not self._bytes:
            return b""
        with self.path.open("rb") as stream:
            return stream.read(self._bytes)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _opened(self) -> FileIO:
        if self._stream is None:
            self._stream = self.path.open("ab", buffering=0)
            self._stream.truncate(self._bytes)
        return self._stream
