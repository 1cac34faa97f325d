"""A conversion from beginning to end: resume, units in parallel, results in order, progress, checkpoints, seal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from outofcore.conversion.assemble import REJECTS_HEADER, Assembler
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import width
from outofcore.conversion.in_progress import StoreInProgress
from outofcore.conversion.inputs import Inputs, versions
from outofcore.conversion.journal import Journal, identity, work_folder
from outofcore.conversion.seen import Earlier, Keys
from outofcore.conversion.summary import attributes, doubts, frequent, sources
from outofcore.display.bar import Bar
from outofcore.domains.domain import Domain
from outofcore.domains.splits import SPLITS
from outofcore.domains.units import unit_converter
from outofcore.errors import DamagedStore, RawInputError, StoreError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate
from outofcore.settings.sizes import format_bytes
from outofcore.store.seal import Seal
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from outofcore.system.durable import WorkFolder, remove_unfinished, replacing, writing
from outofcore.system.parallel import in_order

# A kill costs at most this much work; a checkpoint takes some tenths of a second.
CHECKPOINT_SECONDS = 10.0
# Print a notice before digesting more than this.
NOTICE_BYTES = 10**9


@dataclass(frozen=True)
class ConversionResult:
    """What a conversion left."""

    seal: Seal  # of the store
    figures: dict[str, Any]  # content of ``metrics/<domain>/convert.json``: the same on every machine
    resumed_units: int  # that an earlier, stopped run had done
    keys: Keys | None  # of all sequences, sorted; None where duplicates are kept


@dataclass(frozen=True)
class Conversion:
    """The conversion of raw files into a sealed store."""

    domain: Domain
    section: Any  # of params.yaml
    files: Sequence[RawFile]  # sorted
    store: Path  # its final place
    rejects: Path  # final place of their table (CSV)
    earlier: Earlier | None = None  # of an entry, which is no store if nothing of it is accepted: those before it

    def run(
        self,
        forecast: Estimate,
        *,
        executor: AbstractContextManager[Executor],
        workers: int,
        watch: Callable[[int, int], None],
        scratch: Path | None = None,
        most_ahead: int | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> ConversionResult:
        """Convert; a stopped run resumes at its last checkpoint and ends with the same bytes.

        Work of an earlier run with other input or params is deleted first. ``executor``, ``workers`` and ``most_ahead``
        (units in flight) change no byte. Between units ``watch`` receives the bytes of the store that are written, and
        at most how many wait to be written; it raises SpaceError when a disk runs full. Work in progress is in
        ``scratch``, or next to the store, where finishing is one rename.

        Raises AuditError if engine and oracle disagree, ClusterError if a process is gone, RawInputError if nothing is
        accepted or a raw file changes meanwhile, StoreError if a file cannot be written or the work folder is in use.
        """
        self._refuse_other_file()
        if self._raw_bytes >= NOTICE_BYTES:
            sys.stderr.write(
                f"convert {self.domain.name}: digesting {format_bytes(self._raw_bytes)} of raw input first\n"
            )
        inputs = Inputs(self.files, threads=max(1, workers))
        schemas, name = self.domain.schemas(self.section, self.files), self.domain.name
        after = self.earlier.digest if self.earlier else ""
        made_of = identity(name, self.section, inputs, schemas, versions(name), after)
        with (
            Target(self.store) as target,
            self._work_folder(target, scratch) as work,
            closing(Journal(work, made_of)) as journal,
            ThreadPoolExecutor(max(1, workers), thread_name_prefix="encode") as encoders,
            executor as pool,
        ):
            target.put_back(journal.store)
            remove_unfinished(self.rejects)
            layout = self.section.store.layout()
            empty = partial(StoreWriter, journal.store, schemas, layout, SPLITS, encoders)
            build = StoreInProgress(self.section, inputs, journal, empty, self.earlier)
            seal = Seal({})
            resumed = build.resume(name)
            try:
                rate = forecast.audit_rate(self.section.audit.records)
                ahead = 2 * width(pool, workers) + 2
                ahead = min(ahead, most_ahead or ahead)
                self._convert_units(build, pool, rate, ahead, watch, checkpoint_seconds)
                with self._placed_rejects(journal):
                    if build.assembler.accepted:
                        root = attributes(self.domain, self.section, schemas, build.counts())
                        seal = build.seal(target, root, sources(self.files, build.assembler.by_source, inputs.digests))
            except DamagedStore:  # what an earlier run has left here
                build.writer.abandon()
                journal.clear()
                raise
            except BaseException:
                build.stop()
                raise
            build.writer.abandon()
            journal.clear()
        if not build.assembler.accepted and self.earlier is None:
            raise RawInputError(self._nothing_accepted(build.assembler))
        self._note_empty_splits(build)
        figures = self._figures(forecast, build, seal)
        return ConversionResult(seal, figures, resumed, build.assembler.keys() if self.earlier else None)

    def _refuse_other_file(self) -> None:
        """Raise StoreError if the place of the rejects has something else."""
        header = REJECTS_HEADER.encode()
        if self.rejects.is_file():
            with writing(self.rejects), self.rejects.open("rb") as table:
                if table.read(len(header)) == header:
                    return
        elif not os.path.lexists(self.rejects):
            return
        message = f"{self.rejects}: expected no such path, or an earlier list of rejects, got something else; nothing "
        message += "was touched: rename it, or choose another target"
        raise StoreError(message)

    def _work_folder(self, target: Target, scratch: Path | None) -> AbstractContextManager[WorkFolder]:
        """The folder where the store grows; the lock of the target holds wherever it is."""
        if scratch is None:
            return nullcontext(target)
        work = work_folder(self.store, scratch)
        return WorkFolder(work, f"{work}: another conversion works in this folder; wait until it has ended")

    def _convert_units(
        self,
        build: StoreInProgress,
        pool: Executor,
        rate: AuditRate,
        ahead: int,
        watch: Callable[[int, int], None],
        checkpoint_seconds: float,
    ) -> None:
        """Convert the units that are not done, in parallel, and store their results in order."""
        units = self.domain.units(self.files, self.section)
        convert = unit_converter(self.domain, self.section, rate)
        begun = saved = time.monotonic()
        with (
            Bar() as bar,
            # Closed at once on failure: otherwise the units ahead would still be converted.
            closing(in_order(pool, convert, units, ahead)) as converted,
        ):
            task = bar.add_task(f"convert {self.domain.name}", total=max(self._raw_bytes, 1))
            passed = sum(unit.raw_bytes for unit in islice(units, build.units))
            for unit, result in converted:
                build.add(unit, result)
                passed += unit.raw_bytes
                counts, written, now = build.assembler, build.writer.bytes_written(), time.monotonic()
                facts = progress_facts(counts.found, counts.rejected.total(), now - begun, written, build.folder)
                bar.update(task, completed=passed, facts=facts)
                watch(written, build.writer.bytes_waiting())
                if time.monotonic() - saved > checkpoint_seconds:
                    build.save()
                    saved = time.monotonic()
        build.end()

    @contextmanager
    def _placed_rejects(self, journal: Journal) -> Iterator[None]:
        """Copy the rejects next to their final place, and rename them there at the end.

        What the filesystem refuses thus shows before the store is moved; those in the work folder are for resuming.
        """
        with writing(self.rejects), replacing(self.rejects) as copy:
            shutil.copyfile(journal.rejects.path, copy)
            with copy.open("r+b") as stream:
                os.fsync(stream.fileno())
            yield

    @property
    def _raw_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def _figures(self, forecast: Estimate, build: StoreInProgress, seal: Seal) -> dict[str, Any]:
        counts, doubted = build.counts(), doubts(self.domain, self.section, build.assembler)
        rows = sum(counts["rows"].values())
        stored = sum(length for length, _ in seal.files.values())
        return {
            **counts,
            **dict(sorted(build.assembler.counts.items())),
            "bytes_raw": self._raw_bytes,
            "bytes_store": stored,
            "bytes_per_row": round(stored / rows, 3) if rows else 0.0,
            **({"estimate_bytes": forecast.store_bytes} if forecast.bound is None else {}),
            "audited": build.assembler.audited,
            **({"not_audited": self.domain.not_audited} if self.domain.not_audited else {}),
            "digest": seal.digest,
            **({"doubts": doubted} if doubted else {}),
        }

    def _note_empty_splits(self, build: StoreInProgress) -> None:
        """Name the splits that got no group; by content an empty one needs no note, so few sequences are there."""
        section, counts = self.section.splits, build.counts()["sequences"]
        wanted = {"train": section.by != "content", "val": bool(section.val), "test": bool(section.test)}
        if section.by == "date":
            wanted |= {"val": bool(section.val_from), "test": bool(section.test_from)}
        elif section.by == "content":
            wanted |= {"val": "val" in section.named, "test": "test" in section.named}
        if empty := [name for name, share in wanted.items() if share and not counts[name]]:
            names = " and ".join(empty)
            sys.stderr.write(f"note: {self.domain.name}.splits: nothing is in {names}, split by {section.by}\n")

    def _nothing_accepted(self, assembler: Assembler) -> str:
        """Message for an input of which no record is stored."""
        reasons = frequent(self.domain, assembler, assembler.rejected) or "they are empty"
        return (
            f"{self.domain.name}.raw: none of the {assembler.found:,} records in {len(self.files):,} files was "
            f"accepted, so there is no store: {reasons}; all are listed in {self.rejects}"
        )


def progress_facts(found: int, rejected: int, seconds: float, written: int, folder: Path) -> str:
    """Records per second, rejects, bytes written of the store, and free disk of its ``folder``."""
    return (
        f"{found:,} records ({found / max(seconds, 1e-6):,.0f}/s), {rejected:,} rejected, "
        # The shards of small input are written at the end.
        f"{f'{format_bytes(written)} written, ' if written else ''}"
        f"{format_bytes(shutil.disk_usage(folder).free)} free"
    )
