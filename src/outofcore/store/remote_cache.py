"""A folder on this machine that keeps what was read of stores in object storage.

A store is one file, named by its digest: a byte per piece of 256 KiB of its shards, 1 once the piece is there, and then
the pieces; those that are missing are holes. Threads and processes share it without locks: a piece is written before
its byte, and all write the same. A piece that a power cut has lost nevertheless fails the checksum of its chunk, and is
fetched again.

Nothing is evicted. An epoch reads each chunk once, so that of a store that does not fit each piece would be evicted
before it is read again.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from stat import S_ISREG

import numpy as np

from outofcore.display.console import visible
from outofcore.errors import ParamsError, StoreError
from outofcore.settings.machine import load_machine
from outofcore.settings.sizes import format_bytes
from outofcore.store.files import IN_MEMORY, Listed, RangeReader, Ranges
from outofcore.store.remote import RemoteFiles
from outofcore.store.seal import Seal
from outofcore.system.descriptors import Descriptor
from outofcore.system.durable import sync_folder

PIECE = 256 << 10
RUN = 4  # most pieces of a request
_UNCOUNTED = 64 << 20  # bytes that a store adds at most before the folder is listed again
HELD = 32  # most pieces in memory, of all stores together
MARKER = "outofcore-cache"  # in a folder that is ours
_OURS = re.compile(r"[0-9a-f]{64}\.pieces")
_ALIGNED = 4096

_Run = tuple[str, int, int]  # object, and its pieces
_CHANGED = threading.Condition()
_FETCHING: set[tuple[Path, int]] = set()  # pieces, by the store's file in the cache


class CachedFiles(RemoteFiles):
    """Reads ranges of a store's shards in whole pieces, kept in the folder that the settings of this machine name.

    What the folder lacks once it is full, or fails, is read from the storage; without a folder everything is.
    """

    def __init__(self, address: str, listed: Listed | None = None, tags: Mapping[str, str] | None = None) -> None:
        super().__init__(address, listed, tags)
        self._machine = load_machine()
        self.fetching = HELD * PIECE if self._machine.s3_cache else 0
        self._first: dict[str, int] = {}  # number of the first piece of each shard; none without a cache
        self._map: mmap.mmap | bytes = b""
        self._ended = False  # nothing more is kept
        self._allowed = 0  # bytes that may be added before the stores of the folder are counted again
        if listed:
            self._open()

    def compare(self, files: Listed) -> None:
        super().compare(files)
        if not self._first:
            self._open()

    def _open(self) -> None:
        if self._machine.s3_cache is None or not hasattr(os, "pwrite"):  # Windows writes at no offset
            return
        names = sorted(name for name in self._listed if name.rpartition("/")[2].startswith("c."))
        *firsts, count = accumulate((-(-self.size(name) // PIECE) for name in names), initial=0)
        self._folder = self._machine.s3_cache.absolute()
        self._path = self._folder / f"{Seal(self._listed).digest}.pieces"
        self._begin = -(-(count + 1) // _ALIGNED) * _ALIGNED  # of the first piece
        with self._ending():
            self._folder.mkdir(parents=True, exist_ok=True)
            if not _names(self._folder):
                (self._folder / MARKER).touch()
                sync_folder(self._folder)  # before there is a store, which without it would be somebody else's file
            self._file = Descriptor(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
            os.pwrite(self._file.number, b"\0", self._begin - 1)  # what another process has written is not cut
            self._map = mmap.mmap(self._file.number, self._begin, access=mmap.ACCESS_READ)
            self._first = dict(zip(names, firsts, strict=True))

    def read(self, name: str, offset: int, length: int) -> bytes:
        """The same, of a shard from its pieces."""
        if name in self._first and offset + length <= self.size(name):
            span = self._span(name, offset, length)
            self._bring([(name, *span)], map)
            with suppress(OSError):  # of a disk that fails
                if self._has(*span) and len(content := self._file.read(self._place(name) + offset, length)) == length:
                    return content
        return super().read(name, offset, length)

    def open_ranges(self, wanted: Sequence[Ranges]) -> list[RangeReader]:
        """Bring the pieces of the ranges into the cache; into memory only what it does not take."""
        self._require_same_process()
        if not self._first:
            return super().open_ranges(wanted)
        spans = [self._spans(ranges) for ranges in wanted]
        self._bring(
            [(ranges.name, *span) for ranges, own in zip(wanted, spans, strict=True) for span in own], self._pool.map
        )
        readers, lacking = [], []
        for ranges, own in zip(wanted, spans, strict=True):
            readers.append(RangeReader(self._file.number, ranges.offsets + self._place(ranges.name), self._file))
            if not all(cached := [self._has(*span) for span in own]):
                lacking.append((ranges, ~np.array(cached), readers[-1]))
        some = [Ranges(ranges.name, ranges.offsets[absent], ranges.lengths[absent]) for ranges, absent, _ in lacking]
        for (_, absent, reader), fetched in zip(lacking, super().open_ranges(some), strict=True):
            reader.source = np.where(absent, IN_MEMORY, self._file.number)
            reader.places[absent] = fetched.places
            reader.owners = self._file, fetched.owners
        return readers

    def drop(self, name: str, offset: int, length: int) -> bool:
        """Forget the pieces of a range; True of a shard, as another thread may have dropped what this one has read."""
        if name in self._first:
            first, stop = self._span(name, offset, length)
            with self._ending():
                os.pwrite(self._file.number, bytes(stop - first), first)
        return name in self._first

    def _place(self, name: str) -> int:
        """Offset of an object in the file."""
        return self._begin + self._first[name] * PIECE

    def _span(self, name: str, offset: int, length: int) -> tuple[int, int]:
        """The pieces of a range."""
        first = self._first[name]
        return first + offset // PIECE, first + -(-(offset + length) // PIECE)

    def _spans(self, ranges: Ranges) -> list[tuple[int, int]]:
        pairs = zip(ranges.offsets.tolist(), ranges.lengths.tolist(), strict=True)
        return [self._span(ranges.name, *pair) for pair in pairs]

    def _has(self, first: int, stop: int) -> bool:
        return 0 not in self._map[first:stop]

    def _bring(
        self, spans: Iterable[_Run], apply: Callable[[Callable[[_Run], None], Iterable[_Run]], Iterable[None]]
    ) -> None:
        """Fetch the pieces that are missing, neighbours together."""
        if self._ended:
            return
        missing = {piece: name for name, *span in spans for piece in range(*span) if not self._map[piece]}
        runs: list[_Run] = []
        for piece in sorted(missing):
            if runs and runs[-1][::2] == (missing[piece], piece) and piece - runs[-1][1] < RUN:
                runs[-1] = *runs[-1][:2], piece + 1
            else:
                runs.append((missing[piece], piece, piece + 1))
        list(apply(self._fill, runs))

    def _fill(self, run: _Run) -> None:
        """Fetch pieces, but for those that another thread has fetched meanwhile; it waits only for running ones."""
        name, first, stop = run
        own = {(self._path, piece) for piece in range(first, stop)}
        with _CHANGED:
            _CHANGED.wait_for(lambda: not own & _FETCHING and len(_FETCHING) + len(own) <= HELD)
            missing = [piece for piece in range(first, stop) if not self._map[piece]]
            if not missing or self._ended or not self._has_room(len(missing)):
                return
            _FETCHING.update(own)
        try:
            first, stop = missing[0], missing[-1] + 1
            offset = (first - self._first[name]) * PIECE
            content = self._fetch((name, offset, min(offset + (stop - first) * PIECE, self.size(name))))
            with self._ending():
                if os.pwrite(self._file.number, content, self._begin + first * PIECE) == len(content):
                    os.pwrite(self._file.number, b"\1" * (stop - first), first)
        finally:
            with _CHANGED:
                _FETCHING.difference_update(own)
                _CHANGED.notify_all()

    def _has_room(self, pieces: int) -> bool:
        """Whether so many pieces may be added; once not, never again."""
        with self._ending():
            limit = self._machine.s3_cache_limit
            size, disk = (pieces + len(_FETCHING)) * PIECE, shutil.disk_usage(self._folder)
            if (
                self._allowed < pieces * PIECE
            ):  # others add to the folder too, so that what is left is not given at once
                left = limit - sum(_stored(self._folder).values()) - size
                self._allowed = pieces * PIECE + min(left // 4, _UNCOUNTED) if left >= 0 else 0
            self._allowed -= pieces * PIECE
            if not os.fstat(self._file.number).st_nlink:
                self._end("was cleared")
            elif self._allowed < 0:
                self._end(f"is full: s3_cache_limit is {format_bytes(limit)}, 'outofcore clear-cache' empties it")
            elif disk.free - size < min(self._machine.disk_reserve, disk.total // 20):
                self._end(f"is full: {format_bytes(disk.free)} of the disk are free, and disk_reserve stays free")
        return not self._ended

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the caching, not the reading, where the system refuses it."""
        try:
            yield
        except (OSError, StoreError) as error:
            self._end(f"cannot be used ({getattr(error, 'strerror', error)})")

    def _end(self, why: str) -> None:
        with _CHANGED:
            if not self._ended:
                where = visible(str(self._folder))
                sys.stderr.write(f"note: the cache {where} {why}; the rest of {self.root} is not kept\n")
            self._ended = True


def clear(folder: Path) -> tuple[int, int]:
    """Remove all stores from a cache; returns how many, and the bytes freed. Raises ParamsError if it is not ours."""
    if not folder.exists() or not _names(folder):
        return 0, 0
    stored = _stored(folder)
    for path in stored:
        path.unlink(missing_ok=True)
    if _names(folder) == {MARKER}:
        (folder / MARKER).unlink()
    return len(stored), sum(stored.values())


def _names(folder: Path) -> set[str]:
    """What is in a folder; raises ParamsError if there are files but no marker of ours."""
    names = {path.name for path in folder.iterdir()}
    if names and MARKER not in names:
        raise ParamsError(
            f"s3_cache: {folder} holds other files, such as {min(names)!r}; name an empty or a new folder"
        )
    return names


def _stored(folder: Path) -> dict[Path, int]:
    """The stores in a cache, and the bytes of each on the disk."""
    statuses = {path: path.lstat() for path in folder.iterdir() if _OURS.fullmatch(path.name)}
    return {path: facts.st_blocks * 512 for path, facts in statuses.items() if S_ISREG(facts.st_mode)}
