"""Files of a store in object storage, read by ranges.

Ranges read together are requested together: neighbouring ranges become one request, and requests are concurrent, so
that a pool of chunks costs a few round trips. All stores of a process share :data:`IN_FLIGHT` threads for requests.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.connection import FIRST_PAUSE, connect, imported, kind_of, listed, shown, what_failed
from outofcore.store.files import IN_MEMORY, REPLACED, Files, Item, RangeReader, Ranges
from outofcore.store.seal import SEAL, read_seal
from outofcore.system.descriptors import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

# Gap read to save a request: at 100 MB/s, about half of a 20 ms round trip shared with 31 others.
GAP_BYTES = 32 << 10
# A longer run of ranges is read in several concurrent requests.
REQUEST_BYTES = 4 << 20
IN_FLIGHT = 32
SHORT_ANSWERS = 4  # a proxy may have cut one
ADVICE = "convert again, or put a whole copy of the store there"


class RemoteFiles(Files):
    """Reads ranges of a store's objects."""

    def __init__(
        self, address: str, listed: Mapping[str, tuple[int, str]] | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        self.root = shown(address)
        self._address = address
        self.at_once = sys.maxsize
        self._listed = dict(listed or {})
        self._tags = dict(tags or {})  # of the objects that were listed; other objects are another store's
        self._seal_tag: str | None = None
        self._process = os.getpid()
        self._obstore = imported(address)
        self._store = connect(address)
        self._pool = _requests(self._process)
        self._listing: Future[dict[str, Any]] | None = None
        self._lists = kind_of(address).lists

    def __getstate__(self) -> tuple[Any, ...]:
        return self._address, self._listed, self._tags

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copy in another process makes its own connections

    def seal(self) -> bytes:
        if self._lists:
            self._listing = self._pool.submit(self._objects)  # for compare(), meanwhile
        answer = self._get(SEAL)
        if answer is None:
            raise StoreError(f"{self.root}: there is no sealed store at this address ({SEAL} or the bucket is missing)")
        self._sealed, self._seal_tag = bytes(answer[0]), answer[1]
        return self._sealed

    def compare(self, files: Mapping[str, tuple[int, str]]) -> None:
        if self._listed and self._listed != files:
            raise StoreError(f"{self.root}: {REPLACED}")
        self._listed = dict(files)
        objects = self._listing.result() if self._listing else self._objects()
        self._listing = None
        tag = objects.get(SEAL, {}).get("e_tag")  # some storages list none
        if self._seal_tag and tag and tag.strip('"') != self._seal_tag.strip('"'):
            raise StoreError(f"{self.root}: {REPLACED}")
        sizes = {name: facts["size"] for name, facts in objects.items()}
        self._tags = {name: facts["e_tag"] for name, facts in objects.items() if facts.get("e_tag")}
        for name, (size, _) in files.items():
            if sizes.get(name) != size:
                what = f"has {sizes[name]} bytes, expected {size}" if name in sizes else "is missing"
                raise DamagedStore(f"{self.root}: {name} {what}; {ADVICE}")

    def sizes(self) -> dict[str, int]:
        return {name: facts["size"] for name, facts in self._objects().items()}

    def _objects(self) -> dict[str, Any]:
        if not self._lists:
            names = [SEAL, *read_seal(self._sealed, self.root).files]
            return {name: facts for name, facts in zip(names, self._pool.map(self._head, names), strict=True) if facts}
        with self._one_line("the list of objects"):
            return listed(self._obstore, self._store)

    def _head(self, name: str) -> Any:
        """Size and version of an object; None if there is none."""
        with self._one_line(name):
            try:
                return self._obstore.head(self._store, name)
            except FileNotFoundError:
                return None

    def open(self, name: str) -> Descriptor:
        """Raise StoreError: only local files can be mapped."""
        raise StoreError(f"{self.root}: {name} cannot be mapped into memory from there; use residency 'streamed'")

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of an object from an offset; raises DamagedStore, StoreError after :data:`RETRIES` retries."""
        return bytes(self._fetch((name, offset, offset + length)))

    def pin(self, name: str, length: int, *, at_end: bool) -> bytes:
        """The first or last bytes of an object that no seal lists; what is read of it later is of the same version."""
        answer = self._get(name, range={"suffix": length} if at_end else (0, length))
        if answer is None:
            raise DamagedStore(f"{self.root}: {name} is missing")
        content, tag = answer
        if tag and not tag.startswith("W/"):  # a weak one matches nothing
            self._tags[name] = tag
        return bytes(content)

    def whole(self, names: Sequence[str]) -> list[Any]:
        """The contents of objects that no seal lists, requested together; b"" for one that is missing."""
        self._require_same_process()
        return [answer[0] if answer else b"" for answer in self._pool.map(self._get, names)]

    def open_ranges(self, wanted: Sequence[Ranges]) -> list[RangeReader]:
        """Fetch the ranges into memory, all requests concurrently."""
        self._require_same_process()
        joined = [coalesced(ranges) for ranges in wanted]
        runs = [(ranges.name, *run) for ranges, runs in zip(wanted, joined, strict=True) for run in runs]
        fetched = iter(self._pool.map(self._fetch, runs) if len(runs) > 1 else map(self._fetch, runs))
        readers = []
        for ranges, own in zip(wanted, joined, strict=True):
            parts = [np.frombuffer(next(fetched), np.uint8) for _ in own]
            origins = np.array([part.ctypes.data for part in parts], np.int64)
            starts = np.array([start for start, _ in own], np.int64)
            run = np.maximum(np.searchsorted(starts, ranges.offsets, side="right") - 1, 0)
            places = origins[run] + ranges.offsets - starts[run] if own else ranges.offsets
            readers.append(RangeReader(IN_MEMORY, places, parts))
        return readers

    def for_each(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call the function for all items in parallel; it must not call :meth:`for_each` or :meth:`open_ranges`."""
        self._require_same_process()
        for _ in self._pool.map(work, items):
            pass

    def _fetch(self, run: tuple[str, int, int]) -> Any:
        name, start, stop = run
        version = {"if_match": self._tags[name]} if name in self._tags else {}
        for retry in range(SHORT_ANSWERS):
            answer = self._get(name, range=(start, stop), **version)
            if answer is None:
                raise DamagedStore(f"{self.root}: {name} has vanished; {ADVICE}")
            content, _ = answer
            if len(content) == stop - start:
                return content
            time.sleep(FIRST_PAUSE * 2**retry)
        raise DamagedStore(
            f"{self.root}: {name} ends at {start + len(content)}, expected {stop} bytes or more; {ADVICE}"
        )

    def _get(self, name: str, **options: Any) -> tuple[Any, str | None] | None:
        """The bytes of an object or a range of it, and its version; None if there is none."""
        with self._one_line(name):
            try:
                answer = self._obstore.get(self._store, name, options=options)
                return answer.bytes(), answer.meta["e_tag"]
            except FileNotFoundError:
                return None
            except self._obstore.exceptions.PreconditionError as error:
                raise StoreError(f"{self.root}: {REPLACED}") from error

    def _require_same_process(self) -> None:
        if self._process != os.getpid():
            raise StoreError(
                f"{self.root}: connections do not survive a fork; start workers with 'spawn' or 'forkserver'"
            )

    @contextmanager
    def _one_line(self, name: str) -> Iterator[None]:
        self._require_same_process()
        try:
            yield
        except self._obstore.exceptions.BaseError as error:
            raise StoreError(
                what_failed(str(self.root), name, error)
            ) from None  # whose text may hold the whole address


@cache
def _requests(process: int) -> ThreadPoolExecutor:
    """The threads of a process that wait for storages, of all stores together; a fork has none of them."""
    del process
    return ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="requests")


def coalesced(ranges: Ranges) -> list[tuple[int, int]]:
    """Ascending ranges to read, of which the last that begins before a given range, or with it, holds all of it."""
    order = np.argsort(ranges.offsets, kind="stable")
    order = order[ranges.lengths[order] > 0]
    runs: list[tuple[int, int]] = []
    for start, length in zip(ranges.offsets[order].tolist(), ranges.lengths[order].tolist(), strict=True):
        stop = start + length
        first, end = runs[-1] if runs else (-1, -1)
        if stop <= end or (runs and start - end <= GAP_BYTES and stop - first <= REQUEST_BYTES):
            runs[-1] = first, max(stop, end)
        else:
            runs.append((start, stop))
    return runs
