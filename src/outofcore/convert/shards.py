"""Shards that the workers of a cluster write: the driver sees keys, counts and digests, never a row.

A worker keeps the rows that it made of a unit. The driver decides, in the order of units, which of them the store takes
and under which numbers, and the worker encodes these into pieces (:mod:`outofcore.store.pieces`) in the conversion's
work folder, which all share. When all rows of a shard are in pieces, some worker writes it, under a name of its own;
the driver gives it the name by which it counts. So a worker that dies takes no more with it than the units that it had
in hand, and nothing that a worker does late, or twice, reaches a store.
"""

from __future__ import annotations

import shutil
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from zarr.abc.store import Store

from outofcore.convert.cluster import ClusterExecutor
from outofcore.raw.rows import Ints, KeptRows, taken
from outofcore.raw.unit import UnitResult
from outofcore.store.form import TableForm
from outofcore.store.pieces import Encoded, write_parts, write_piece, write_shard
from outofcore.store.schema import Columns, Field, Layout
from outofcore.store.shards import shard_name, unfinished
from outofcore.store.table import Files, restored
from outofcore.store.upload import Upload

Job = tuple[str, int, Ints]
"""Path of a table, number that the first of the rows gets in it, and spans of a unit's rows."""


@dataclass(frozen=True)
class Piece:
    """Rows of one shard that stand in a file of the folder of pieces."""

    first: int
    rows: int
    name: str


