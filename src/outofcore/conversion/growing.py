"""A folder of stores that grows, one for each entry of the raw input: what an entry was made of, and when it stays.

Next to ``NAME.zarr`` are its rejects and, where duplicates are dropped, the keys of all sequences that its raw files
have (``NAME.keys.npy``), and which of them an earlier entry has (``NAME.earlier.npy``), by name; it leaves these to
that one. ``entries.json`` states what each entry was made of, its figures, and the digests of these tables. An entry
stays as long as all are so, and which of its keys earlier entries have. So the bytes of the folder follow from the raw
files and the settings, whatever the order in which files were added and removed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.conversion.assemble import REJECTS_HEADER, Assembler
from outofcore.conversion.inputs import Inputs
from outofcore.conversion.journal import identity
from outofcore.conversion.seen import Earlier, Keys
from outofcore.conversion.summary import counted
from outofcore.display.console import visible
from outofcore.domains.domain import Domain
from outofcore.domains.splits import SPLITS, splits_of
from outofcore.domains.units import unit_converter
from outofcore.errors import RawInputError, StoreError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import NO_AUDIT
from outofcore.settings.yaml_text import parse_json
from outofcore.store.reader import open_store
from outofcore.store.seal import Seal, describe
from outofcore.store.writer import StoreWriter
from outofcore.system.durable import (
    WorkFolder,
    remove,
    remove_unfinished,
    replace_text,
    replacing,
    sync_folder,
    writing,
)

RECORD = "entries.json"
STORE, REJECTS, KEYS, LEFT = ".zarr", ".rejects.csv", ".keys.npy", ".earlier.npy"
TABLES = (REJECTS, KEYS, LEFT)


Convert = Callable[[Sequence[RawFile], Path, Path, Earlier], dict[str, Any]]
"""Writes a store and a table of rejects from the raw files of an entry, after earlier ones; returns its figures."""


class Entries:
    """The entries in a folder, with the record of each that is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[str, dict[str, Any]] = {}
        self._ours = False
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            records = parse_json((folder / RECORD).read_bytes())
            self._ours = all(
                not {"/", os.sep} & set(name)
                and {"made_of", "after", "figures", "tables"} <= record.keys()
                and {"accepted", "digest"} <= record["figures"].keys()
                for name, record in records.items()
            )
            self.records = records if self._ours else {}

    def path(self, name: str, ending: str) -> Path:
        return self.folder / f"{name}{ending}"

    def has(self, name: str, made_of: str, earlier: Earlier) -> bool:
        """Whether an entry is here as a conversion after these earlier ones would make it."""
        record = self.records.get(name)
        with suppress(OSError, ValueError, LookupError, TypeError, StoreError):
            if record is None or record["made_of"] != made_of or record["tables"] != self._tables(name):
                return False
            stored = record["figures"]["accepted"]
            if stored and open_store(self.path(name, STORE)).digest != record["figures"]["digest"]:
                return False
            keys = self.keys(name)
            if keys is None or record["after"] == earlier.digest:
                return True
            return np.array_equal(keys[:, earlier.has(keys)], np.load(self.path(name, LEFT)))
        return False

    def keys(self, name: str) -> Keys | None:
        """The sorted keys of an entry's raw files, on the disk; None where duplicates are kept."""
        path = self.path(name, KEYS)
        return np.load(path, mmap_mode="r") if path.is_file() else None

    def _tables(self, name: str) -> dict[str, str]:
        """The SHA-256 of the files next to a store, by their endings."""
        return {end: describe(self.folder, f"{name}{end}")[1] for end in TABLES if self.path(name, end).is_file()}

    def add(
        self, name: str, made_of: str, earlier: Earlier, figures: Mapping[str, Any], files: Mapping[str, str]
    ) -> None:
        """Record an entry whose files are here; the digests of its raw ``files``, unless it has a store with them."""
        facts = {"made_of": made_of, "after": earlier.digest, "figures": figures, "tables": self._tables(name)}
        facts |= {} if figures["accepted"] else {"files": files}
        self.record({**self.records, name: facts})

    def record(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """State which entries are whole."""
        self.records = {name: dict(records[name]) for name in sorted(records)}
        replace_text(self.folder / RECORD, json.dumps(self.records, indent=1) + "\n")

    def remove(self, name: str) -> None:
        for ending in (STORE, *TABLES):
            with writing(self.folder):
                remove(self.path(name, ending))

    def update(
        self,
        domain: Domain,
        section: Any,
        grown: Mapping[str, Sequence[RawFile]],
        convert: Convert,
        *,
        versions: str,
        threads: int,
    ) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Convert the entries that are new or changed; returns the figures of all by name, and the names of these.

        ``grown`` has the raw files of each entry, ``versions`` decide bytes. Entries that are ready wait in a work
        folder, for a later run too, until all are. Raises RawInputError if no record of any is accepted.
        """
        refusal = f"{self.folder}: another process converts into this folder; wait until it has ended"
        with WorkFolder(self.folder.with_name(f"{self.folder.name}.entries.zarr.work"), refusal) as work:
            ready, earlier = Entries(work.path), Earlier()
            self.refuse_foreign([*grown, *ready.records])
            records: dict[str, dict[str, Any]] = {}
            taken, converted = list[str](), list[str]()
            unreadable: RawInputError | None = None
            for name, files in grown.items():
                inputs = Inputs(files, threads=max(1, threads))
                try:
                    schemas, refused = domain.schemas(section, files), None
                except RawInputError as error:  # a session that cannot be read
                    schemas, refused = {}, error
                    unreadable = unreadable or error
                made_of = identity(domain.name, section, inputs, schemas, versions)
                entries = next((known for known in (ready, self) if known.has(name, made_of, earlier)), None)
                if entries is None:
                    entries = ready
                    converted.append(name)
                    sys.stderr.write(f"{domain.name} {visible(name)}: converting\n")
                    ready.record({other: record for other, record in ready.records.items() if other != name})
                    ready.remove(name)
                    store, rejects = ready.path(name, STORE), ready.path(name, REJECTS)
                    figures = (
                        _reject_all(domain, section, files, rejects)
                        if refused
                        else convert(files, store, rejects, earlier)
                    )
                    digests = dict(zip((file.name for file in files), inputs.digests, strict=True))
                    ready.add(name, made_of, earlier, figures, digests)
                taken += [name] if entries is ready else []
                records[name] = {**entries.records[name], "after": earlier.digest}
                earlier.add(name, made_of, entries.keys(name))
            if not any(record["figures"]["accepted"] for record in records.values()):
                raise unreadable or RawInputError(
                    f"{domain.name}.raw: none of {len(grown):,} entries has a record that was accepted; the rejects "
                    f"are in {ready.folder}"
                )
            self.take(ready, taken, records)
            work.empty()
        return {name: record["figures"] for name, record in records.items()}, converted

    def take(self, other: Entries, names: Sequence[str], records: Mapping[str, Mapping[str, Any]]) -> None:
        """Take entries over from another folder, and keep these records and their entries only.

        A file is replaced, never written to: DVC links what it caches. What a kill leaves here has no record here,
        but one in the other folder.
        """
        for name in {*self.records, *other.records} - records.keys():
            self.remove(name)
        self.record({name: self.records[name] for name in self.records.keys() & records.keys() - set(names)})
        for name in names:
            self.remove(name)
            for ending in (STORE, *TABLES):
                if os.path.lexists(source := other.path(name, ending)):
                    with writing(self.folder):
                        source.rename(self.path(name, ending))
        sync_folder(self.folder)
        self.record(records)

    def refuse_foreign(self, names: Sequence[str]) -> None:
        """Raise StoreError if something else than entries of ours, or of these names, is in the folder."""
        known = {*self.records, *(names if self._ours else ())}
        own = {
            *([RECORD] if self._ours else []),
            *(f"{name}{ending}" for name in known for ending in (STORE, *TABLES)),
        }
        if self._ours:
            remove_unfinished(self.folder / RECORD)
        other = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
        if self.folder.exists() and not self.folder.is_dir():
            raise StoreError(
                f"{self.folder}: expected a folder, got a file; nothing was touched: choose another target"
            )
        if strange := [name for name in other if name not in own]:
            raise StoreError(
                f"{self.folder}: expected a new folder, or one of entries with their {RECORD}, got {strange[0]} in it; "
                "nothing was touched: move it elsewhere, or choose another target"
            )


def _reject_all(domain: Domain, section: Any, files: Sequence[RawFile], rejects: Path) -> dict[str, Any]:
    """The figures of an entry that has no schema, as all its records are rejected; lists them."""
    with ThreadPoolExecutor(1) as pool:
        store = StoreWriter(rejects.parent, {}, section.store.layout(), SPLITS, pool)
        assembler = Assembler(store, partial(splits_of, section=section.splits))
        convert_unit = unit_converter(domain, section, NO_AUDIT)
        listed = [assembler.add(unit, convert_unit(unit)) for unit in domain.units(files, section)]
    replace_text(rejects, REJECTS_HEADER + "".join(listed))
    sizes = {"bytes_raw": sum(file.bytes for file in files), "bytes_store": 0, "estimate_bytes": 0, "audited": 0}
    return {**counted(assembler, store), **dict(sorted(assembler.counts.items())), **sizes, "digest": Seal({}).digest}


def save_keys(store: Path, keys: Keys, earlier: Earlier) -> None:
    """Write the keys of a new entry next to its store."""
    for ending, values in ((KEYS, keys), (LEFT, keys[:, earlier.has(keys)])):
        path = store.with_name(store.name.removesuffix(STORE) + ending)
        with writing(path), replacing(path) as new, new.open("wb") as stream:
            np.save(stream, values.astype("<u8", copy=False))


def figures_of_all(figures: Mapping[str, Mapping[str, Any]], digest: str) -> dict[str, Any]:
    """The figures of a folder of this digest, from those of its entries."""
    whole = _summed(list(figures.values()))
    rows = sum(whole["rows"].values())
    doubts = [f"{name}: {doubt}" for name, own in figures.items() for doubt in own.get("doubts", ())]
    return whole | {
        "bytes_per_row": round(whole["bytes_store"] / rows, 3) if rows else 0.0,
        "digest": digest,
        "digests": {name: own["digest"] for name, own in figures.items() if own["accepted"]},
        **({"doubts": doubts} if doubts else {}),
    }


def _summed(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of what conversions counted, by name; texts are those of the first."""
    sums: dict[str, Any] = {}
    for own in figures:
        for name, value in own.items():
            if isinstance(value, Mapping):
                sums[name] = _summed([sums.get(name, {}), value])
            elif isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
            elif isinstance(value, str):
                sums.setdefault(name, value)
    return sums
