"""Common interface to the files of a store, local or remote, read at offsets by many threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore
from outofcore.system.descriptors import Descriptor

Item = TypeVar("Item")
Checked = TypeVar("Checked")
Ints = npt.NDArray[np.int64]
Listed = Mapping[str, tuple[int, str]]
"""Size and SHA-256 by name, as in a seal."""

REPLACED = "another store has taken the place of the one that was opened; open it again"

IN_MEMORY = -1


@dataclass(slots=True)
class Ranges:
    """Ranges of one file; empty ranges are not read."""

    name: str  # the file
    offsets: Ints  # start of each range
    lengths: Ints  # bytes of each range


@dataclass(slots=True)
class RangeReader:
    """Location of the bytes of :class:`Ranges`, for compiled code."""

    source: int | Ints  # a file descriptor, or IN_MEMORY; of all ranges or of each
    places: Ints  # offsets in the file, or addresses
    held: Any  # objects to keep alive until the bytes are read


class Files(Protocol):
    """The files of a store, wherever they are; thread-safe."""

    at_once: int
    """Most files for one call of :meth:`open_ranges`."""
    fetching: int
    """Most bytes held while a copy on this machine is filled."""

    @property
    def root(self) -> Path | str:
        """Location of the store, for messages."""
        ...

    def seal(self) -> bytes:
        """Content of the seal; raises StoreError if it is missing."""
        ...

    def compare(self, files: Listed) -> None:
        """Compare existing files with those in the seal; raises DamagedStore if one is missing or differs."""
        ...

    def found(self) -> dict[str, int]:
        """Sizes of all existing files by name, listed or not."""
        ...

    def exists(self, name: str) -> bool:
        """Whether the seal lists the file."""
        ...

    def size(self, name: str) -> int:
        """Bytes of the file, according to the seal."""
        ...

    def open(self, name: str) -> Descriptor:
        """The open file, for memory mapping; raises StoreError if it is not on this machine."""
        ...

    def check_size(self, name: str) -> None:
        """Raise DamagedStore unless a file still has the size listed in the seal."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of a file from an offset; raises DamagedStore if it is too short."""
        ...

    def open_ranges(self, wanted: Sequence[Ranges]) -> list[RangeReader]:
        """Make ranges of several files readable by compiled code."""
        ...

    def each(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call a function that reads for each item, in parallel if reading is latency-bound."""
        ...

    def drop(self, name: str, offset: int, length: int) -> bool:
        """Forget the copy on this machine of a range; whether there was one."""
        ...


def read_checked(files: Files, name: str, offset: int, length: int, check: Callable[[bytes], Checked]) -> Checked:
    """The result of a function of a range; bytes that it finds damaged are read again if they were a copy."""
    try:
        return check(files.read(name, offset, length))
    except DamagedStore:
        if not files.drop(name, offset, length):
            raise
        return check(files.read(name, offset, length))