class KeepingExecutor(Executor):
    """Has units converted by workers that keep the rows: a result says only which they are.

    Parameters
    ----------
    cluster
        The workers.
    """

    def __init__(self, cluster: ClusterExecutor) -> None:
        self._cluster = cluster

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a unit converted."""
        kept = self._cluster.keep(fn, *args, **kwargs)
        return self._cluster.soon(_without_rows, kept, then=lambda result: replace(result, kept=kept))


def _without_rows(result: UnitResult) -> UnitResult:
    return replace(result, rows={})


class WorkerShards:
    """The row tables of a store whose shards workers write.

    Parameters
    ----------
    cluster
        The workers.
    folder
        For pieces and unfinished shards, on a filesystem that all workers share with the driver.
    upload
        Where workers put whole shards; None where they stay in the store's folder.
    """

    def __init__(self, cluster: ClusterExecutor, folder: Path, upload: Upload | None = None) -> None:
        self.folder = folder
        self.upload = upload
        self._cluster = cluster
        self._tables: dict[str, WorkerTable] = {}
        self._unit: Any = None
        self._jobs: list[Job] = []
        self._encoding: deque[Future[list[tuple[str, list[Piece]]]]] = deque()
        self._encoder: Encoder | None = None
        self._finished = False
        cluster.share(folder)
        for stale in folder.glob("*.shard"):  # of a run that was killed
            shutil.rmtree(stale, ignore_errors=True)

    def table(
        self, root: Path, path: str, fields: tuple[Field, ...], layout: Layout, encoders: Executor
    ) -> WorkerTable:
        """A table of the store that grows in ``root``; what the driver could encode with is not asked for."""
        del encoders
        self._tables[path] = WorkerTable(self, root, path, TableForm(fields, layout))
        return self._tables[path]

    def encode(self, path: str, first: int, rows: KeptRows) -> None:
        """Have rows of a unit put into pieces, together with what other tables take of the same unit."""
        if rows.unit is not self._unit:
            self._flush()
        self._unit = rows.unit
        self._jobs.append((path, first, rows.spans))

    def drain(self) -> None:
        """Wait until all rows that were given so far are in pieces."""
        self._flush()
        while self._encoding:
            self._take()

    def finish(self) -> None:
        """Have the last shards of all tables written."""
        if not self._finished:
            self.drain()
            for table in self._tables.values():
                table.finish()
        self._finished = True

    def write(self, path: str, number: int, pieces: Sequence[Piece]) -> Future[tuple[str, Files]]:
        """Have a shard written by a worker."""
        form = self._tables[path].form
        return self._cluster.soon(_write_shard, self.folder, path, form, number, [*pieces], self.upload)

    def _flush(self) -> None:
        if not self._jobs:
            return
        if self._encoder is None:
            forms = {path: table.form for path, table in self._tables.items()}
            self._encoder = Encoder(self.folder, forms)
        self._encoding.append(self._cluster.soon(self._encoder, self._unit, self._jobs))
        self._unit, self._jobs = None, []
        while self._encoding and (self._encoding[0].done() or len(self._encoding) > 2 * self._cluster.width):
            self._take()

    def _take(self) -> None:
        for path, pieces in self._encoding[0].result():  # one that failed stays, so that nobody goes on without it
            self._tables[path].arrived(pieces)
        self._encoding.popleft()


class WorkerTable:
    """Numbers the rows of one table; workers write its shards. To a store it is what a ``TableWriter`` is.

    Attributes
    ----------
    path
        The table's group in the store.
    form
        Its fields and layout.
    rows
        Rows appended so far.
    files
        The shards that are whole, up to the first that is not.
    """

    def __init__(self, shards: WorkerShards, root: Path, path: str, form: TableForm) -> None:
        self.path = path
        self.form = form
        self.rows = 0
        self.files: Files = {}
        self._shards = shards
        self._root = root
        self._pieces: list[Piece] = []  # of the shard that is not full
        self._writing: deque[tuple[list[Piece], Future[tuple[str, Files]]]] = deque()
        self._written = 0
        self._spent: list[Piece] = []

    def append(self, rows: KeptRows) -> None:
        """Add rows that a worker keeps."""
        if len(rows):
            self._shards.encode(self.path, self.rows, rows)
            self.rows += len(rows)
        self._take(wait=False)

    def arrived(self, pieces: Sequence[Piece]) -> None:
        """Take note of the next rows that stand in pieces; a shard that they fill is written."""
        size = self.form.layout.shard_rows
        for piece in pieces:
            self._pieces.append(piece)
            if (piece.first + piece.rows) % size == 0:
                self._write()

    def finish(self) -> None:
        """Have the last shard written, full or not; all rows must have arrived."""
        if self._pieces:
            self._write()

    def close(self) -> None:
        """Wait for all shards."""
        self._shards.finish()
        self._take(wait=True)

    def write_metadata(self, store: Store) -> None:
        """Write each array's ``zarr.json``, now that the number of rows is known."""
        self.form.write_metadata(store, self.path, self.rows)

    def snapshot(self) -> dict[str, Any]:
        """What a later process needs to go on from here."""
        self._shards.drain()
        self._take(wait=False)
        pieces = [*(piece for group, _ in self._writing for piece in group), *self._pieces]
        return {
            "rows": self.rows,
            "shard": self._written,
            "files": dict(self.files),
            "folder": str(self._shards.folder),
            "pieces": [[piece.first, piece.rows, piece.name] for piece in pieces],
        }

    def saved(self) -> None:
        """Remove pieces of shards that the state on the disk counts as whole."""
        for piece in self._spent:
            (self._shards.folder / piece.name).unlink(missing_ok=True)
        self._spent = []

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`snapshot`, or from that of a ``TableWriter``."""
        self.rows = state["rows"]
        self._written = state["shard"]
        self.files = {name: (size, digest) for name, (size, digest) in state["files"].items()}
        if "pieces" in state:
            self.arrived([Piece(*each) for each in state["pieces"]])
        else:
            self.arrived(self._unfinished(state))

    def _unfinished(self, state: Mapping[str, Any]) -> list[Piece]:
        """The rows of a shard that a ``TableWriter`` has begun, as a piece."""
        fields, size = self.form.fields, self.form.layout.chunk_rows
        parts: list[tuple[int, Encoded]] = []
        if state["lengths"]:
            chunks = self.form.layout.shard_rows // size
            names = [f"{field.name}/{shard_name(self._written, 1 + len(field.shape))}" for field in fields]
            bodies = [
                unfinished(self._root / self.path / name, chunks, state["lengths"][field.name])
                for field, name in zip(fields, names, strict=True)
            ]
            parts = [(size, [*body]) for body in zip(*bodies, strict=True)]
        rest = [restored(field, state["waiting"][field.name]) for field in fields]
        if len(rest[0]):
            codecs = self.form.codecs()
            parts.append((len(rest[0]), [codec.encode(rows) for codec, rows in zip(codecs, rest, strict=True)]))
        if not parts:
            return []
        name = f"{uuid.uuid4().hex}.piece"
        write_parts(self._shards.folder / name, parts)
        return [Piece(self._written * self.form.layout.shard_rows, sum(rows for rows, _ in parts), name)]

    def abandon(self) -> None:
        """Leave everything as it is; what workers still write, nobody asks for."""
        for _, shard in self._writing:
            shard.cancel()

    def _write(self) -> None:
        number = self._pieces[0].first // self.form.layout.shard_rows
        self._writing.append((self._pieces, self._shards.write(self.path, number, self._pieces)))
        self._pieces = []

    def _take(self, *, wait: bool) -> None:
        while self._writing and (wait or self._writing[0][1].done()):
            pieces, shard = self._writing[0]
            folder, files = shard.result()
            for name in () if self._shards.upload else files:
                final = self._root / self.path / name
                final.parent.mkdir(parents=True, exist_ok=True)
                (self._shards.folder / folder / name).replace(final)
            shutil.rmtree(self._shards.folder / folder)
            self.files.update({f"{self.path}/{name}": facts for name, facts in files.items()})
            self._written += 1
            self._spent += pieces
            self._writing.popleft()


@dataclass(frozen=True)
class Encoder:
    """Puts rows of a unit into pieces, on the worker that has them.

    Attributes
    ----------
    folder
        Where pieces stand.
    forms
        The tables by path.
    """

    folder: Path
    forms: Mapping[str, TableForm]

    def __call__(self, result: UnitResult, jobs: Sequence[Job]) -> list[tuple[str, list[Piece]]]:
        """Write what each job takes."""
        return [(path, [*self._pieces(path, first, taken(result.rows, spans))]) for path, first, spans in jobs]

    def _pieces(self, path: str, first: int, columns: Columns) -> Iterator[Piece]:
        form = self.forms[path]
        size, count = form.layout.shard_rows, len(columns[form.fields[0].name])
        cuts = [0, *range(size - first % size, count, size), count]
        for start, stop in pairwise(cuts):
            name = f"{uuid.uuid4().hex}.piece"
            part = {name: array[start:stop] for name, array in columns.items()}
            write_piece(self.folder / name, form, first + start, part)
            yield Piece(first + start, stop - start, name)


def _write_shard(
    folder: Path, path: str, form: TableForm, number: int, pieces: Sequence[Piece], upload: Upload | None
) -> tuple[str, Files]:
    """The name of the folder in which a shard stands, and its files."""
    own = f"{uuid.uuid4().hex}.shard"
    files = write_shard(folder / own, form, number, [folder / piece.name for piece in pieces])
    if upload:
        upload.take(folder / own, files, into=path)
    return own, files
