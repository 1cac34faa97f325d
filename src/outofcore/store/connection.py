"""The one connection to object storage and web servers: addresses, credentials, retries, and what is said of failures.

Sealed stores and Zarrs of other software are read through it (obstore, the extra ``s3``). It retries failed requests at
growing intervals for about half a minute; a final failure is a one-line error. What differs between kinds of addresses
is a row of :data:`_KINDS`: one more kind is one more row.

Credentials and endpoint come from the environment. For ``s3://``, by the names that Amazon's tools use:
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL`` for
another storage, ``AWS_SKIP_SIGNATURE=true`` for a public one. The role of a machine or container is requested only if
the environment names its provider: elsewhere the request would hang. An address may hold credentials too
(``https://user:password@``, ``?sig=``), so messages show it by :func:`shown`, and what a client says by
:func:`without_secrets`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from outofcore.errors import StoreError
from outofcore.system.extras import load

Answer = TypeVar("Answer")
# At least 23 s and at most 28 s of pauses; requests resume at most LONGEST_PAUSE after the storage does.
RETRIES = 15
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
PAUSE_GROWTH = 10  # at most, from one pause to the next: the client draws each at random between FIRST_PAUSE and that
REQUEST_SECONDS = 30
RETRY_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of address."""

    bucket: bool = True  # scheme://bucket/folder; otherwise of any form, credentials and query included
    lists: bool = True  # what it holds; otherwise a name can only be asked for
    identities: tuple[str, ...] = ()  # variables of the environment of which one says who reads; none if it need not
    keys: str = "set them in the environment"  # what to do with the keys in an address
    who: str = ""  # what to do where there is no access


_S3 = Kind(
    identities=(
        "AWS_ACCESS_KEY_ID",
        "AWS_SKIP_SIGNATURE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_METADATA_ENDPOINT",
    ),
    keys="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    who="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of a user that may read it, AWS_SKIP_SIGNATURE=true for a "
    "public bucket, or AWS_METADATA_ENDPOINT=http://169.254.169.254 for the role of this machine",
)
_WEB = Kind(bucket=False, lists=False)
_KINDS = {"s3": _S3, "http": _WEB, "https": _WEB}  # by scheme; the client knows others, such as gs and az

# Parts of the names of environment variables whose values are never printed.
_SECRET = re.compile(r"SECRET|TOKEN|ACCESS_KEY|ACCOUNT_KEY|PASSWORD|SAS", re.IGNORECASE)
_LEAST_SECRET = 5  # characters; shorter values are words such as "true"

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^?#]*)([?#].*)?", re.DOTALL)  # ``Path`` drops a slash
_HOST = re.compile(r"[^:@]*|\[[^@]*\](:\d*)?|[^:@]*:\d+")


def kind_of(address: str) -> Kind:
    """The kind of an address, by its scheme."""
    return _KINDS.get(address.partition(":")[0], Kind())


def address_of(path: str | Path) -> str | None:
    """The address of data in a storage or on a web server, None for a path; restores a slash lost in a ``Path``.

    Raises StoreError for one with credentials, where its scheme has other places for them, or without a folder.
    """
    address = _ADDRESS.fullmatch(str(path))
    if not address:
        return None
    scheme, place, query = address[1], address[2].rstrip("/"), address[3] or ""
    kind = kind_of(scheme)
    if not kind.bucket:
        return f"{scheme}://{place}{query}"
    bucket, _, folder = place.partition("/")
    if query or not folder.strip("/") or not _HOST.fullmatch(bucket) or ":" in bucket:
        keys = f"; keys do not belong in an address: {kind.keys}" if "://***" in shown(path) else ""
        raise StoreError(f"{shown(path)}: expected {scheme}://bucket/folder{keys}")
    return f"{scheme}://{bucket}/{folder.strip('/')}"


def is_address(path: str | Path) -> bool:
    """Whether this is the address of a storage or web server, and no path of this machine."""
    return _ADDRESS.fullmatch(str(path)) is not None


