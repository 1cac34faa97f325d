"""Files of a store on a local filesystem, pinned when they are opened."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.files import REPLACED, Files, Listed, RangeReader, Ranges
from outofcore.store.seal import ADVICE, SEAL, Seal, read_seal
from outofcore.system.descriptors import Descriptor, Folder, most_open_files
from outofcore.system.project import project_of

# Enough for every shard of a large split; if the process limit is lower, a quarter of that.
OPEN_FILES = 256
ZARR_FILES = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")  # of which any Zarr, v3 or v2, has one
MOST_SEAL_BYTES = 1 << 30  # of ten million files


class LocalFiles(Files):
    """Reads ranges of a store's files, keeping files open.

    Opened files are pinned: names are looked up in the original folder, wherever it is moved, whatever replaces its
    name and whatever the working directory is; a file is accepted only if it is the original one or has the digest
    listed in the seal. Safe under threads and after a fork: reads carry their own offset, so descriptors may be shared.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._place = Path(os.path.realpath(root))
        self._listed = {}
        self._identities: dict[str, Identity] = {}
        self._limit = open_limit()
        self.at_once = max(1, self._limit // 8)
        self._kept = _Kept()
        try:
            self._open_folder: Folder | None = with_room(lambda: Folder(self._place))
        except FileNotFoundError as error:
            raise StoreError(f"{root}: does not exist; {_way(self._place)}") from error
        except NotADirectoryError as error:
            raise StoreError(
                f"{root}: expected the folder of a store, got a file; convert it first, with outofcore.convert"
            ) from error
        except OSError as error:
            raise self._unreadable(error, "the folder") from error
        self._identity = self._folder.identity
        _ALL[id(self)] = self

    @property
    def _folder(self) -> Folder:
        """The folder that was opened, wherever it has moved; only after :meth:`release` that of its name."""
        folder = self._open_folder
        if folder is None:
            folder = with_room(lambda: Folder(self._place))
            if folder.identity != self._identity:
                raise StoreError(f"{self.root}: {REPLACED}")
            self._open_folder = folder
        return folder

    def __getstate__(self) -> tuple[Path | str, Path, str]:
        return self.root, self._place, Seal(self._listed).digest

    def __setstate__(self, state: tuple[Path | str, Path, str]) -> None:
        root, place, digest = state
        self.__init__(place)  # type: ignore[misc]  # a copy in another process opens its own files
        self.root = root
        seal = read_seal(self.seal(), root)
        if seal.digest != digest:
            raise StoreError(f"{root}: {REPLACED}")
        self.compare(seal.files)

    def seal(self) -> bytes:
        try:
            file = self._file(SEAL)
        except FileNotFoundError as error:
            zarr = any(os.path.lexists(self._place / name) for name in ZARR_FILES)
            way = (
                "it is a conversion that was not finished (convert again), or a Zarr of another program (loader(), "
                "open_zarr() and 'outofcore info' read it)"
                if zarr
                else _way(self._place)
            )
            raise StoreError(f"{self.root}: is not a sealed store; {way}") from error
        except OSError as error:
            raise self._unreadable(error, SEAL) from error
        try:
            status = os.fstat(file.number)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_SEAL_BYTES:
                raise StoreError(f"{self.root}: {SEAL} is no seal of a store (no file, or too large); convert again")
            return _read(file, 0, status.st_size)
        except OSError as error:
            raise self._unreadable(error, SEAL) from error

    def compare(self, files: Listed) -> None:
        """Compare existing files with those in the seal, and record their identity; raises DamagedStore."""
        for name, (size, _) in files.items():
            try:
                facts = self._folder.facts(name)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise DamagedStore(f"{self.root}: {name} is missing; {ADVICE}") from error
            except OSError as error:
                raise self._unreadable(error, name) from error
            self._check_size(name, facts, size)
            self._identities[name] = _identity(facts)
        self._listed = files

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}

        def refuse(error: OSError) -> None:
            raise self._unreadable(error, os.fsdecode(error.filename or "the folder"))

        for name in self._folder.names(refuse):
            with suppress(FileNotFoundError):  # a link to nothing
                sizes[name] = self._folder.facts(name).st_size
        return sizes

    def read(self, name: str, offset: int, length: int) -> bytes:
        size = self.size(name)
        if not 0 <= offset <= size or not 0 <= length <= size - offset:
            raise DamagedStore(f"{self.root}: {name} has {size} bytes, expected {offset + length} or more; {ADVICE}")
        # The reference is kept: a closed file's number may be reused. What is read whole is not read again.
        file = self._opened(name) if length == size else self.open(name)
        try:
            content = _read(file, offset, length)
        except OSError as error:
            raise self._unreadable(error, name) from error
        if len(content) != length:
            raise DamagedStore(f"{self.root}: {name} ends at {offset + len(content)}, expected {size} bytes; {ADVICE}")
        return content

    def open_ranges(self, wanted: Sequence[Ranges]) -> list[RangeReader]:
        """Open the files; nothing is read."""
        files = [self.open(ranges.name) for ranges in wanted]
        return [RangeReader(file.number, ranges.offsets, file) for file, ranges in zip(files, wanted, strict=True)]

    def announce(self, ranges: Ranges) -> None:
        """Say which ranges of a file, ascending, will be read: a disk works on all of them, not on one per thread."""
        file, ends = self.open(ranges.name), ranges.offsets + ranges.lengths
        apart = np.flatnonzero(ranges.offsets[1:] != ends[:-1])
        starts, stops = ranges.offsets[np.append(0, apart + 1)], ends[np.append(apart, -1)]
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            file.announce(start, stop - start)

    def open(self, name: str) -> Descriptor:
        kept = self._kept_here()
        with kept.lock:
            file = kept.files.get(name)
            if file is not None:
                kept.files.move_to_end(name)
                return file
        opened = self._opened(name)
        with kept.lock:
            file = kept.files.setdefault(name, opened)
            while len(kept.files) > self._limit:
                kept.files.popitem(last=False)
        return file

    def check_size(self, name: str) -> None:
        self._check_size(name, os.fstat(self.open(name).number), self.size(name))

    def forget(self) -> None:
        """Close the files that are no longer referenced."""
        kept = self._kept_here()
        with kept.lock:
            kept.files.clear()

    def release(self) -> None:
        """Close the folder as well: for stores without number."""
        self.forget()
        self._open_folder = None

    def _kept_here(self) -> _Kept:
        kept = self._kept
        if kept.process != os.getpid():  # a lock held by another thread during a fork stays locked in the child
            kept = self._kept = _Kept()
        return kept

    def _file(self, name: str) -> Descriptor:
        folder = self._folder
        return with_room(lambda: folder.open(name))

    def _opened(self, name: str) -> Descriptor:
        try:
            file = self._file(name)
            self._check_identity(name, file)
        except FileNotFoundError as error:
            raise DamagedStore(f"{self.root}: {name} has vanished since the store was opened; {ADVICE}") from error
        except OSError as error:
            raise self._unreadable(error, name) from error
        return file

    def _check_identity(self, name: str, file: Descriptor) -> None:
        status = os.fstat(file.number)
        size, digest = self._listed[name]
        self._check_size(name, status, size)
        if _identity(status) == self._identities[name]:
            return
        # DVC may recreate its cache links while a store is read: the same bytes in another file.
        with os.fdopen(file.number, "rb", closefd=False) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise DamagedStore(
                    f"{self.root}: {name} was replaced or changed since the store was opened; open it again"
                )
        self._identities[name] = _identity(status)

    def _check_size(self, name: str, facts: os.stat_result, size: int) -> None:
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
            what = f"has {facts.st_size} bytes, expected {size}" if stat.S_ISREG(facts.st_mode) else "is no file"
            raise DamagedStore(f"{self.root}: {name} {what}; {ADVICE}")

    def _unreadable(self, error: OSError, name: str) -> StoreError:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return StoreError(
                f"{self.root}: {name} cannot be opened: this process has its limit of {most_open_files()} files open; "
                "raise it with 'ulimit -n', or convert with a larger store.shard_rows"
            )
        return StoreError(f"{self.root}: {name} cannot be read: {error.strerror or error}")


