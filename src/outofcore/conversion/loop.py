"""The main loop of a conversion: units converted in parallel, stored in order, saved periodically."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from itertools import islice
from typing import Any

from outofcore.conversion.assemble import Assembler
from outofcore.conversion.audit import Auditors
from outofcore.conversion.executors import in_order
from outofcore.conversion.inputs import Inputs
from outofcore.conversion.journal import Journal
from outofcore.conversion.progress import ConversionProgress
from outofcore.domains.domain import Domain
from outofcore.store.writer import StoreWriter


class Loop:
    """Takes units from raw files to the store."""

    def __init__(
        self,
        domain: Domain,
        section: Any,
        inputs: Inputs,
        journal: Journal,
        writer: StoreWriter,
        assembler: Assembler,
    ) -> None:
        self._domain = domain
        self._section = section
        self._inputs = inputs
        self._journal = journal
        self._writer = writer
        self._assembler = assembler
        self._done = 0
        self._whole = False

    def run(
        self,
        pool: Executor,
        *,
        ahead: int,
        done: int,
        watch: Callable[[int], None],
        checkpoint_seconds: float,
    ) -> None:
        """Convert all units but the first ``done``; parameters as for :func:`outofcore.conversion.run.convert`."""
        units = self._domain.units(self._inputs.files, self._section)
        total = sum(file.bytes for file in self._inputs.files)
        passed = 0
        saved = time.monotonic()
        name = f"convert {self._domain.name}"
        with ConversionProgress(name, total, self._journal.folder) as progress, Auditors() as auditors:
            for skipped in islice(units, done):
                passed += skipped.raw_bytes
            self._done = done
            # Closed at once on failure: otherwise the units ahead would still be converted.
            with closing(in_order(pool, self._domain.converter(self._section), units, ahead)) as converted:
                try:
                    for unit, result in converted:
                        self._whole = False
                        auditors.add(result.audits)
                        self._journal.rejects.write(self._assembler.add(unit, result).encode(errors="backslashreplace"))
                        self._done += 1
                        self._whole = True
                        passed += unit.raw_bytes
                        written = self._writer.bytes_written()
                        progress.update(passed, self._assembler.found, self._assembler.rejected.total(), written)
                        watch(written)
                        if time.monotonic() - saved > checkpoint_seconds:
                            auditors.finish()
                            self.save()
                            saved = time.monotonic()
                    auditors.finish()
                except BaseException:
                    # Units with pending oracle comparisons must not count as done.
                    whole, self._whole = self._whole, False
                    self._whole = whole and auditors.settled()
                    raise

    def save(self) -> None:
        """Save the state, unless it is in the middle of a unit or its input has changed: then the last save counts."""
        if not self._whole:
            return
        self._inputs.check_unchanged(self._assembler.unsaved_source_numbers())
        state = {
            "units": self._done,
            "tables": self._writer.snapshot(),
            "assembler": self._assembler.snapshot(),
        }
        self._journal.save(state, self._assembler.unsaved_keys(), self._assembler.unsaved_sources())
        self._assembler.saved()
        self._writer.saved()