def shown(path: object) -> str:
    """A path, or an address as it may be printed: without user, password, query or fragment."""
    address = _ADDRESS.fullmatch(str(path))
    if not address:
        return str(path)
    scheme, place, query = address[1], address[2], address[3]
    if not _HOST.fullmatch(place.partition("/")[0]):  # more than a host and its port
        place = f"***@{place.rpartition('@')[2]}" if "@" in place else "***"
    return f"{scheme}://{place}{'?***' if query else ''}"


def without_secrets(text: str) -> str:
    """A client's message on one line, without what the environment keeps secret, and addresses as :func:`shown`."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _LEAST_SECRET:
            text = text.replace(value, "***")
    line = " ".join(text.split())
    return re.sub(r"[a-z][a-z0-9+.-]+://[^\s\"'()<>,]+", lambda address: shown(address[0]), line)


def connect(address: str, retries: int | None = None) -> Any:
    """A connection to a folder; raises StoreError if the environment has no credentials, or the client is missing."""
    kind = kind_of(address)
    if kind.identities and not any(map(os.environ.get, kind.identities)):
        raise StoreError(f"{shown(address)}: nothing in the environment says who you are: {kind.who}")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    client = imported(address)
    try:
        return client.store.from_url(
            address,
            client_options={
                "timeout": timedelta(seconds=REQUEST_SECONDS),
                "connect_timeout": timedelta(seconds=10),
                "allow_http": address.startswith("http:") or endpoint.startswith("http:"),
            },
            retry_config={
                "max_retries": RETRIES if retries is None else retries,
                "retry_timeout": timedelta(seconds=RETRY_SECONDS),
                "backoff": {
                    "init_backoff": timedelta(seconds=FIRST_PAUSE),
                    "max_backoff": timedelta(seconds=LONGEST_PAUSE),
                    "base": PAUSE_GROWTH,
                },
            },
        )
    except Exception as error:  # noqa: BLE001 - obstore has no specific error for invalid settings
        raise StoreError(
            f"{shown(address)}: {one_line(error)}"
        ) from None  # the client's own text may hold the whole address


def imported(address: str) -> Any:
    """The client; raises StoreError if it is not installed."""
    return load("obstore", "s3", f"{shown(address)}: data in an object storage", StoreError)


def has_any(address: str, names: tuple[str, ...]) -> bool:
    """Whether a folder has any of these objects; raises StoreError."""
    client, connection = imported(address), connect(address)
    for name in names:
        try:
            client.head(connection, name)
        except FileNotFoundError:
            continue
        except client.exceptions.BaseError as error:
            raise StoreError(what_failed(shown(address), name, error)) from None
        return True
    return False


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


def listed(client: Any, connection: Any) -> dict[str, Any]:
    """Size (``size``) and version (``e_tag``) of all objects by name."""
    pages = repeated(client, lambda: list(client.list(connection)))
    return {entry["path"]: entry for page in pages for entry in page}


def one_line(error: Exception) -> str:
    """What a client says of a failure, without secrets."""
    return without_secrets((str(error) or type(error).__name__).split("Debug source")[0])[:300]


def what_failed(root: str, name: str, error: Exception) -> str:
    """One line about a request that was refused or failed."""
    kind, text = type(error).__name__, one_line(error)
    if (
        kind in {"PermissionDeniedError", "UnauthenticatedError"}
        or re.search(r"\b403\b", text)
        or "credential" in text.lower()
    ):
        who = kind_of(root).who
        return f"{root}: no access to {name}{who and f': {who}'} ({text[:200]})"
    if "NoSuchBucket" in text or "bucket does not exist" in text:
        return f"{root}: there is no such bucket; name another"
    retried = re.search(r"after (\d+) retries", text)
    after = f" {retried[0]}" if retried and retried[1] != "0" else ""
    return f"{root}: {name} could not be read{after} ({text}); run again when the storage answers"
