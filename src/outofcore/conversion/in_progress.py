"""A store that grows in the work folder, with its counts: resumed from a checkpoint, saved to the next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from outofcore.conversion.assemble import REJECTS_HEADER, Assembler
from outofcore.conversion.inputs import Inputs
from outofcore.conversion.journal import Journal, SavedState
from outofcore.conversion.seen import Earlier
from outofcore.conversion.summary import counted
from outofcore.domains.splits import splits_of
from outofcore.errors import DamagedStore
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.schema import Columns
from outofcore.store.seal import Seal
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter


class StoreInProgress:
    """The store of a conversion as far as it is built; ``empty`` makes the writer that it grows in."""

    def __init__(
        self,
        section: Any,
        inputs: Inputs,
        journal: Journal,
        empty: Callable[[], StoreWriter],
        earlier: Earlier | None = None,
    ) -> None:
        self.folder = journal.folder
        self.units = 0  # whose results the store holds
        self.savable = False  # whether the store holds whole units
        self._read: set[int] = set()  # raw files of the units that are not in a checkpoint yet
        self._section = section
        self._inputs = inputs
        self._journal = journal
        self._empty = empty
        self._earlier = earlier

    def resume(self, name: str) -> int:
        """Continue at the last checkpoint, or begin; returns the number of units that are done."""
        try:
            saved = self._journal.resume()
            self._open()
            if saved is not None:
                self._restore(saved)
                return self.units
        except DamagedStore as error:
            sys.stderr.write(
                f"convert {name}: what a stopped run has left in {self._journal.folder} is damaged ({error}); "
                "converting from the beginning\n"
            )
            self._journal.begin()
            self._open()
        self._journal.rejects.write(REJECTS_HEADER.encode())
        return 0

    def _open(self) -> None:
        """Begin with an empty store."""
        self.writer = self._empty()
        drop = getattr(self._section.filters, "duplicates", "keep") != "keep"
        split_of = partial(splits_of, section=self._section.splits)
        self.assembler = Assembler(self.writer, split_of, drop_duplicates=drop, earlier=self._earlier)

    def _restore(self, saved: SavedState) -> None:
        try:
            self.writer.restore(saved.state["tables"], saved.contents)
            self.assembler.restore(saved.state["assembler"], saved.keys, saved.sources)
        except DamagedStore:
            self.writer.abandon()
            raise
        self.units = int(saved.state["units"])

    def add(self, unit: Unit, result: UnitResult) -> None:
        """Store the result of the next unit; raises AuditError."""
        self.savable = False
        self._journal.rejects.write(self.assembler.add(unit, result).encode())
        self._read.update(source for source, _ in unit.places)
        self._read.update(unit.others)
        self.units += 1
        self.savable = True

    def end(self) -> None:
        """Record the last sequence, although its unit said that it continues."""
        self.savable = False
        self.assembler.end()
        self.savable = True

    def save(self) -> None:
        """Make a checkpoint; raises RawInputError if a file that it counts has changed."""
        self._inputs.check_unchanged(sorted(self._read))
        self.savable = False  # Ctrl-C between a chunk and its shard would lose it
        tables, contents = self.writer.snapshot()
        self.savable = True
        counts, keys, sources = self.assembler.snapshot()
        self._journal.save({"units": self.units, "tables": tables, "assembler": counts}, contents, keys, sources)
        self.assembler.saved()
        self._read.clear()

    def counts(self) -> dict[str, Any]:
        """Records found, accepted and rejected; rows and sequences of each split."""
        return counted(self.assembler, self.writer)

    def seal(self, target: Target, attributes: Mapping[str, Any], sources: Columns) -> Seal:
        """Finish the store and move it to its place; raises RawInputError if a raw file has changed."""
        self._inputs.check_unchanged()
        self.savable = False
        return self.writer.commit(target, attributes, sources)

    def stop(self) -> None:
        """Leave everything to the next run, with a checkpoint of what is whole."""
        if self.savable:
            with suppress(BaseException):  # a full disk, Ctrl-C again: the first error is the one to report
                self.save()
        self.writer.abandon()
