"""Detect changes of raw files during a conversion: a sealed store must come from one state of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile

# The coarsest clock of a filesystem (FAT): two changes within it may leave the same times.
TICK_NS = 2 * 10**9


class Inputs:
    """The raw files of a conversion, digested before anything is read from them.

    Raises RawInputError if one is gone or changed since it was listed.
    """

    def __init__(self, files: Sequence[RawFile], *, threads: int) -> None:
        self.files = files
        self._threads = threads
        self._fresh_after = time.time_ns() - TICK_NS
        self._states = [_state(file) for file in files]
        for file, state in zip(files, self._states, strict=True):
            if state.size != file.bytes:
                raise RawInputError(_changed(file, f"{file.bytes:,} bytes when it was listed, {state.size:,} now"))
        self.digests = self._digests(files)

    def check_unchanged(self) -> None:
        """Raise RawInputError if a file has changed.

        Another size or modification time is a change. Another inode or change time alone need not be one: DVC relinks
        files, and network filesystems renumber them. Such a file is digested again, as is one that was written so
        shortly before the conversion that a later change may not show in its times.
        """
        doubtful = []
        for file, before, digest in zip(self.files, self._states, self.digests, strict=True):
            now = _state(file)
            names = {"size": now.size != before.size, "modification time": now.modified != before.modified}
            if any(names.values()):
                other = " and ".join(name for name, differs in names.items() if differs)
                raise RawInputError(_changed(file, f"{other} differ from the beginning"))
            if now != before or max(before.modified, before.changed) > self._fresh_after:
                doubtful.append((file, digest))
        for (file, digest), found in zip(doubtful, self._digests([file for file, _ in doubtful]), strict=True):
            if found != digest:
                raise RawInputError(_changed(file, "its bytes differ from the beginning"))

    def _digests(self, files: Sequence[RawFile]) -> list[str]:
        with ThreadPoolExecutor(self._threads, thread_name_prefix="digest") as pool:
            return list(pool.map(RawFile.digest, files))


class _State(NamedTuple):
    size: int
    modified: int  # time of the last write, which programs may set; in nanoseconds
    changed: int  # time of the last write, rename or link, in nanoseconds
    inode: int


def _state(file: RawFile) -> _State:
    try:
        facts = file.path.stat()
    except FileNotFoundError as error:
        raise RawInputError(_changed(file, "it is gone")) from error
    return _State(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)


def _changed(file: RawFile, how: str) -> str:
    return (
        f"{file.path} has changed during the conversion ({how}), so nothing was sealed; run again when nothing "
        "writes to the raw input"
    )
