"""Write a store: tables grow in a work folder; the seal comes last, then one rename."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.errors import DamagedStore
from outofcore.store.metadata import as_bytes, group_document
from outofcore.store.schema import LENGTH, START, Columns, Field, Layout, Schema
from outofcore.store.seal import CHECKSUMS, SEAL, Seal, describe
from outofcore.store.table_writer import EncodingQueue, SealedFiles, TableWriter
from outofcore.store.target import Target
from outofcore.system.durable import write_file, writing

SOURCES = (
    Field(name="name", dtype="string", doc="path relative to the raw input"),
    Field(name="digest", dtype="string", doc="SHA-256 of the file as it lay on disk"),
    Field(name="bytes", dtype="int64", doc="its size on disk"),
    Field(name="found", dtype="int64", doc="records found in it"),
    Field(name="accepted", dtype="int64", doc="records that became sequences"),
    Field(name="rejected", dtype="int64", doc="records that did not"),
)
# Sequences are few compared with rows, and text columns vary in size, so one layout serves every store.
SEQUENCE_CHUNK_ROWS = 4096


class StoreWriter:
    """Builds a store in a work folder on the filesystem of its final place."""

    def __init__(
        self,
        work: Path,
        schemas: Mapping[str, Schema],
        layout: Layout,
        splits: tuple[str, ...],
        encoders: Executor,
        table: type[TableWriter] = TableWriter,
    ) -> None:
        self.work = work
        self._schemas = dict(schemas)
        self.parts = tuple(schemas)
        self._splits = splits
        self._encoders = encoders
        self._queue = EncodingQueue(encoders)
        self._table = table
        self._flat = replace(layout, chunk_rows=SEQUENCE_CHUNK_ROWS, shard_rows=SEQUENCE_CHUNK_ROWS * 256)
        self._rows: dict[tuple[str, str], TableWriter] = {}
        self._sequences: dict[tuple[str, str], TableWriter] = {}
        self._part: str | None = None  # the one that grows
        self._ended: set[str] = set()
        for part, schema in self._schemas.items():
            for split in splits:
                path = f"{part}/{split}" if part else split
                self._rows[part, split] = self._table(work, path, schema.rows, layout, self._queue)
                self._sequences[part, split] = self._table(
                    work, f"{path}/sequences", (START, LENGTH, *schema.sequences), self._flat, self._queue
                )

    def append(self, part: str, split: str, rows: Any, sequences: Columns) -> None:
        """Add sequences with all rows; ``sequences`` has ``length`` and its columns, ``start`` is computed."""
        lengths = sequences["length"].astype(np.int64)
        first = self.append_rows(part, split, rows)
        start = first + np.cumsum(lengths) - lengths
        self.append_sequences(part, split, {**sequences, "start": start, "length": lengths})

    def append_rows(self, part: str, split: str, rows: Any) -> int:
        """Add rows of a sequence to be added by :meth:`append_sequences`; returns the first row's number.

        All rows of a part come before those of the next: its last chunks are written as soon as another one begins.
        """
        if part != self._part:
            self._begin(part)
        first = self._rows[part, split].rows
        self._rows[part, split].append(rows)
        return first

    def append_sequences(self, part: str, split: str, sequences: Columns) -> None:
        """Add sequences whose rows are already stored; ``sequences`` has ``start`` and ``length``."""
        self._sequences[part, split].append(sequences)

    def _begin(self, part: str) -> None:
        """End the part that grows, so that neither its rows nor its open files are kept, and go to another."""
        if part in self._ended:
            raise ValueError(f"part {part}: more rows after those of part {self._part}")
        if self._part is not None:
            for split in self._splits:
                self._rows[self._part, split].end()
                self._sequences[self._part, split].end()
            self._ended.add(self._part)
        self._part = part

    def counts(self) -> dict[str, dict[str, int]]:
        """``rows`` and ``sequences`` of each split so far, over all parts."""
        counts = {}
        for what, tables in (("rows", self._rows), ("sequences", self._sequences)):
            counts[what] = {split: sum(tables[part, split].rows for part in self.parts) for split in self._splits}
        return counts

    def bytes_written(self) -> int:
        """Bytes of all chunks that are written, and of the indexes of full shards."""
        return self._queue.bytes_written

    def bytes_waiting(self) -> int:
        """Bytes of the chunks that are not written yet, before they are encoded."""
        return self._queue.bytes_waiting

    def snapshot(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """State for :meth:`restore` in a later process: JSON values by the path of each table, and bytes by name."""
        self._queue.finish()
        facts: dict[str, Any] = {}
        contents: dict[str, bytes] = {}
        for table in self.tables():
            facts[table.path], of_table = table.snapshot()
            contents |= of_table
        return facts, contents

    def restore(self, facts: Mapping[str, Any], contents: Mapping[str, bytes]) -> None:
        """Resume from a snapshot after checking every shard that it names; raises DamagedStore."""
        for table in self.tables():
            table.restore(facts[table.path], contents)
        whole = {name: facts for table in self.tables() for name, facts in table.files.items()}
        for name, described in zip(whole, self._encoders.map(self._found, whole), strict=True):
            if described != whole[name]:
                raise DamagedStore(f"{name}: the shard that a stopped run has finished has changed")

    def _found(self, name: str) -> tuple[int, str] | None:
        return describe(self.work, name) if (self.work / name).is_file() else None

    def abandon(self) -> None:
        """Close all files as they are; complete shards remain for the next run."""
        for table in self.tables():
            table.abandon()

    def commit(self, target: Target, attributes: Mapping[str, Any], sources: Columns) -> Seal:
        """Finish all shards, write metadata and seal, and move the folder to its place, replacing the store there.

        ``attributes`` are JSON values that depend on neither clock nor machine; ``sources`` are columns with one row
        per raw file.
        """
        with writing(self.work):
            for stale in self.work.rglob("zarr.*"):  # of a commit that was stopped
                if stale.is_file():
                    stale.unlink()
        tables = [*self.tables(), self.sources_table(sources)]
        for table in tables:
            table.end()
        listed: SealedFiles = {}
        for table in tables:  # disks sync the shards of several at once faster
            table.close()
            listed.update(table.files)
        documents = self.documents(tables, attributes)
        documents[CHECKSUMS] = checksums_of(tables)
        listed |= {name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in documents.items()}
        seal = Seal(listed)
        paths = [self.work / name for name in documents]
        for _ in self._encoders.map(write_file, paths, documents.values()):  # disks sync many files at once faster
            pass
        write_file(self.work / SEAL, seal.text().encode())
        target.place(self.work)
        return seal

    def tables(self) -> list[TableWriter]:
        """Rows and sequences of every part and split."""
        return [*self._rows.values(), *self._sequences.values()]

    def sources_table(self, sources: Columns) -> TableWriter:
        """The table of raw files, with its rows."""
        table = self._table(self.work, "sources", SOURCES, self._flat, self._queue)
        table.append(sources)
        return table

    def documents(self, tables: Iterable[TableWriter], attributes: Mapping[str, Any]) -> dict[str, bytes]:
        """Every ``zarr.json``, by name: of the root, with its attributes, of every group and array."""
        # The root of a single-part store has the attributes of the part's schema.
        whole = self._schemas[""].attributes if "" in self._schemas else {}
        parts = {part: schema.attributes for part, schema in self._schemas.items() if part}
        groups = {"": {**whole, **attributes}, "sources": {}, **parts, **{table.path: {} for table in self.tables()}}
        documents = {f"{path}/zarr.json".lstrip("/"): group_document(facts) for path, facts in groups.items()}
        for table in tables:
            documents |= table.documents()
        return {name: as_bytes(document) for name, document in documents.items()}


def checksums_of(tables: Iterable[TableWriter]) -> bytes:
    """Checksums of all chunks, by array in the order of their paths."""
    arrays = {f"{table.path}/{name}": content for table in tables for name, content in table.checksums.items()}
    return b"".join(arrays[path] for path in sorted(arrays))
