"""A conversion from beginning to end: resume, units side by side, results in order, checkpoint, seal."""

from __future__ import annotations

import csv
import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcore.conversion.assemble import REJECT_COLUMNS, Assembler
from outofcore.conversion.cluster import ClusterExecutor, width
from outofcore.conversion.described import attributes, counted, sources
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.inputs import Inputs
from outofcore.conversion.journal import Journal, identity
from outofcore.conversion.loop import Loop
from outofcore.conversion.shards import KeepingExecutor, WorkerShards
from outofcore.conversion.splits import SPLITS
from outofcore.domains.domain import Domain
from outofcore.errors import DamagedStore, RawInputError
from outofcore.raw.files import RawFile
from outofcore.replacing import move_file
from outofcore.store.durable import writing
from outofcore.store.seal import Seal
from outofcore.store.upload import Upload
from outofcore.store.writer import StoreWriter

# A kill costs at most this much work; a checkpoint takes some tenths of a second.
CHECKPOINT_SECONDS = 10.0
# How long a stopped conversion waits for the workers of a cluster, to save what was done since the last checkpoint.
SAVE_SECONDS = 5.0


@dataclass(frozen=True)
class Conversion:
    """What is to be converted, and where it is to stand.

    Attributes
    ----------
    domain, section
        The kind of data and its typed section of params.yaml.
    files
        The raw input, sorted.
    store
        Final place of the store.
    rejects
        Final place of the table of rejects (CSV).
    upload
        Where the store goes instead; ``store`` then only says where work in progress stands.
    """

    domain: Domain
    section: Any
    files: Sequence[RawFile]
    store: Path
    rejects: Path
    upload: Upload | None = None

    def work(self, scratch: Path | None) -> Path:
        """The work folder: in ``scratch``, where each workspace has its own, or next to the store."""
        if scratch is None:
            return self.store.with_name(f"{self.store.name}.work")
        workspace = hashlib.sha256(os.fsencode(self.store.resolve())).hexdigest()[:8]
        return scratch / f"{self.store.name}.{workspace}.work"


@dataclass(frozen=True)
class Outcome:
    """What a conversion left.

    Attributes
    ----------
    seal
        The store's seal.
    figures
        Content of ``metrics/<domain>/convert.json``: the same on every machine.
    resumed_units
        Units that an earlier, stopped run had done.
    """

    seal: Seal
    figures: dict[str, Any]
    resumed_units: int


