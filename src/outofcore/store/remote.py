"""The files of a store in an object storage, read by ranges.

What is read together is asked for together: neighbouring ranges become one request, and requests go out side by side,
so that a pool of chunks costs a few round trips and not one for each chunk. Failed requests are repeated by the client
(obstore, the extra ``s3``), at growing intervals, and then end as one line.

Credentials and the endpoint come from the environment, by the names that Amazon's own tools use: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ENDPOINT_URL`` for a storage elsewhere, ``AWS_SKIP_SIGNATURE=true`` for
one that is open to all. The role of a machine or of a container is asked for only where the environment names who gives
it out: a machine without one would keep its user waiting for an answer that does not come.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.files import IN_MEMORY, Item, Ranges, Reached
from outofcore.store.seal import ADVICE, SEAL

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = TypeVar("Answer")
# A gap that is read to save a request: of a round trip of 20 ms, shared with 31 others, it is about half at 100 MB/s.
GAP_BYTES = 32 << 10
# A longer run of ranges is read in several requests, side by side.
REQUEST_BYTES = 4 << 20
IN_FLIGHT = 32
RETRIES = 6
FIRST_PAUSE = 0.1
REQUEST_SECONDS = 30
RETRY_SECONDS = 120
# Any of these says who the reader is.
IDENTITIES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
)


_WHO = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of a user that may read it, AWS_SKIP_SIGNATURE=true for a public "
    "bucket, or AWS_METADATA_ENDPOINT=http://169.254.169.254 for the role of this machine"
)


def url_of(path: str | Path) -> str | None:
    """The address of a store in an object storage, or None for a path; a ``Path`` has lost one of the slashes."""
    found = re.fullmatch(r"s3:/{1,2}([^/]+)/+(.*[^/])/*", str(path))
    return f"s3://{found[1]}/{found[2]}" if found else None


@dataclass
class Traffic:
    """What was asked of the storage.

    Attributes
    ----------
    requests
        Requests that were answered; repeated ones count once.
    bytes
        Bytes received, gaps between ranges included.
    """

    requests: int = 0
    bytes: int = 0


class RemoteFiles:
    """Reads ranges of a store's objects.

    Parameters
    ----------
    root
        ``s3://bucket/folder``.
    listed
        What the seal lists, with sizes and digests; filled by :meth:`compare`.

    Attributes
    ----------
    traffic
        Requests and bytes so far.
    """

    def __init__(self, root: str, listed: Mapping[str, tuple[int, str]] | None = None) -> None:
        self.root = root
        self.traffic = Traffic()
        self._listed = dict(listed or {})
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._obstore = imported(root)
        self._store = connect(root)
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="requests")

    def __getstate__(self) -> tuple[str, Mapping[str, tuple[int, str]]]:
        return self.root, self._listed

    def __setstate__(self, state: tuple[str, Mapping[str, tuple[int, str]]]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copy in another process makes its own connections

    def seal(self) -> bytes:
        """The content of the seal.

        Raises
        ------
        StoreError
            If there is none, or no access.
        """
        with self._told(SEAL):
            try:
                return bytes(self._obstore.get(self._store, SEAL).bytes())
            except FileNotFoundError as error:
                message = f"{self.root}: there is no sealed store at this address ({SEAL} or the bucket is missing)"
                raise StoreError(message) from error

    def compare(self, files: Mapping[str, tuple[int, str]]) -> None:
        """Compare the objects that there are with what the seal lists.

        Raises
        ------
        DamagedStore
            If one is missing or of another size.
        """
        self._listed = dict(files)
        with self._told("the list of objects"):
            found = listed(self._obstore, self._store)
        self._count(1 + len(found) // 1000, 0)
        for name, (size, _) in files.items():
            if found.get(name) != size:
                what = f"has {found[name]} bytes, expected {size}" if name in found else "is missing"
                message = f"{self.root}: {name} {what}; {ADVICE}"
                raise DamagedStore(message)

    def exists(self, name: str) -> bool:
        """Whether the seal lists the file."""
        return name in self._listed

    def path(self, name: str) -> Path:
        """Refuses: only files on this machine can be mapped."""
        message = f"{self.root}: {name} cannot be mapped into memory from there; use residency 'streamed' or 'hybrid'"
        raise StoreError(message)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of an object from an offset.

        Raises
        ------
        DamagedStore
            If the object ends before, or is gone.
        StoreError
            If the storage does not answer, after :data:`RETRIES` retries.
        """
        return bytes(self._fetch((name, offset, offset + length)))

    def reach(self, wanted: Sequence[Ranges]) -> list[Reached]:
        """Fetch the ranges into memory, all requests side by side."""
        joined = [coalesced(ranges) for ranges in wanted]
        runs = [(ranges.name, *run) for ranges, runs in zip(wanted, joined, strict=True) for run in runs]
        fetched = iter(self._pool.map(self._fetch, runs) if len(runs) > 1 else map(self._fetch, runs))
        found = []
        for ranges, own in zip(wanted, joined, strict=True):
            parts = [np.frombuffer(next(fetched), np.uint8) for _ in own]
            origins = np.array([part.ctypes.data for part in parts], np.int64)
            starts = np.array([start for start, _ in own], np.int64)
            run = np.maximum(np.searchsorted(starts, ranges.offsets, side="right") - 1, 0)
            places = origins[run] + ranges.offsets - starts[run] if own else ranges.offsets
            found.append(Reached(IN_MEMORY, places, parts))
        return found

    def each(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Do the work for all items side by side; it must not call :meth:`each` or :meth:`reach`."""
        for _ in self._pool.map(work, items):
            pass

    def _fetch(self, run: tuple[str, int, int]) -> Any:
        name, start, stop = run
        with self._told(name):
            try:
                content = self._obstore.get_range(self._store, name, start=start, end=stop)
            except FileNotFoundError as error:
                message = f"{self.root}: {name} has vanished; {ADVICE}"
                raise DamagedStore(message) from error
        self._count(1, len(content))
        if len(content) != stop - start:
            message = f"{self.root}: {name} ends at {start + len(content)}, expected {stop} bytes or more; {ADVICE}"
            raise DamagedStore(message)
        return content

    def _count(self, requests: int, size: int) -> None:
        with self._lock:
            self.traffic.requests += requests
            self.traffic.bytes += size

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        if self._process != os.getpid():
            message = f"{self.root}: connections do not survive a fork; start workers with 'spawn' or 'forkserver'"
            raise StoreError(message)
        try:
            yield
        except self._obstore.exceptions.BaseError as error:
            raise StoreError(what_failed(self.root, name, error)) from error


def repeated(client: Any, request: Callable[[], Answer]) -> Answer:
    """The answer to a request that the client does not repeat by itself when it fails."""
    for retry in range(RETRIES):
        try:
            return request()
        except client.exceptions.GenericError:
            time.sleep(FIRST_PAUSE * 2**retry)
    return request()


def listed(client: Any, connection: Any) -> dict[str, int]:
    """Sizes of all objects, by name."""
    return repeated(client, lambda: {each["path"]: each["size"] for page in client.list(connection) for each in page})


def coalesced(ranges: Ranges) -> list[tuple[int, int]]:
    """Ascending ranges to read that cover the given ones, which need not be in order and do not overlap."""
    order = np.argsort(ranges.offsets, kind="stable")
    order = order[ranges.lengths[order] > 0]
    runs: list[tuple[int, int]] = []
    for start, length in zip(ranges.offsets[order].tolist(), ranges.lengths[order].tolist(), strict=True):
        stop = start + length
        if runs and start - runs[-1][1] <= GAP_BYTES and stop - runs[-1][0] <= REQUEST_BYTES:
            runs[-1] = runs[-1][0], stop
        else:
            runs.append((start, stop))
    return runs


def what_failed(root: str, name: str, error: Exception, verb: str = "read") -> str:
    """One line on a request that was refused or failed for good; ``verb`` says what was to be done with the object."""
    kind, text = type(error).__name__, " ".join(str(error).split("Debug source")[0].split())
    if kind in {"PermissionDeniedError", "UnauthenticatedError"} or "403" in text or "credential" in text.lower():
        return f"{root}: no access to {name}: {_WHO} ({text[:200]})"
    if "NoSuchBucket" in text or "bucket does not exist" in text:
        return f"{root}: there is no such bucket; make it, or name another"
    return (
        f"{root}: {name} could not be {verb} after {RETRIES} retries ({text[:300]}); run again when the storage answers"
    )


def imported(root: str) -> Any:
    """The client; a StoreError where it is not installed."""
    try:
        return import_module("obstore")
    except ImportError as error:
        message = f"{root}: stores in an object storage need obstore: pip install 'outofcore[s3]'"
        raise StoreError(message) from error


def connect(root: str) -> Any:
    """The client's connections to a folder; a StoreError where the environment does not say who asks."""
    if not any(os.environ.get(name) for name in IDENTITIES):
        message = f"{root}: nothing in the environment says who you are: {_WHO}"
        raise StoreError(message)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    try:
        return import_module("obstore.store").from_url(
            root,
            client_options={
                "timeout": timedelta(seconds=REQUEST_SECONDS),
                "connect_timeout": timedelta(seconds=10),
                "allow_http": endpoint.startswith("http:"),
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
        )
    except Exception as error:  # obstore has no error of its own for settings that it cannot read
        message = f"{root}: {' '.join(str(error).split())}"
        raise StoreError(message) from error
