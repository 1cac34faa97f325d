"""Streams that raise only :class:`~outofcore.raw.damage.DamagedInput` and stop at decompression bombs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from outofcore.raw.damage import ERRORS, DamagedInput, as_damage
from outofcore.sizes import format_bytes

FREE_BYTES = 64 << 20
MOST_FOLD = 500
"""Limits on decompressed bytes, absolute and per byte read of the file.

Text shrinks to a third or a tenth, tables and games that repeat to a fiftieth; the methods that bombs are made with
reach 1,000 (deflate), 40,000 (zstd) and more (bzip2).
"""


class Expansion:
    """Decompressed bytes of a raw file, compared with the bytes read of it."""

    def __init__(self, consumed: Callable[[], int]) -> None:
        self._consumed = consumed
        self._given = 0

    def add(self, count: int) -> None:
        """Count bytes; raises DamagedInput if they exceed any plausible ratio."""
        self._given += count
        consumed = self._consumed()
        if self._given > FREE_BYTES + MOST_FOLD * consumed:
            message = (
                f"{format_bytes(consumed)} on disk became more than {format_bytes(self._given)}: taken for a "
                "decompression bomb; if it is genuine, decompress it yourself"
            )
            raise DamagedInput(message, "decompression_bomb")


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Checked(io.RawIOBase):
    """A checked view of another stream; ``problem`` is the error that ended it.

    ``source`` is read in small amounts, so that little readable data before damage is lost. ``expansion`` counts
    decompressed bytes, None if they are already counted.
    """

    def __init__(self, source: _Source, expansion: Expansion | None = None) -> None:
        self.problem: DamagedInput | None = None
        self._source = source
        self._expansion = expansion

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self.problem is not None:
            raise self.problem
        try:
            data = self._source.read1(len(target))
            if self._expansion is not None:
                self._expansion.add(len(data))
        except ERRORS as error:
            self.problem = as_damage(error)
            raise self.problem from error
        target[: len(data)] = data
        return len(data)


class Unreadable(io.RawIOBase):
    """Replaces a file of which nothing can be read, and raises the reason on reading."""

    def __init__(self, problem: DamagedInput) -> None:
        self._problem = problem

    def readable(self) -> bool:
        """Always true; reading raises."""
        return True

    def readinto(self, target: Any) -> int:
        """Raise the problem."""
        del target
        raise self._problem


def buffered(stream: io.RawIOBase) -> BinaryIO:
    """The stream with a buffer of 64 KiB."""
    return io.BufferedReader(stream, 1 << 16)