def convert(
    conversion: Conversion,
    forecast: Estimate,
    *,
    executor: AbstractContextManager[Executor],
    workers: int,
    watch: Callable[[int], None],
    scratch: Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Outcome:
    """Convert raw files into a sealed store.

    A run that was stopped goes on from its last checkpoint, with the same bytes in the end; one of other input or
    params is thrown away first.

    Parameters
    ----------
    conversion
        What and where.
    forecast
        What was expected, for the metrics.
    executor, workers
        Where units are converted, and how many at once; they change no byte.
    watch
        Called between units with the bytes of the store so far; raises :class:`outofcore.errors.SpaceError` when a disk
        runs full.
    scratch
        Folder for the work in progress; None for beside the store, where finishing is one rename.
    checkpoint_seconds
        How much work a kill may cost.

    Raises
    ------
    AuditError
        If engine and oracle disagree about a record.
    ClusterError
        If a process that converts or audits is gone.
    RawInputError
        If no record is accepted, or a raw file changes meanwhile.
    StoreError
        If another process works in the same work folder.
    """
    domain, section, files = conversion.domain, conversion.section, conversion.files
    inputs = Inputs(files, threads=max(1, workers))
    schemas = domain.schemas(section, files)
    drop = getattr(section.filters, "duplicates", "keep") != "keep"
    with (
        Journal(conversion.work(scratch), identity(domain.name, section, inputs, schemas)) as journal,
        ThreadPoolExecutor(max(1, workers), thread_name_prefix="encode") as encoders,
        executor as pool,
    ):
        shards: WorkerShards | None = None

        def begin() -> tuple[StoreWriter, Assembler]:
            nonlocal shards
            if isinstance(pool, ClusterExecutor):
                shards = WorkerShards(pool, journal.folder / "pieces", conversion.upload)
            table, layout = shards.table if shards else None, section.store.layout()
            writer = StoreWriter(
                journal.store, schemas, layout, SPLITS, encoders, table=table, upload=conversion.upload
            )
            return writer, Assembler(writer, section.splits, drop_duplicates=drop)

        if conversion.upload:
            conversion.upload.unseal()
        writer, assembler, done = _resume(domain.name, journal, begin)
        converters = KeepingExecutor(pool) if isinstance(pool, ClusterExecutor) else pool
        loop = Loop(domain, section, inputs, journal, writer, assembler)
        try:
            ahead = 2 * width(pool, workers) + 2
            loop.run(converters, ahead=ahead, done=done, watch=watch, checkpoint_seconds=checkpoint_seconds)
        except DamagedStore:  # what an earlier run has left here, or at the address
            writer.abandon()
            journal.clear()
            raise
        except BaseException:
            if shards:
                shards.stop_within(SAVE_SECONDS)
            with suppress(
                BaseException
            ):  # a full disk, a lost cluster, Ctrl-C again: the first error is the one to report
                loop.save()
            writer.abandon()
            raise
        if not assembler.accepted:
            writer.abandon()
            _keep_rejects(conversion, journal)
            journal.clear()
            raise RawInputError(_nothing(conversion, assembler))
        try:
            root = attributes(domain, section, schemas, counted(assembler, writer))
            inputs.check_unchanged()
            seal = writer.commit(conversion.store, root, sources(files, assembler, inputs.digests))
        except DamagedStore:
            writer.abandon()
            journal.clear()
            raise
        except BaseException:
            writer.abandon()
            raise
        _keep_rejects(conversion, journal)
        journal.clear()
    return Outcome(seal, _figures(forecast, files, assembler, counted(assembler, writer), seal), done)


def _resume(
    name: str, journal: Journal, begin: Callable[[], tuple[StoreWriter, Assembler]]
) -> tuple[StoreWriter, Assembler, int]:
    """Writer and assembler as the last checkpoint has left them, and the units that it counts."""
    opened: list[StoreWriter] = []
    try:
        saved = journal.resume()
        writer, assembler = begin()
        opened.append(writer)
        if saved is not None:
            writer.restore(saved.state["tables"])
            assembler.restore(saved.state["assembler"], saved.keys, saved.sources)
            return writer, assembler, int(saved.state["units"])
    except DamagedStore as error:
        for writer in opened:
            writer.abandon()
        sys.stderr.write(
            f"convert {name}: what a stopped run has left in {journal.folder} is damaged ({error}); "
            "converting from the beginning\n"
        )
        journal.begin()
        writer, assembler = begin()
    journal.rejects.write(f"{','.join(REJECT_COLUMNS)}\n".encode())
    return writer, assembler, 0


def _figures(
    forecast: Estimate, files: Sequence[RawFile], assembler: Assembler, facts: Mapping[str, Any], seal: Seal
) -> dict[str, Any]:
    rows = sum(facts["rows"].values())
    stored = sum(size for size, _ in seal.files.values())
    return {
        **facts,
        **dict(sorted(assembler.counts.items())),
        "bytes_raw": sum(file.bytes for file in files),
        "bytes_store": stored,
        "bytes_per_row": round(stored / rows, 3) if rows else 0.0,
        "estimate_bytes": forecast.store_bytes,
        "audited": assembler.audited,
        "audit_differences": 0,
        "digest": seal.digest,
    }


def _keep_rejects(conversion: Conversion, journal: Journal) -> None:
    with writing(conversion.rejects):
        move_file(journal.rejects.path, conversion.rejects)


def _nothing(conversion: Conversion, assembler: Assembler) -> str:
    """What to tell of an input out of which no record is stored, but listed as rejected."""
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in assembler.rejected.most_common(5))
    with conversion.rejects.open(encoding="utf-8", newline="") as lines:
        listed = next(csv.DictReader(lines), None)
    first = " ".join(f"; the first: {listed['file']}, {listed['detail']}".split()) if listed else ""
    return (
        f"{conversion.domain.name}.raw: none of the {assembler.found:,} records in {len(conversion.files):,} files was "
        f"accepted ({reasons or 'they are empty'}), so there is no store{first}; all are listed in "
        f"{conversion.rejects}; look at raw, source and filters of {conversion.domain.name} in params.yaml"
    )
