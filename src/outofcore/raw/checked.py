"""Streams whose only error is :class:`~outofcore.raw.damage.DamagedInput`, and which no bomb can blow up."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from outofcore.raw.damage import ERRORS, DamagedInput, as_damage
from outofcore.sizes import format_bytes

FREE_BYTES = 64 << 20
MOST_FOLD = 500
"""Decompressed bytes may be so many, and so many times the bytes that were read of the file for them.

Text shrinks to a third or a tenth, tables and games that repeat to a fiftieth; the methods that bombs are made with
reach 1,000 (deflate), 40,000 (zstd) and more (bzip2).
"""


class Expansion:
    """How much has come out of a raw file, beside how much was read of it.

    Parameters
    ----------
    consumed
        How many bytes of the file on disk have been read so far.
    """

    def __init__(self, consumed: Callable[[], int]) -> None:
        self._consumed = consumed
        self._given = 0

    def add(self, count: int) -> None:
        """Count bytes.

        Raises
        ------
        DamagedInput
            If they are absurdly many.
        """
        self._given += count
        consumed = self._consumed()
        if self._given > FREE_BYTES + MOST_FOLD * consumed:
            message = (
                f"{format_bytes(consumed)} on disk became more than {format_bytes(self._given)}: taken for a "
                "decompression bomb; decompress it yourself if it is none"
            )
            raise DamagedInput(message, "decompression_bomb")


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Checked(io.RawIOBase):
    """Reads on from another stream.

    Parameters
    ----------
    source
        Read as it comes, so that little is lost of what can be read before the damage.
    expansion
        Where decompressed bytes are counted; None where they were.

    Attributes
    ----------
    problem
        What ended it; None while nothing has.
    """

    def __init__(self, source: _Source, expansion: Expansion | None = None) -> None:
        self.problem: DamagedInput | None = None
        self._source = source
        self._expansion = expansion

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill a buffer as far as what is at hand reaches; 0 at the end."""
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
    """Stands for a file of which nothing can be read, and tells why when it is read."""

    def __init__(self, problem: DamagedInput) -> None:
        self._problem = problem

    def readable(self) -> bool:
        """Whether it can be read: it is to be tried."""
        return True

    def readinto(self, target: Any) -> int:
        """Raise the problem."""
        del target
        raise self._problem


def buffered(stream: io.RawIOBase) -> BinaryIO:
    """The same with a buffer of 64 KiB."""
    return io.BufferedReader(stream, 1 << 16)
