"""The seal: the last file of a store, which lists every other file with its size and digest.

A store without a seal is not a store for outofcore. The store's digest is the SHA-256 of the list of files, so equal
digests mean equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from outofcore.errors import DamagedStore, StoreError

SEAL = "seal.json"
CHECKSUMS = "checksums"  # of all chunks: four bytes each, by array in the order of their paths
FORMAT = 2
ADVICE = "'outofcore verify' finds all damage, and says how to get the store back"


@dataclass(frozen=True)
class Seal:
    """Contents of a sealed store."""

    files: Mapping[str, tuple[int, str]]  # size in bytes and SHA-256 by path relative to the store

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the list of files, in hexadecimal; but for CHECKSUMS, whose content follows from the others."""
        files = {name: facts for name, facts in self.files.items() if name != CHECKSUMS}
        return hashlib.sha256(_canonical(files).encode()).hexdigest()

    def text(self) -> str:
        """The content of the seal file."""
        return f'{{"digest":"{self.digest}","files":{_canonical(self.files)},"format":{FORMAT}}}\n'


def _canonical(files: Mapping[str, tuple[int, str]]) -> str:
    return json.dumps({name: list(files[name]) for name in sorted(files)}, separators=(",", ":"))


def read_seal(content: bytes, store: Path | str) -> Seal:
    """Parse and check a seal; raises StoreError for another format, DamagedStore if a byte changed."""
    text = content.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
        version = parsed["format"]
        seal = Seal({name: (int(size), str(digest)) for name, (size, digest) in parsed["files"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedStore(f"{store}: {SEAL} is damaged ({str(error)[:200]}); {ADVICE}") from error
    if version != FORMAT:
        raise StoreError(
            f"{store}: expected store format {FORMAT}, got {version!r:.80}; convert again with this version"
        )
    if text != seal.text():
        raise DamagedStore(f"{store}: {SEAL} was changed after sealing; {ADVICE}")
    for name, (size, _) in seal.files.items():
        if not _lies_inside(name) or size < 0:
            raise StoreError(
                f"{store}: {SEAL} lists {name!r:.200} with {size} bytes, which is no file of a store; do not use it"
            )
    return seal


def names_of(content: bytes) -> set[str] | None:
    """Names that a seal of any format lists, of a store in any state; None if this is no seal of ours."""
    try:
        parsed = json.loads(content)
        return set(filter(_lies_inside, parsed["files"])) if {"digest", "format"} <= parsed.keys() else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _lies_inside(name: str) -> bool:
    """Whether a name is a path inside the store's folder, other than the seal itself."""
    segments = name.split("/")
    return name != SEAL and name.isprintable() and not {"", ".", ".."} & set(segments) and "\\" not in name


def describe(root: Path, name: str) -> tuple[int, str]:
    """Size and SHA-256 of a file as a seal lists them."""
    path = root / name
    with path.open("rb") as stream:
        return path.stat().st_size, hashlib.file_digest(stream, "sha256").hexdigest()
