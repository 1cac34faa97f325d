"""The files of a store, read at offsets by many threads: what they must offer, and those of a local filesystem."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore

Item = TypeVar("Item")
Ints = npt.NDArray[np.int64]

# Enough for every shard of a large split at once, and below the usual limit of 1,024 descriptors a process.
OPEN_FILES = 256


IN_MEMORY = -1


@dataclass(slots=True)
class Ranges:
    """Ranges of one file.

    Attributes
    ----------
    name
        The file.
    offsets, lengths
        Where each begins, and its bytes; a range of none is not read.
    """

    name: str
    offsets: Ints
    lengths: Ints


@dataclass(slots=True)
class Reached:
    """Where compiled code finds the bytes of :class:`Ranges`.

    Attributes
    ----------
    source
        A file descriptor, or :data:`IN_MEMORY`.
    places
        Offsets in the file, or addresses.
    held
        What must live until they are read.
    """

    source: int
    places: Ints
    held: Any


class Files(Protocol):
    """The files of a store, wherever they lie; safe under threads."""

    @property
    def root(self) -> Path | str:
        """Where the store lies, for messages."""
        ...

    def exists(self, name: str) -> bool:
        """Whether the seal lists the file."""
        ...

    def path(self, name: str) -> Path:
        """Where the file lies, for memory mapping; a StoreError where it does not lie on this machine."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of a file from an offset; a DamagedStore if it ends before."""
        ...

    def reach(self, wanted: Sequence[Ranges]) -> list[Reached]:
        """Make ranges of several files readable by compiled code."""
        ...

    def each(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Do some work that reads for each item, side by side where reading is waiting."""
        ...


class LocalFiles:
    """Reads ranges of a store's files, keeping the files open.

    Safe under threads, and after a fork: reads carry their own offset, so descriptors may be shared.

    Parameters
    ----------
    root
        The store's folder.
    listed
        Names of the files that the seal lists.
    """

    def __init__(self, root: Path, listed: Container[str]) -> None:
        self.root = root
        self._listed = listed
        self._process = 0
        self._open: OrderedDict[str, Descriptor] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[Path, Container[str]]:
        return self.root, self._listed

    def __setstate__(self, state: tuple[Path, Container[str]]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copy in another process opens its own files

    def exists(self, name: str) -> bool:
        """Whether the seal lists the file."""
        return name in self._listed

    def path(self, name: str) -> Path:
        """Where the file lies, for memory mapping."""
        return self.root / name

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of a file from an offset.

        Raises
        ------
        DamagedStore
            If the file ends before, or is gone.
        """
        try:
            content = os.pread(self.open(name).number, length, offset)
        except FileNotFoundError as error:
            message = f"{self.root}: {name} has vanished; get the store back with 'dvc checkout'"
            raise DamagedStore(message) from error
        if len(content) != length:
            message = f"{self.root}: {name} ends at {offset + len(content)}, expected {offset + length} bytes or more"
            raise DamagedStore(message)
        return content

    def reach(self, wanted: Sequence[Ranges]) -> list[Reached]:
        """The files, open; nothing is read."""
        files = [self.open(ranges.name) for ranges in wanted]
        return [Reached(file.number, ranges.offsets, file) for file, ranges in zip(files, wanted, strict=True)]

    def each(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Do the work for one item after another."""
        for item in items:
            work(item)

    def open(self, name: str) -> Descriptor:
        """An open file; it stays open as long as somebody holds it."""
        if self._process != os.getpid():  # a lock that another thread held during a fork stays locked in the child
            self._process, self._lock, self._open = os.getpid(), threading.Lock(), OrderedDict()
        with self._lock:
            found = self._open.get(name)
            if found is None:
                found = self._open[name] = Descriptor(self.root / name)
                if len(self._open) > OPEN_FILES:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(name)
            return found


class Descriptor:
    """An open file that is closed when the last reader lets go of it.

    Attributes
    ----------
    number
        Its file descriptor.
    """

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)
