"""A conversion from beginning to end: resume, units side by side, results in order, checkpoint, seal."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from outofcore.convert.assemble import REJECT_COLUMNS, Assembler
from outofcore.convert.audit import Auditors
from outofcore.convert.cluster import ClusterExecutor, width
from outofcore.convert.described import attributes, counted, sources
from outofcore.convert.estimate import Estimate
from outofcore.convert.executors import in_order
from outofcore.convert.journal import Journal, identity
from outofcore.convert.progress import ConversionProgress
from outofcore.convert.shards import KeepingExecutor, WorkerShards
from outofcore.convert.splits import SPLITS
from outofcore.domains.domain import Domain
from outofcore.errors import DamagedStore, RawInputError
from outofcore.raw.files import RawFile
from outofcore.store.seal import Seal
from outofcore.store.upload import Upload
from outofcore.store.writer import StoreWriter

# A kill costs at most this much work; a checkpoint takes some tenths of a second.
CHECKPOINT_SECONDS = 10.0


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
        """The work folder: in ``scratch``, or beside the store on the same filesystem."""
        return (scratch or self.store.parent) / f"{self.store.name}.work"


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
        If no record is accepted.
    """
    domain, section, files = conversion.domain, conversion.section, conversion.files
    journal = Journal(conversion.work(scratch), identity(domain.name, section, files, domain.schemas(section, files)))
    drop = getattr(section.filters, "duplicates", "keep") == "drop"
    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="encode") as encoders, executor as pool:
        state = journal.resume()
        schemas, layout = domain.schemas(section, files), section.store.layout()
        table, converters, upload = None, pool, conversion.upload
        if upload:
            upload.unseal()
        if isinstance(pool, ClusterExecutor):
            table = WorkerShards(pool, journal.folder / "pieces", upload).table
            converters = KeepingExecutor(pool)
        writer = StoreWriter(journal.store, schemas, layout, SPLITS, encoders, table=table, upload=upload)
        assembler = Assembler(writer, section.splits, drop_duplicates=drop)
        done = 0
        if state is None:
            journal.rejects.write_text(",".join(REJECT_COLUMNS) + "\n")
        else:
            done = int(state["units"])
            writer.restore(state["tables"])
            assembler.restore(state["assembler"], state["keys"])
        loop = _Loop(conversion, journal, writer, assembler, watch, checkpoint_seconds)
        try:
            loop.run(converters, ahead=2 * width(pool, workers) + 2, done=done)
        except DamagedStore:  # what an earlier run has left here, or at the address
            writer.abandon()
            journal.clear()
            raise
        except BaseException:
            with suppress(OSError):  # a full disk may have no room even for this
                loop.save()
            writer.abandon()
            raise
        if not assembler.accepted:
            writer.abandon()
            _keep_rejects(conversion, journal)
            journal.clear()
            raise RawInputError(_nothing(conversion, assembler))
        try:
            seal, figures = _commit(conversion, forecast, journal, writer, assembler, encoders)
        except DamagedStore:
            writer.abandon()
            journal.clear()
            raise
        except BaseException:
            writer.abandon()
            raise
    return Outcome(seal, figures, done)


class _Loop:
    """The units of a conversion, one after another."""

    def __init__(
        self,
        conversion: Conversion,
        journal: Journal,
        writer: StoreWriter,
        assembler: Assembler,
        watch: Callable[[int], None],
        checkpoint_seconds: float,
    ) -> None:
        self._conversion = conversion
        self._journal = journal
        self._writer = writer
        self._assembler = assembler
        self._watch = watch
        self._checkpoint_seconds = checkpoint_seconds
        self._done = 0
        self._whole = False

    def run(self, pool: Executor, *, ahead: int, done: int) -> None:
        conversion = self._conversion
        units = conversion.domain.units(conversion.files, conversion.section)
        total = sum(file.bytes for file in conversion.files)
        passed = 0
        saved = time.monotonic()
        name = f"convert {conversion.domain.name}"
        with (
            ConversionProgress(name, total, self._journal.folder) as progress,
            self._journal.rejects.open("a", encoding="utf-8", errors="backslashreplace") as rejects,
            Auditors() as auditors,
        ):
            for skipped in islice(units, done):
                passed += skipped.raw_bytes
            converted = in_order(pool, conversion.domain.converter(conversion.section), units, ahead)
            self._done = done
            try:
                for unit, result in converted:
                    self._whole = False
                    auditors.add(result.audits)
                    rejects.write(self._assembler.add(unit, result))
                    self._done += 1
                    self._whole = True
                    passed += unit.raw_bytes
                    progress.update(
                        passed,
                        self._assembler.found,
                        self._assembler.rejected.total(),
                        self._writer.bytes_written(),
                    )
                    self._watch(self._writer.bytes_written())
                    if time.monotonic() - saved > self._checkpoint_seconds:
                        rejects.flush()
                        auditors.finish()
                        self.save()
                        saved = time.monotonic()
                auditors.finish()
            except BaseException:
                # What was not compared with its oracle must not count as done.
                whole, self._whole = self._whole, False
                self._whole = whole and auditors.settled()
                raise

    def save(self) -> None:
        """Bring the state to the disk, unless it stands in the middle of a unit: then the last one saved counts."""
        if not self._whole:
            return
        state = {
            "units": self._done,
            "tables": self._writer.snapshot(),
            "assembler": self._assembler.snapshot(),
        }
        self._journal.save(state, self._assembler.unsaved_keys())
        self._assembler.saved()
        self._writer.saved()


def _commit(
    conversion: Conversion,
    forecast: Estimate,
    journal: Journal,
    writer: StoreWriter,
    assembler: Assembler,
    encoders: Executor,
) -> tuple[Seal, dict[str, Any]]:
    domain, section, files = conversion.domain, conversion.section, conversion.files
    facts = counted(assembler, writer)
    root = attributes(domain, section, domain.schemas(section, files), facts)
    digests = encoders.map(RawFile.digest, files)
    seal = writer.commit(conversion.store, root, sources(files, assembler, digests))
    _keep_rejects(conversion, journal)
    journal.clear()
    rows = sum(facts["rows"].values())
    stored = sum(size for size, _ in seal.files.values())
    figures = {
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
    return seal, figures


def _keep_rejects(conversion: Conversion, journal: Journal) -> None:
    conversion.rejects.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(journal.rejects, conversion.rejects)  # perhaps to another filesystem


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
