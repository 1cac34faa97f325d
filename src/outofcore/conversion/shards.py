"""Shards written by the workers of a cluster: the driver sees keys, counts and digests, never a row.

A worker keeps the rows of the units it converts. The driver decides, in unit order, which of them are stored and under
which numbers, and the worker encodes these into pieces (:mod:`outofcore.store.pieces`) in the shared work folder. When
all rows of a shard are in pieces, some worker writes it under a temporary name, and the driver renames it. So a dying
worker loses only its unfinished units, and nothing written late or twice reaches a store.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from zarr.abc.store import Store

from outofcore.conversion.cluster import ClusterExecutor
from outofcore.raw.rows import Ints, KeptRows, taken
from outofcore.raw.unit import UnitResult
from outofcore.store.durable import writing
from outofcore.store.encoding_queue import EncodingQueue
from outofcore.store.form import TableForm
from outofcore.store.pieces import Encoded, read_piece, write_parts, write_piece, write_shard
from outofcore.store.schema import Columns, Field, Layout
from outofcore.store.shards import shard_name, unfinished
from outofcore.store.table import Files, restored, size_of
from outofcore.store.upload import Upload

Job = tuple[str, int, Ints]
"""Path of a table, number of the first row in it, and spans of a unit's rows."""


@dataclass(frozen=True)
class Piece:
    """Rows of one shard in a file of the folder of pieces."""

    first: int
    rows: int
    name: str


class KeepingExecutor(Executor):
    """Converts units on workers that keep the rows: a result only has references to them."""

    def __init__(self, cluster: ClusterExecutor) -> None:
        self._cluster = cluster

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a unit converted."""
        kept = self._cluster.keep(fn, *args, **kwargs)
        return self._cluster.soon(_without_rows, kept, then=lambda result: replace(result, kept=kept))


def _without_rows(result: UnitResult) -> UnitResult:
    return replace(result, rows={})


class WorkerShards:
    """The row tables of a store whose shards are written by workers; pieces are in ``folder``, which all share."""

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
        self._until: float | None = None
        cluster.share(folder)
        for stale in folder.glob("*.shard"):  # of a run that was killed
            shutil.rmtree(stale, ignore_errors=True)

    def table(
        self, root: Path, path: str, fields: tuple[Field, ...], layout: Layout, queue: EncodingQueue
    ) -> WorkerTable:
        """A table of the store that grows in ``root``; the driver encodes nothing."""
        self._tables[path] = WorkerTable(self, root, path, TableForm(fields, layout), queue)
        return self._tables[path]

    def encode(self, path: str, first: int, rows: KeptRows) -> None:
        """Put rows of a unit into pieces, together with those for other tables from the same unit."""
        if rows.unit is not self._unit:
            self._flush()
        self._unit = rows.unit
        self._jobs.append((path, first, rows.spans))

    def stop_within(self, seconds: float) -> None:
        """Limit all further waiting, since the conversion has been stopped."""
        self._until = time.monotonic() + seconds

    def drain(self) -> None:
        """Wait until all rows are in pieces; raises TimeoutError after the limit of :meth:`stop_within`."""
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
        left = None if self._until is None else max(0.0, self._until - time.monotonic())
        for path, pieces in self._encoding[0].result(left):  # a failed one stays, for all later waits
            self._tables[path].arrived(pieces)
        self._encoding.popleft()


class WorkerTable:
    """Numbers the rows of one table whose shards are written by workers; replaces a ``TableWriter``."""

    def __init__(self, shards: WorkerShards, root: Path, path: str, form: TableForm, queue: EncodingQueue) -> None:
        self.path = path
        self.form = form
        self.rows = 0
        self.files: Files = {}
        self._queue = queue  # only counts what is written
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
        """Record the next rows as present in pieces, and write a shard that they complete."""
        size = self.form.layout.shard_rows
        for piece in pieces:
            self._pieces.append(piece)
            if (piece.first + piece.rows) % size == 0:
                self._write()

    def finish(self) -> None:
        """Write the last shard, full or not; all rows must have arrived."""
        if self._pieces:
            self._write()

    def close(self) -> None:
        """Wait for all shards."""
        self._shards.finish()
        self._take(wait=True)

    def write_metadata(self, store: Store) -> None:
        self.form.write_metadata(store, self.path, self.rows)

    def snapshot(self) -> dict[str, Any]:
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
        """Remove pieces of shards that the state on the disk counts as complete."""
        for piece in self._spent:
            with writing(self._shards.folder / piece.name):
                (self._shards.folder / piece.name).unlink(missing_ok=True)
        self._spent = []

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from a :meth:`snapshot`, or from that of a ``TableWriter``; raises DamagedStore."""
        self.rows = state["rows"]
        self._written = state["shard"]
        self.files = {name: (size, digest) for name, (size, digest) in state["files"].items()}
        self._queue.bytes_written += size_of(self.files)
        if "pieces" in state:
            pieces = [Piece(*each) for each in state["pieces"]]
            for piece in pieces:
                deque(read_piece(self._shards.folder / piece.name, self.form), maxlen=0)
            self.arrived(pieces)
        else:
            self.arrived(self._unfinished(state))

    def _unfinished(self, state: Mapping[str, Any]) -> list[Piece]:
        """The rows of a shard begun by a ``TableWriter``, as a piece."""
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
        """Leave everything as it is; late writes of workers are ignored."""
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
                with writing(final):
                    final.parent.mkdir(parents=True, exist_ok=True)
                    (self._shards.folder / folder / name).replace(final)
            shutil.rmtree(self._shards.folder / folder, ignore_errors=True)
            self.files.update({f"{self.path}/{name}": facts for name, facts in files.items()})
            self._queue.bytes_written += size_of(files)
            self._written += 1
            self._spent += pieces
            self._writing.popleft()


@dataclass(frozen=True)
class Encoder:
    """Writes rows of a unit into pieces, on the worker that has them."""

    folder: Path
    forms: Mapping[str, TableForm]

    def __call__(self, result: UnitResult, jobs: Sequence[Job]) -> list[tuple[str, list[Piece]]]:
        """Write the rows of each job."""
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
    """The name of the folder of a shard, and its files."""
    own = f"{uuid.uuid4().hex}.shard"
    files = write_shard(folder / own, form, number, [folder / piece.name for piece in pieces])
    if upload:
        upload.take(folder / own, files, into=path)
    return own, files
