"""Open files and folders, with what operating systems do not share: all such differences in reading are here.

Windows opens no folders and reads at no offset. There a folder is its path, so a store that is moved is not found any
more, and reads of one open file wait for each other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import resource
except ModuleNotFoundError:  # on Windows
    resource = None  # type: ignore[assignment]

OPENS_FOLDERS = os.open in os.supports_dir_fd
_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT"))
_SEEKING = threading.Lock()


class Descriptor:
    """An open file, closed with its last reference."""

    def __init__(self, path: Path | str, flags: int = 0, folder: int | None = None) -> None:
        self.number: int = os.open(path, os.O_RDONLY | _FLAGS | flags, 0o666, dir_fd=folder)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at exit, the module may already be gone
        if hasattr(self, "number"):
            close(self.number)

    def read(self, offset: int, length: int) -> bytes:
        """At most so many bytes from an offset."""
        if hasattr(os, "pread"):
            return os.pread(self.number, length, offset)
        with _SEEKING:
            os.lseek(self.number, offset, os.SEEK_SET)
            return os.read(self.number, length)

    def announce(self, offset: int, length: int) -> None:
        """Let the system begin to read bytes that will be needed, 0 for all to the end, where it takes advice."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # of a filesystem that refuses advice: the read itself says what is wrong
                os.posix_fadvise(self.number, offset, length, os.POSIX_FADV_WILLNEED)


class Folder:
    """An open folder, in which names are looked up wherever it has moved."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = Descriptor(path, os.O_DIRECTORY) if OPENS_FOLDERS else None
        self._number = self._descriptor.number if self._descriptor else None
        facts = self.facts(".")
        self.identity = facts.st_dev, facts.st_ino

    def _place(self, name: str) -> Path | str:
        return name if OPENS_FOLDERS else self._path / name

    def open(self, name: str) -> Descriptor:
        """A file in it."""
        return Descriptor(self._place(name), folder=self._number)

    def facts(self, name: str) -> os.stat_result:
        """Size, times and identity of a file in it."""
        return os.stat(self._place(name), dir_fd=self._number)

    def names(self, refuse: Callable[[OSError], object]) -> Iterator[str]:
        """Paths of all files below it, with ``/``; ``refuse`` receives the error of a folder that cannot be read."""
        folders: Iterable[Sequence[Any]]
        if OPENS_FOLDERS:
            top, folders = Path(), os.fwalk(dir_fd=self._number, onerror=refuse)
        else:
            top, folders = self._path, os.walk(self._path, onerror=refuse)
        for place, _, files, *_ in folders:
            yield from (Path(place, name).relative_to(top).as_posix() for name in files)


def first_bytes(path: str, count: int) -> bytes:
    """At most so many bytes from the beginning of a file, in as few calls of the system as there are."""
    number = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        return os.read(number, count)
    finally:
        os.close(number)


def most_open_files() -> int | None:
    """How many files this process may have open; None if any number, or not known."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit
