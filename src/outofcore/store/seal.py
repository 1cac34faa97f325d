"""The seal: the last file of a store, which names every other file with its size and digest.

A store without a seal does not exist for outofcore. The store's digest is the SHA-256 of the list of files, so that
equal digests mean equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import DamagedStore, StoreError

SEAL = "seal.json"
FORMAT = 1
ADVICE = "get the store back with 'dvc checkout' or 'dvc pull', or convert again"


@dataclass(frozen=True)
class Seal:
    """What a sealed store consists of.

    Attributes
    ----------
    files
        Size in bytes and SHA-256 by path relative to the store.
    digest
        SHA-256 over that list: the store's identity.
    """

    files: Mapping[str, tuple[int, str]]

    @property
    def digest(self) -> str:
        """SHA-256 over the list of files, in hexadecimal."""
        return hashlib.sha256(_canonical(self.files).encode()).hexdigest()

    def text(self) -> str:
        """The content of the seal file."""
        return f'{{"digest":"{self.digest}","files":{_canonical(self.files)},"format":{FORMAT}}}\n'


def _canonical(files: Mapping[str, tuple[int, str]]) -> str:
    return json.dumps({name: list(files[name]) for name in sorted(files)}, separators=(",", ":"))


def read_seal(text: str, store: str) -> Seal:
    """Parse and check the content of a seal file.

    Raises
    ------
    StoreError
        If the seal is of another format.
    DamagedStore
        If a byte of it has changed.
    """
    try:
        parsed = json.loads(text)
        found = parsed["format"]
        seal = Seal({name: (int(size), str(digest)) for name, (size, digest) in parsed["files"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{store}: {SEAL} is damaged ({error}); get the store back with 'dvc checkout' or 'dvc pull'"
        raise DamagedStore(message) from error
    if found != FORMAT:
        message = f"{store}: expected store format {FORMAT}, got {found}; convert again with this version"
        raise StoreError(message)
    if text != seal.text():
        message = f"{store}: {SEAL} was changed after sealing; get the store back with 'dvc checkout' or 'dvc pull'"
        raise DamagedStore(message)
    return seal


def describe(root: Path, name: str) -> tuple[int, str]:
    """Size and SHA-256 of a file as a seal lists them."""
    path = root / name
    with path.open("rb") as stream:
        return path.stat().st_size, hashlib.file_digest(stream, "sha256").hexdigest()
