"""Checkpoints from which a stopped conversion resumes, saved periodically next to the shards.

A journal belongs to one conversion: other input, params, or versions of the package, its engines or the format start
afresh, as does a journal with a changed byte. What a checkpoint counts of an append-only file is on the disk, and is
verified on resumption.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.conversion.inputs import Inputs
from outofcore.domains.domain import Section
from outofcore.errors import DamagedStore
from outofcore.store.schema import Schema
from outofcore.store.seal import FORMAT
from outofcore.system.durable import WorkFolder, sync_folder, write_file, writing
from outofcore.system.failures import raise_if_of_system

JOURNAL = 5
# Settings for reading a store change no byte of it, nor does what is only checked.
NOT_CONVERSION = {"raw", "match", "tensors", "train"}
NOT_STORED = NOT_CONVERSION | {"audit"}
_READ_BYTES = 1 << 20

Mark = tuple[int, str]
"""Bytes of the file that count, and their SHA-256."""


def work_folder(store: Path, scratch: Path | None) -> Path:
    """Where a store grows: in ``scratch``, where each workspace has its own folder, or next to its place."""
    if scratch is None:
        return store.with_name(f"{store.name}.work")
    workspace = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:8]
    return scratch / f"{store.name}.{workspace}.work"


class AppendedFile:
    """A file to which bytes are appended, with a digest of all of them; opened by the first write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0
        self._digest = hashlib.sha256()
        self._synced = True
        self._stream: FileIO | None = None

    def write(self, content: bytes) -> None:
        """Append bytes; they count from the next :meth:`mark`."""
        rest = memoryview(content)
        try:
            with writing(self.path):
                stream = self._opened()
                while rest:
                    rest = rest[stream.write(rest) :]
        except BaseException:
            self.close()  # a partial write is truncated before the next write
            raise
        self._digest.update(content)
        self._bytes += len(content)
        self._synced = False

    def mark(self) -> Mark:
        """Flush everything to the disk."""
        if not self._synced:
            with writing(self.path):
                os.fsync(self._opened().fileno())
            self._synced = True
        return self._bytes, self._digest.hexdigest()

    def resume(self, mark: Sequence[int | str]) -> None:
        """Append after a mark, truncating what a stopped run wrote beyond it; raises DamagedStore."""
        expected = int(mark[0])
        digest = hashlib.sha256()
        missing = expected
        if expected:
            with self.path.open("rb") as stream:
                while missing and (block := stream.read(min(missing, _READ_BYTES))):
                    digest.update(block)
                    missing -= len(block)
        if missing or digest.hexdigest() != mark[1]:
            raise DamagedStore(f"{self.path.name} has changed")
        self._bytes, self._digest = expected, digest

    def content(self) -> bytes:
        """The bytes that count."""
        if not self._bytes:
            return b""
        with self.path.open("rb") as stream:
            return stream.read(self._bytes)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _opened(self) -> FileIO:
        if self._stream is None:
            self._stream = self.path.open("ab", buffering=0)
            self._stream.truncate(self._bytes)
        return self._stream


@dataclass(frozen=True)
class SavedState:
    """A checkpoint: JSON values, bytes by name, and everything that was appended up to it."""

    state: dict[str, Any]
    contents: dict[str, bytes]
    keys: bytes
    sources: bytes


class Journal:
    """What a conversion keeps in its work folder."""

    def __init__(self, work: WorkFolder, identity: str) -> None:
        self.folder = work.path
        self.store = self.folder / "store"
        self._work = work
        self._identity = identity
        self._state = self.folder / "journal"
        self._open()

    def _open(self) -> None:
        self.rejects = AppendedFile(self.folder / "rejects.csv")
        self._keys = AppendedFile(self.folder / "keys")
        self._sources = AppendedFile(self.folder / "sources")
        self._synced: set[str] = set()

    def resume(self) -> SavedState | None:
        """The last checkpoint of this conversion, or None after emptying the folder; raises DamagedStore."""
        contents = self._read()
        state = json.loads(contents.pop("state", b"{}"))
        if state.get("identity") != self._identity or self.store.is_symlink() or not self.store.is_dir():
            self.begin()
            return None
        try:
            for name, file in (("rejects", self.rejects), ("keys", self._keys), ("sources", self._sources)):
                file.resume(state[name])
            return SavedState(state, contents, self._keys.content(), self._sources.content())
        except OSError as error:
            raise _damage(error) from error

    def _read(self) -> dict[str, bytes]:
        """What was saved, by name; nothing before the first checkpoint."""
        try:
            content = self._state.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise _damage(error) from error
        digest, _, body = content.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise DamagedStore(f"{self._state.name} has changed")
        return {name: array.tobytes() for name, array in np.load(BytesIO(body)).items()}

    def begin(self) -> None:
        """Empty the work folder."""
        self.close()
        with writing(self.folder):
            self._work.empty()
            self._open()
            self.store.mkdir()

    def save(self, state: Mapping[str, Any], contents: Mapping[str, bytes], keys: bytes, sources: bytes) -> None:
        """Save a state, JSON values and bytes by name, and the data appended since the last, to the disk.

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
        body = BytesIO()
        contents = {**contents, "state": json.dumps(document).encode()}
        arrays: dict[str, Any] = {name: np.frombuffer(content, np.uint8) for name, content in contents.items()}
        np.savez(body, **arrays)
        partial = self._state.with_name(f"{self._state.name}.partial")
        write_file(partial, hashlib.sha256(body.getbuffer()).hexdigest().encode() + b"\n" + body.getbuffer())
        with writing(self._state):
            partial.replace(self._state)
        sync_folder(self.folder)

    def _sync_folders(self, tables: Mapping[str, Any]) -> None:
        """Flush the names of new shards to the disk."""
        whole = {name for table in tables.values() for name in table["files"]}
        begun = {f"{path}/{field}/{table['shard']}" for path, table in tables.items() for field in table["lengths"]}
        new = (whole | begun) - self._synced
        for folder in sorted({parent for name in new for parent in Path(name).parents}):
            sync_folder(self.store / folder)
        self._synced |= new

    def close(self) -> None:
        for file in (self.rejects, self._keys, self._sources):
            file.close()

    def clear(self) -> None:
        """Keep nothing: the conversion has ended."""
        self.close()
        with suppress(OSError):
            self._work.empty()


def identity(
    domain: str, section: Section, inputs: Inputs, schemas: Mapping[str, Schema], made_by: object, after: str = ""
) -> str:
    """Digest of everything that determines the result: params, input, versions, and schemas with their attributes.

    ``made_by`` are the versions; ``after`` is the digest of earlier entries, whose sequences are dropped.
    """
    facts = {
        "format": [FORMAT, JOURNAL],
        "versions": made_by,
        "after": after,
        "domain": domain,
        "section": section.model_dump(mode="json", exclude=NOT_CONVERSION),
        "schemas": {part: asdict(schema) for part, schema in schemas.items()},
        "files": [(file.name, digest) for file, digest in zip(inputs.files, inputs.digests, strict=True)],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _damage(error: OSError) -> DamagedStore:
    """What is wrong with a file of the folder; an error of the system is raised: another run may read it."""
    if not isinstance(error, FileNotFoundError):
        raise_if_of_system(error)
    return DamagedStore(f"{Path(error.filename or '').name}: {error.strerror}")
