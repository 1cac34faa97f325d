"""Files of a store in object storage, read by ranges.

Ranges read together are requested together: neighbouring ranges become one request, and requests are concurrent, so
that a pool of chunks costs a few round trips. The client (obstore, the extra ``s3``) retries failed requests at growing
intervals for about half a minute; a final failure is a one-line error.

Credentials and endpoint come from the environment, by the names that Amazon's tools use: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ENDPOINT_URL`` for another storage, ``AWS_SKIP_SIGNATURE=true`` for a
public one. The role of a machine or container is requested only if the environment names its provider: elsewhere the
request would hang.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.files import IN_MEMORY, REPLACED, Item, Ranges, Reached
from outofcore.store.seal import SEAL
from outofcore.system.descriptors import Descriptor
from outofcore.system.extras import load

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = TypeVar("Answer")
# Gap read to save a request: at 100 MB/s, about half of a 20 ms round trip shared with 31 others.
GAP_BYTES = 32 << 10
# A longer run of ranges is read in several concurrent requests.
REQUEST_BYTES = 4 << 20
IN_FLIGHT = 32
# At least 23 s and at most 28 s of pauses; requests resume at most LONGEST_PAUSE after the storage does.
RETRIES = 15
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
PAUSE_GROWTH = 10  # at most, from one pause to the next: the client draws each at random between FIRST_PAUSE and that
REQUEST_SECONDS = 30
RETRY_SECONDS = 120
# Any of these identifies the reader.
IDENTITIES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
)

SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")

_WHO = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of a user that may read it, AWS_SKIP_SIGNATURE=true for a public "
    "bucket, or AWS_METADATA_ENDPOINT=http://169.254.169.254 for the role of this machine"
)

ADVICE = "convert again, or put a whole copy of the store there"


def url_of(path: str | Path) -> str | None:
    """The address of a store in object storage, or None for a path; restores a slash lost in a ``Path``."""
    scheme = re.match(r"([a-z][a-z0-9+.-]+):/", str(path))
    if scheme and scheme[1] != "s3":
        message = (
            f"{shown(path)}: stores are read from folders and from s3://bucket/folder; copy that of {scheme[1]}:// "
            "to a folder, mount it, or use the storage's S3 endpoint (AWS_ENDPOINT_URL)"
        )
        raise StoreError(message)
    if not scheme:
        return None
    address = re.fullmatch(r"s3:/{1,2}([^/:@]+)/+([^?#]*[^/?#])/*", str(path))
    if not address:
        keys = "; keys do not belong in an address: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        message = f"{shown(path)}: expected s3://bucket/folder{keys if '://***' in shown(path) else ''}"
        raise StoreError(message)
    return f"s3://{address[1]}/{address[2]}"


def is_address(path: str | Path) -> bool:
    """Whether this is the address of a storage, and no path of this machine; ``Path`` drops one slash."""
    return re.match(r"[a-z][a-z0-9+.-]+:/", str(path)) is not None


def shown(path: str | Path) -> str:
    """A path, or an address as it may be printed: without user, password, query or fragment."""
    address = re.fullmatch(r"([a-z][a-z0-9+.-]+):/{1,2}([^?#]*)([?#].*)?", str(path), re.DOTALL)
    if not address:
        return str(path)
    scheme, place, query = address[1], address[2], address[3]
    first = place.partition("/")[0]
    if "@" in first or not re.fullmatch(r"[^:]*|\[.*\](:\d*)?|[^:]*:\d+", first):  # more than a host and its port
        place = f"***@{place.rpartition('@')[2]}" if "@" in place else "***"
    return f"{scheme}://{place}{'?***' if query else ''}"


def without_secrets(text: str) -> str:
    """A client message on one line, without keys from the environment or in addresses."""
    for name in SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, "***")
    return re.sub(r"(?<=://)[^/\s]*@", "***@", " ".join(text.split()))


@dataclass
class Traffic:
    """Requests to the storage."""

    requests: int = 0  # answered; retries count once
    bytes: int = 0  # received, including gaps between ranges


class RemoteFiles:
    """Reads ranges of a store's objects."""

    fetching = 0

    def __init__(
        self, root: str, listed: Mapping[str, tuple[int, str]] | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        self.root = root
        self.at_once = sys.maxsize
        self.traffic = Traffic()
        self._listed = dict(listed or {})
        self._tags = dict(tags or {})  # of the objects that were listed; other objects are another store's
        self._seal_tag: str | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._obstore = imported(root)
        self._store = connect(root)
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="requests")
        self._listing: Future[dict[str, Any]] | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self.root, self._listed, self._tags

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copy in another process makes its own connections

    def seal(self) -> bytes:
        """Content of the seal; raises StoreError if it is missing or inaccessible."""
        self._listing = self._pool.submit(self._objects)  # for compare(), meanwhile
        with self._one_line(SEAL):
            try:
                answer = self._obstore.get(self._store, SEAL)
                self._seal_tag = answer.meta["e_tag"]
                return bytes(answer.bytes())
            except FileNotFoundError as error:
                message = f"{self.root}: there is no sealed store at this address ({SEAL} or the bucket is missing)"
                raise StoreError(message) from error

    def compare(self, files: Mapping[str, tuple[int, str]]) -> None:
        """Compare existing objects with those in the seal; raises DamagedStore if one is missing or differs."""
        if self._listed and self._listed != files:
            message = f"{self.root}: {REPLACED}"
            raise StoreError(message)
        self._listed = dict(files)
        objects = self._listing.result() if self._listing else self._objects()
        self._listing = None
        if self._seal_tag and SEAL in objects and objects[SEAL]["e_tag"] != self._seal_tag:
            message = f"{self.root}: {REPLACED}"
            raise StoreError(message)
        found = {name: each["size"] for name, each in objects.items()}
        self._tags = {name: each["e_tag"] for name, each in objects.items() if each["e_tag"]}
        for name, (size, _) in files.items():
            if found.get(name) != size:
                what = f"has {found[name]} bytes, expected {size}" if name in found else "is missing"
                message = f"{self.root}: {name} {what}; {ADVICE}"
                raise DamagedStore(message)

    def found(self) -> dict[str, int]:
        return {name: each["size"] for name, each in self._objects().items()}

    def _objects(self) -> dict[str, Any]:
        with self._one_line("the list of objects"):
            found = listed(self._obstore, self._store)
        self._count(1 + len(found) // 1000, 0)
        return found

    def exists(self, name: str) -> bool:
        return name in self._listed

    def size(self, name: str) -> int:
        return self._listed[name][0]

    def open(self, name: str) -> Descriptor:
        """Raise StoreError: only local files can be mapped."""
        message = f"{self.root}: {name} cannot be mapped into memory from there; use residency 'streamed' or 'hybrid'"
        raise StoreError(message)

    def check_size(self, name: str) -> None:
        """Do nothing: only the object that was listed is ever read."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of an object from an offset; raises DamagedStore, StoreError after :data:`RETRIES` retries."""
        return bytes(self._fetch((name, offset, offset + length)))

    def reach(self, wanted: Sequence[Ranges]) -> list[Reached]:
        """Fetch the ranges into memory, all requests concurrently."""
        self._require_same_process()
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
        """Call the function for all items in parallel; it must not call :meth:`each` or :meth:`reach`."""
        self._require_same_process()
        for _ in self._pool.map(work, items):
            pass

    def drop(self, name: str, offset: int, length: int) -> bool:
        """Do nothing: there is no copy."""
        del name, offset, length
        return False

    def _fetch(self, run: tuple[str, int, int]) -> Any:
        name, start, stop = run
        with self._one_line(name):
            try:
                tag = {"if_match": self._tags[name]} if name in self._tags else {}
                options = {"range": (start, stop), **tag}
                content = self._obstore.get(self._store, name, options=options).bytes()
            except FileNotFoundError as error:
                message = f"{self.root}: {name} has vanished; {ADVICE}"
                raise DamagedStore(message) from error
            except self._obstore.exceptions.PreconditionError as error:
                message = f"{self.root}: {REPLACED}"
                raise StoreError(message) from error
        self._count(1, len(content))
        if len(content) != stop - start:
            message = f"{self.root}: {name} ends at {start + len(content)}, expected {stop} bytes or more; {ADVICE}"
            raise DamagedStore(message)
        return content

    def _count(self, requests: int, size: int) -> None:
        with self._lock:
            self.traffic.requests += requests
            self.traffic.bytes += size

    def _require_same_process(self) -> None:
        if self._process != os.getpid():
            message = f"{self.root}: connections do not survive a fork; start workers with 'spawn' or 'forkserver'"
            raise StoreError(message)

    @contextmanager
    def _one_line(self, name: str) -> Iterator[None]:
        self._require_same_process()
        try:
            yield
        except self._obstore.exceptions.BaseError as error:
            raise StoreError(what_failed(self.root, name, error)) from error


def repeated(client: Any, request: Callable[[], Answer]) -> Answer:
    """The result of a request that the client does not retry by itself."""
    for retry in range(RETRIES):
        try:
            return request()
        except client.exceptions.GenericError as error:
            if "NoSuchBucket" in str(error) or f"after {RETRIES} retries" in str(error):  # the client did retry it
                raise
            time.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry))
    return request()