Identity = tuple[int, int, int]
Opened = TypeVar("Opened")


def _identity(status: os.stat_result) -> Identity:
    """What distinguishes a file from one that replaced it, or from its state before a write."""
    return status.st_dev, status.st_ino, status.st_mtime_ns


def with_room(opening: Callable[[], Opened]) -> Opened:
    """The result of opening a file; if the process may open no more, what all stores keep open is closed first."""
    for close in (LocalFiles.forget, LocalFiles.release):
        try:
            return opening()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        for reference in _ALL.valuerefs():  # one step for the interpreter: other threads may open stores
            if number := reference():
                close(number)
    return opening()


def open_limit() -> int:
    """Most files of a store that are kept open."""
    limit = most_open_files()
    return OPEN_FILES if limit is None else max(1, min(OPEN_FILES, limit // 4))


def _way(place: Path) -> str:
    """How to get a store that is not there."""
    if project_of(place):
        return "run 'dvc repro' to convert, or 'dvc pull' to fetch it"
    return "check the path, or convert raw files into it ('outofcore convert')"


def _read(file: Descriptor, offset: int, length: int) -> bytes:
    """Bytes from an offset; fewer only at the end of the file."""
    content = file.read(offset, length)
    while 0 < len(content) < length:  # one system call reads at most two gigabytes
        more = file.read(offset + len(content), length - len(content))
        if not more:
            break
        content += more
    return content


class _Kept:
    """The open files of one process, most recently used last."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.files: OrderedDict[str, Descriptor] = OrderedDict()


_ALL: weakref.WeakValueDictionary[int, LocalFiles] = weakref.WeakValueDictionary()
