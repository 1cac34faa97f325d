"""Common interface to the files of a store, local or remote, read at offsets by many threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from outofcore.errors import DamagedStore
from outofcore.ndarrays import Ints
from outofcore.system.descriptors import Descriptor

Item = TypeVar("Item")
Checked = TypeVar("Checked")
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
    owners: Any  # objects to keep alive until the bytes are read


class Files(ABC):
    """The files of a store, wherever they are; thread-safe."""

    root: Path | str  # of the store, for messages
    at_once: int  # most files for one call of :meth:`open_ranges`
    fetching = 0  # most bytes held while a copy on this machine is filled
    _listed: Listed  # by the seal

    @abstractmethod
    def seal(self) -> bytes:
        """Content of the seal; raises StoreError if it is missing or inaccessible."""

    @abstractmethod
    def compare(self, files: Listed) -> None:
        """Compare existing files with those in the seal; raises DamagedStore if one is missing or differs."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Sizes of all existing files by name, listed or not."""

    def exists(self, name: str) -> bool:
        """Whether the seal lists the file."""
        return name in self._listed

    def size(self, name: str) -> int:
        """Bytes of the file, according to the seal."""
        return self._listed[name][0]

    @abstractmethod
    def open(self, name: str) -> Descriptor:
        """The open file, which stays open while referenced; raises StoreError if it is not on this machine."""

    def check_size(self, name: str) -> None:  # noqa: B027 - only a file on this machine may change its size
        """Raise DamagedStore unless a file still has the size listed in the seal."""

    @abstractmethod
    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of a file from an offset; raises DamagedStore if it is too short, StoreError if it cannot be read."""

    @abstractmethod
    def open_ranges(self, wanted: Sequence[Ranges]) -> list[RangeReader]:
        """Make ranges of several files readable by compiled code."""

    def for_each(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call a function that reads for each item, in parallel if reading is latency-bound."""
        for item in items:
            work(item)

    def drop(self, name: str, offset: int, length: int) -> bool:
        """Forget the copy on this machine of a range; whether one may have been read."""
        del name, offset, length
        return False


def read_checked(files: Files, name: str, offset: int, length: int, check: Callable[[bytes], Checked]) -> Checked:
    """The result of a function of a range; bytes that it finds damaged are read again if they were a copy."""
    try:
        return check(files.read(name, offset, length))
    except DamagedStore:
        if not files.drop(name, offset, length):
            raise
        return check(files.read(name, offset, length))
