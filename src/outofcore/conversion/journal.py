"""Checkpoints from which a stopped conversion resumes, saved periodically next to the shards.

A journal belongs to one conversion: other input, params, or versions of the package, its engines or the format start
afresh, as does a journal with a changed byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from outofcore.conversion.appended import AppendedFile
from outofcore.conversion.inputs import Inputs
from outofcore.conversion.versions import versions
from outofcore.domains.domain import Section
from outofcore.errors import DamagedStore, StoreError
from outofcore.locks import take
from outofcore.store.durable import sync_folder, write_file, writing
from outofcore.store.schema import Schema
from outofcore.store.seal import FORMAT

JOURNAL = 4
# Settings for reading a store change no byte of it.
NOT_CONVERSION = {"raw", "match", "tensors", "train"}
LOCK = "lock"


@dataclass(frozen=True)
class Saved:
    """A checkpoint: the state, and everything that was appended up to it."""

    state: dict[str, Any]
    keys: bytes
    sources: bytes


class Journal:
    """The work folder of a conversion, used by one process at a time (as a context manager)."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self._identity = identity
        self._state = folder / "journal.json"
        self._lock: BinaryIO | None = None
        self._open()

    def _open(self) -> None:
        self.rejects = AppendedFile(self.folder / "rejects.csv")
        self._keys = AppendedFile(self.folder / "keys")
        self._sources = AppendedFile(self.folder / "sources")
        self._synced: set[str] = set()

    def __enter__(self) -> Self:
        """Lock the work folder; raises StoreError if another process uses it."""
        while self._lock is None:
            with writing(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock = self._locked()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _locked(self) -> BinaryIO | None:
        """The lock; None if the process that held it removed it with the folder."""
        path = self.folder / LOCK
        try:
            lock = path.open("ab")
        except FileNotFoundError:
            return None
        if not take(lock.fileno()):
            lock.close()
            message = (
                f"{self.folder}: another conversion is working in this folder; wait until it has ended, or let each "
                "workspace have a scratch of its own (machine.yaml)"
            )
            raise StoreError(message)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                return lock
        lock.close()
        return None

    def resume(self) -> Saved | None:
        """The last checkpoint of this conversion, or None after emptying the folder; raises DamagedStore."""
        state = self._read()
        if state is None or not self.store.is_dir():
            self.begin()
            return None
        try:
            for name, file in (("rejects", self.rejects), ("keys", self._keys), ("sources", self._sources)):
                file.resume(state[name])
            return Saved(state, self._keys.content(), self._sources.content())
        except OSError as error:
            raise DamagedStore(_unreadable(error)) from error

    def _read(self) -> dict[str, Any] | None:
        """The state, if it belongs to this conversion."""
        try:
            content = self._state.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DamagedStore(_unreadable(error)) from error
        digest, _, body = content.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            message = f"{self._state.name} has changed"
            raise DamagedStore(message)
        state: dict[str, Any] = json.loads(body)
        return state if state["identity"] == self._identity else None

    def begin(self) -> None:
        """Empty the work folder."""
        self._close()
        with writing(self.folder):
            for path in self.folder.iterdir():
                if path.name != LOCK:
                    _remove(path)
            self._open()
            self.store.mkdir()

    def save(self, state: Mapping[str, Any], keys: bytes, sources: bytes) -> None:
        """Save a state, and the data appended since the last, to the disk.

        A kill at any moment leaves the old state or the new one. Keys and sources are appended, because all of them can
        be gigabytes; what the state does not count is truncated on resumption.
        """
        self._keys.write(keys)
        self._sources.write(sources)
        document = {
            **state,
            "identity": self._identity,
            "keys": self._keys.mark(),
            "sources": self._sources.mark(),
            "rejects": self.rejects.mark(),
        }
        self._sync_folders(state["tables"])
        body = json.dumps(document).encode()
        partial = self._state.with_name(f"{self._state.name}.partial")
        write_file(partial, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        with writing(self._state):
            partial.replace(self._state)
        sync_folder(self.folder)

    def _sync_folders(self, tables: Mapping[str, Any]) -> None:
        """Flush the names of new shards, and of pieces, to the disk."""
        whole = {name for table in tables.values() for name in table["files"]}
        begun = {
            f"{path}/{field}/{table['shard']}" for path, table in tables.items() for field in table.get("lengths", ())
        }
        new = (whole | begun) - self._synced
        for folder in sorted({parent for name in new for parent in Path(name).parents}):
            if (self.store / folder).is_dir():  # an uploaded store has no shards here
                sync_folder(self.store / folder)
        self._synced |= new
        for pieces in sorted({table["folder"] for table in tables.values() if table.get("pieces")}):
            sync_folder(Path(pieces))

    def _close(self) -> None:
        for file in (self.rejects, self._keys, self._sources):
            file.close()

    def clear(self) -> None:
        """Remove the work folder."""
        self._close()
        shutil.rmtree(self.folder, ignore_errors=True)


def identity(domain: str, section: Section, inputs: Inputs, schemas: Mapping[str, Schema]) -> str:
    """Digest of everything that determines the result: params, input, versions, and schemas with their attributes."""
    facts = {
        "format": [FORMAT, JOURNAL],
        "versions": versions(domain),
        "domain": domain,
        "section": section.model_dump(mode="json", exclude=NOT_CONVERSION),
        "schemas": {part: asdict(schema) for part, schema in schemas.items()},
        "files": [(file.name, digest) for file, digest in zip(inputs.files, inputs.digests, strict=True)],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _unreadable(error: OSError) -> str:
    return f"{Path(error.filename or '').name}: {error.strerror}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
