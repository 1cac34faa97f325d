"""What determines the bytes of a store: the raw files, of one state each, and the versions of what converts them.

With equal versions, equal input gives equal bytes. A change of a raw file during a conversion is detected.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from outofcore.domains.registry import engines, packages
from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile

PACKAGE = Path(__file__).resolve().parents[1]
# The coarsest clock of a filesystem (FAT): two changes within it may leave the same times.
TICK_NS = 2 * 10**9
# To hand a file to another thread takes longer than to digest a small one.
MOST_TASKS = 100


class Inputs:
    """The raw files of a conversion, digested before anything is read from them."""

    def __init__(self, files: Sequence[RawFile], *, threads: int) -> None:
        self.files = files
        self._threads = threads
        self._states = [_state(file) for file in files]
        for file, state in zip(files, self._states, strict=True):
            if state.size != file.bytes:
                raise RawInputError(_changed(file, f"{file.bytes:,} bytes when it was listed, {state.size:,} now"))
        self.digests = self._digests(range(len(files)))

    def check_unchanged(self, numbers: Iterable[int] | None = None) -> None:
        """Raise RawInputError if one of these files, by default of all, has changed.

        Another size or modification time is a change. Another change time alone need not be one, as DVC links files
        anew: such a file is digested again, as is one that was last seen so shortly after it was written that a later
        change may not show in its times. Inodes do not count, since some network filesystems renumber them.
        """
        doubtful = {}
        for number in range(len(self.files)) if numbers is None else numbers:
            file, before, now = self.files[number], self._states[number], _state(self.files[number])
            differs = {"size": now.size != before.size, "modification time": now.modified != before.modified}
            if any(differs.values()):
                names = " and ".join(name for name, value in differs.items() if value)
                raise RawInputError(_changed(file, f"{names} differ from the beginning"))
            fresh = abs(before.seen - max(before.modified, before.changed)) < TICK_NS
            if fresh or now.changed != before.changed:
                doubtful[number] = now
        for number, digest in zip(doubtful, self._digests(list(doubtful)), strict=True):
            if digest != self.digests[number]:
                raise RawInputError(_changed(self.files[number], "its bytes differ from the beginning"))
            self._states[number] = doubtful[number]

    def _digests(self, numbers: Sequence[int]) -> list[str]:
        stopped = threading.Event()
        size = 1 + len(numbers) // MOST_TASKS
        tasks = [numbers[start : start + size] for start in range(0, len(numbers), size)]

        def check() -> None:
            if stopped.is_set():
                raise CancelledError

        with ThreadPoolExecutor(self._threads, thread_name_prefix="digest") as pool:
            try:
                digests = pool.map(lambda task: [_digest(self.files[number], check) for number in task], tasks)
                return list(chain.from_iterable(digests))
            except BaseException:  # Ctrl-C must not wait for whole files
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _State(NamedTuple):
    seen: int  # when the rest was found, in nanoseconds
    size: int
    modified: int  # time of the last write, which programs may set; in nanoseconds
    changed: int  # time of the last write, rename or link, in nanoseconds


def _state(file: RawFile) -> _State:
    seen = time.time_ns()
    try:
        facts = os.stat(file.place)  # noqa: PTH116 - of no Path
    except OSError as error:
        raise _unreadable(file, error) from error
    return _State(seen, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _digest(file: RawFile, check: Callable[[], None]) -> str:
    try:
        return file.digest(check)
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: RawFile, error: OSError) -> RawInputError:
    if isinstance(error, FileNotFoundError):
        return RawInputError(_changed(file, "it is gone"))
    return RawInputError(f"{file.path} cannot be read: {error.strerror or error}; make it readable, and run again")


def _changed(file: RawFile, how: str) -> str:
    return (
        f"{file.path} has changed during the conversion ({how}), so nothing was sealed; run again when nothing "
        "writes to the raw input"
    )


def versions(domain: str) -> dict[str, str]:
    """The package with a digest of its sources, its engines and oracles, and the package that adds the domain."""
    return {**packages(domain), **_own_versions(), **engines(domain)}


@cache
def _own_versions() -> dict[str, str]:
    compiled = {name: metadata.version(name) for name in ("numba", "numpy")}
    return {"outofcore": f"{metadata.version('outofcore')}+{_source_digest()[:12]}", **compiled}


def _source_digest() -> str:
    """SHA-256 over all source files."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(
            f"{path.relative_to(PACKAGE).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return digest.hexdigest()
