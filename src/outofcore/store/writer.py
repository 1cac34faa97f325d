"""Writing a store: tables grow in a work folder; the seal comes last, then one rename."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store

from outofcore.store.schema import LENGTH, START, Columns, Field, Layout, Schema
from outofcore.store.seal import SEAL, Seal, describe
from outofcore.store.shards import ShardFile, ShardMaker
from outofcore.store.table import Files, Table, TableWriter
from outofcore.store.upload import Upload

SOURCES = (
    Field(name="name", dtype="string", doc="path relative to the raw input"),
    Field(name="digest", dtype="string", doc="SHA-256 of the file as it lay on disk"),
    Field(name="bytes", dtype="int64", doc="its size on disk"),
    Field(name="found", dtype="int64", doc="records found in it"),
    Field(name="accepted", dtype="int64", doc="records that became sequences"),
    Field(name="rejected", dtype="int64", doc="records that did not"),
)
# Sequences are few beside rows, and text columns keep no fixed size: one layout serves every store.
SEQUENCE_CHUNK_ROWS = 4096


class StoreWriter:
    """Builds a store beside its final place.

    Parameters
    ----------
    work
        Folder to build in, on the filesystem of the final place.
    schemas
        Tables of each part; the key is "" where a store has one part.
    layout
        Codec and sizes for the rows.
    splits
        Names of the splits, each a group in every part.
    encoders
        Where chunks are encoded.
    shard
        What takes the chunks of a shard.
    table
        Makes the tables of rows, which take what is appended, whatever stands for rows; None for those that write here.
    upload
        Where whole shards go; None where they stay.

    Attributes
    ----------
    parts
        Names of the parts.
    """

    def __init__(
        self,
        work: Path,
        schemas: Mapping[str, Schema],
        layout: Layout,
        splits: tuple[str, ...],
        encoders: Executor,
        shard: ShardMaker = ShardFile,
        table: Callable[[Path, str, tuple[Field, ...], Layout, Executor], Table] | None = None,
        upload: Upload | None = None,
    ) -> None:
        self.work = work
        self._schemas = dict(schemas)
        self.parts = tuple(schemas)
        self._splits = splits
        self._encoders = encoders
        self._upload = upload
        self._write = partial(TableWriter, shard=shard, upload=upload)
        self._flat = replace(layout, chunk_rows=SEQUENCE_CHUNK_ROWS, shard_rows=SEQUENCE_CHUNK_ROWS * 256)
        self._rows: dict[tuple[str, str], Table] = {}
        self._sequences: dict[tuple[str, str], TableWriter] = {}
        for part, schema in self._schemas.items():
            for split in splits:
                path = f"{part}/{split}" if part else split
                self._rows[part, split] = (table or self._write)(work, path, schema.rows, layout, encoders)
                self._sequences[part, split] = self._write(
                    work, f"{path}/sequences", (START, LENGTH, *schema.sequences), self._flat, encoders
                )

    def append(self, part: str, split: str, rows: Any, sequences: Columns) -> None:
        """Add sequences with all their rows; ``sequences`` holds ``length`` and its columns, ``start`` is computed."""
        lengths = sequences["length"].astype(np.int64)
        first = self.append_rows(part, split, rows)
        start = first + np.cumsum(lengths) - lengths
        self.append_sequences(part, split, {**sequences, "start": start, "length": lengths})

    def append_rows(self, part: str, split: str, rows: Any) -> int:
        """Add rows of a sequence that :meth:`append_sequences` will name; returns the number of the first of them."""
        first = self._rows[part, split].rows
        self._rows[part, split].append(rows)
        return first

    def append_sequences(self, part: str, split: str, sequences: Columns) -> None:
        """Add sequences whose rows stand already; ``sequences`` holds ``start`` and ``length`` too."""
        self._sequences[part, split].append(sequences)

    def count(self, split: str) -> tuple[int, int]:
        """Rows and sequences of a split so far, over all parts."""
        rows = sum(table.rows for (_, name), table in self._rows.items() if name == split)
        return rows, sum(table.rows for (_, name), table in self._sequences.items() if name == split)

    def bytes_written(self) -> int:
        """Bytes of all finished shards."""
        return sum(size for table in self.tables() for size, _ in table.files.values())

    def snapshot(self) -> dict[str, Any]:
        """State of every table, for :meth:`restore` in a later process."""
        return {table.path: table.snapshot() for table in self.tables()}

    def saved(self) -> None:
        """Remove what only a snapshot before the last one needs: that one is on the disk."""
        for table in self.tables():
            table.saved()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        for table in self.tables():
            table.restore(state[table.path])

    def abandon(self) -> None:
        """Close all files as they are; what is whole stays for the next run."""
        for table in self.tables():
            table.abandon()

    def commit(self, final: Path, attributes: Mapping[str, Any], sources: Columns) -> Seal:
        """Finish all shards, write the metadata and the seal, and rename the folder to its final place.

        Parameters
        ----------
        final
            Where the store stands afterwards, if it is not uploaded; what stood there is replaced.
        attributes
            What the root group says of the store; JSON values, nothing that a clock or a machine decides.
        sources
            The columns of ``sources/``, one row a raw file.
        """
        for stale in self.work.rglob("zarr.*"):  # of a commit that was stopped: whole ones, and zarr's own .partial
            stale.unlink()
        store = zarr.storage.LocalStore(self.work)
        self.write_groups(store, attributes)
        listed: Files = {}
        for each in [*self.tables(), self.sources_table(sources)]:
            each.close()
            each.write_metadata(store)
            listed.update(each.files)
        for path in sorted(self.work.rglob("zarr.json")):
            name = path.relative_to(self.work).as_posix()
            listed[name] = describe(self.work, name)
        seal = Seal(listed)
        if self._upload:
            self._upload.take(self.work, [name for name in listed if name.endswith("zarr.json")])
            self._upload.finish(seal)
            shutil.rmtree(self.work)
        else:
            (self.work / SEAL).write_text(seal.text())
            _move(self.work, final)
        return seal

    def tables(self) -> list[Table]:
        """Rows and sequences of every part and split."""
        return [*self._rows.values(), *self._sequences.values()]

    def sources_table(self, sources: Columns) -> TableWriter:
        """The table of raw files, with its rows."""
        table = self._write(self.work, "sources", SOURCES, self._flat, self._encoders)
        table.append(sources)
        return table

    def write_groups(self, store: Store, attributes: Mapping[str, Any]) -> None:
        """Write ``zarr.json`` of the root, with its attributes, and of every group."""
        # A store of one part is that part: its root says what the part's schema says.
        whole = self._schemas[""].attributes if "" in self._schemas else {}
        zarr.create_group(store=store, attributes=_sorted({**whole, **attributes}))
        zarr.create_group(store=store, path="sources")
        for part, schema in self._schemas.items():
            if part:
                zarr.create_group(store=store, path=part, attributes=_sorted(schema.attributes))
            for split in self._splits:
                path = f"{part}/{split}" if part else split
                zarr.create_group(store=store, path=path)
                zarr.create_group(store=store, path=f"{path}/sequences")


def _move(work: Path, final: Path) -> None:
    """Give a sealed folder its final place in one step, also where that lies on another filesystem.

    What stands there makes way in one step too: at no moment is a part of a store to be seen.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    arriving, replaced = (final.with_name(f"{final.name}.work.{name}") for name in ("arriving", "replaced"))
    for stale in (arriving, replaced):  # of a run that was killed here
        shutil.rmtree(stale, ignore_errors=True)
    try:
        work.rename(arriving)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(work, arriving)
    if final.exists():
        final.rename(replaced)
    arriving.rename(final)
    for old in (replaced, work):
        shutil.rmtree(old, ignore_errors=True)


def _sorted(value: Any) -> Any:
    """Mappings with sorted keys, all the way down: equal content, equal bytes."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value
