"""Where a stopped conversion goes on: state that is brought to the disk now and then, beside the shards.

The journal counts for one conversion only: another input, other params or another version of the format start afresh.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outofcore.domains.domain import Section
from outofcore.raw.files import RawFile
from outofcore.store.schema import Schema
from outofcore.store.seal import FORMAT

JOURNAL = 2
# What a section says of reading a store changes no byte of it.
NOT_CONVERSION = {"raw", "match", "tensors", "train"}


class Journal:
    """The work folder of a conversion.

    Parameters
    ----------
    folder
        The work folder, beside the store.
    identity
        What the conversion is a function of, see :func:`identity`.

    Attributes
    ----------
    store
        Folder in which the store grows.
    rejects
        The table of rejects so far.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.rejects = folder / "rejects.csv"
        self._identity = identity
        self._state = folder / "journal.json"
        self._keys = folder / "keys"
        self._keys_bytes = 0

    def resume(self) -> dict[str, Any] | None:
        """The last state of this very conversion; else the folder is cleared and there is none."""
        try:
            state: dict[str, Any] = json.loads(self._state.read_text())
        except (FileNotFoundError, ValueError):
            state = {}
        if state.get("identity") == self._identity and self.store.is_dir() and self.rejects.exists():
            os.truncate(self.rejects, state["rejects_bytes"])
            os.truncate(self._keys, state["keys_bytes"])
            self._keys_bytes = state["keys_bytes"]
            return {**state, "keys": self._keys.read_bytes()}
        self.clear()
        self.store.mkdir(parents=True)
        return None

    def save(self, state: Mapping[str, Any], keys: bytes) -> None:
        """Bring a state, and the keys that are new in it, to the disk.

        A kill at any moment leaves the old state or the new one. Keys are appended, for all of them are gigabytes where
        sequences are many; what the state does not count of them is cut off again.
        """
        with self._keys.open("ab") as stream:
            stream.truncate(self._keys_bytes)
            stream.write(keys)
            stream.flush()
            os.fsync(stream.fileno())
        size = self._keys_bytes + len(keys)
        document = {
            **state,
            "identity": self._identity,
            "keys_bytes": size,
            "rejects_bytes": self.rejects.stat().st_size,
        }
        _replace(self._state, json.dumps(document).encode())
        self._keys_bytes = size

    def clear(self) -> None:
        """Remove the work folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def identity(domain: str, section: Section, files: Sequence[RawFile], schemas: Mapping[str, Schema]) -> str:
    """What a conversion is a function of, as a digest.

    That is the domain, the params, the files (by name, size and time of change), and the schemas: what a domain takes
    from elsewhere, such as a tokenizer, it names in their attributes.
    """
    facts = {
        "format": [FORMAT, JOURNAL],
        "domain": domain,
        "section": section.model_dump(mode="json", exclude=NOT_CONVERSION),
        "schemas": {part: asdict(schema) for part, schema in schemas.items()},
        "files": [(file.name, file.bytes, file.path.stat().st_mtime_ns) for file in files],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