def listed(client: Any, connection: Any, folder: str | None = None) -> dict[str, Any]:
    """Size (``size``) and version (``e_tag``) of all objects, or of those in a folder, by name."""
    pages = repeated(client, lambda: list(client.list(connection, folder)))
    return {each["path"]: each for page in pages for each in page}


def coalesced(ranges: Ranges) -> list[tuple[int, int]]:
    """Ascending ranges to read that cover the given disjoint ranges, in any order."""
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


def has_any(root: str, names: Sequence[str]) -> bool:
    """Whether a folder has any of these objects; raises StoreError."""
    client, connection = imported(root), connect(root)
    for name in names:
        try:
            client.head(connection, name)
        except FileNotFoundError:
            continue
        except client.exceptions.BaseError as error:
            raise StoreError(what_failed(root, name, error)) from error
        return True
    return False


def what_failed(root: str, name: str, error: Exception) -> str:
    """One line about a request that was refused or failed."""
    kind, text = type(error).__name__, without_secrets(str(error).split("Debug source")[0])
    if (
        kind in {"PermissionDeniedError", "UnauthenticatedError"}
        or re.search(r"\b403\b", text)
        or "credential" in text.lower()
    ):
        return f"{root}: no access to {name}: {_WHO} ({text[:200]})"
    if "NoSuchBucket" in text or "bucket does not exist" in text:
        return f"{root}: there is no such bucket; name another"
    return (
        f"{root}: {name} could not be read after {RETRIES} retries ({text[:300]}); run again when the storage answers"
    )


def imported(root: str) -> Any:
    """The client; raises StoreError if it is not installed."""
    return load("obstore", "s3", f"{root}: a store in an object storage", StoreError)


def connect(root: str) -> Any:
    """A connection to a folder; raises StoreError if the environment has no credentials."""
    if not any(os.environ.get(name) for name in IDENTITIES):
        message = f"{root}: nothing in the environment says who you are: {_WHO}"
        raise StoreError(message)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    try:
        return imported(root).store.from_url(
            root,
            client_options={
                "timeout": timedelta(seconds=REQUEST_SECONDS),
                "connect_timeout": timedelta(seconds=10),
                "allow_http": endpoint.startswith("http:"),
            },
            retry_config={
                "max_retries": RETRIES,
                "retry_timeout": timedelta(seconds=RETRY_SECONDS),
                "backoff": {
                    "init_backoff": timedelta(seconds=FIRST_PAUSE),
                    "max_backoff": timedelta(seconds=LONGEST_PAUSE),
                    "base": PAUSE_GROWTH,
                },
            },
        )
    except Exception as error:  # obstore has no specific error for invalid settings
        message = f"{root}: {without_secrets(str(error))}"
        raise StoreError(message) from error
