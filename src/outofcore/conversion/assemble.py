"""Store unit results in order: remove duplicates, assign splits, count everything."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.seen import Earlier, Keys, SeenKeys, halves
from outofcore.display.console import visible
from outofcore.domains.splits import MIXED, SPLITS, UNDATED
from outofcore.errors import AuditError, ParamsError
from outofcore.ndarrays import Ints
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.schema import Columns
from outofcore.store.writer import StoreWriter

REJECTS_HEADER = "file,offset,reason,detail\n"
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
Rejected = tuple[int, int, str, str]
"""File (an index into the unit's), offset, reason and detail of a rejected record."""


class Assembler:
    """Puts the results of units into a store; found = accepted + all of ``rejected``."""

    def __init__(
        self,
        writer: StoreWriter,
        split_of: Callable[[Unit, UnitResult], npt.NDArray[Any]],
        splits: Sequence[str] = SPLITS,
        *,
        drop_duplicates: bool = False,
        earlier: Earlier | None = None,
    ) -> None:
        """``split_of`` gives the split of each sequence, an index into ``splits``, UNDATED or MIXED.

        Duplicates are also dropped of what ``earlier`` entries have.
        """
        self.found = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self.examples: dict[str, str] = {}  # file, byte and detail of the first reject of each reason
        self.counts: Counter[str] = Counter()
        self.audited = 0
        self.by_source: dict[int, list[int]] = {}
        self._writer = writer
        self._split_of = split_of
        self._splits = splits
        self._seen = SeenKeys() if drop_duplicates else None
        self._earlier = earlier or Earlier()
        self._unsaved: list[bytes] = []  # keys not yet in a checkpoint
        self._touched: set[int] = set()  # raw files whose counts are not yet in a checkpoint
        # The sequence that continues in the next unit; "split" is None for a duplicate.
        self._open: dict[str, Any] | None = None

    def add(self, unit: Unit, result: UnitResult) -> str:
        """Append a unit's sequences; returns its rejects as CSV lines by file and offset; raises AuditError."""
        if result.differences:
            raise AuditError(
                f"the engine and its oracle differ, nothing was sealed. Differences: {len(result.differences)}; "
                f"the first: {result.differences[0]}"
            )
        rejects: list[Rejected] = [
            (reject.file, reject.offset, reject.reason, reject.detail) for reject in result.rejects
        ]
        accepted = self._add_sequences(unit, result, rejects)
        self.found += result.found
        self.accepted += len(accepted)
        self.rejected += Counter(reason for _, _, reason, _ in rejects)
        self.counts.update(result.counts)
        self.audited += result.audited
        if result.found != len(accepted) + len(rejects):
            raise AssertionError(
                f"{unit.name}, at byte {unit.offset:,}: found {result.found} records, "
                f"but {len(accepted)} accepted + {len(rejects)} rejected"
            )
        self._count(unit, accepted, rejects)
        for file, offset, reason, detail in rejects:
            why = f": {detail}" if detail else ""
            self.examples.setdefault(reason, visible(f"{unit.places[file][1]} at byte {offset:,}{why}")[:120])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            (_cell(unit.places[file][1]), offset, reason, _cell(detail))
            for file, offset, reason, detail in sorted(rejects)
        )
        return text.getvalue()

    def _count(self, unit: Unit, accepted: Ints, rejects: list[Rejected]) -> None:
        """Count the records of each raw file; ``accepted`` and ``rejects`` name the unit's file of each."""
        stored = np.bincount(accepted, minlength=len(unit.places)).tolist()
        refused = Counter(file for file, *_ in rejects)
        for file, (source, _) in enumerate(unit.places):
            counts = self.by_source.setdefault(source, [0, 0])
            counts[0] += stored[file] + refused[file]
            counts[1] += stored[file]
            self._touched.add(source)

    def _add_sequences(self, unit: Unit, result: UnitResult, rejects: list[Rejected]) -> Ints:
        """Append new sequences, report duplicates as rejects, and return the file of each accepted record."""
        count = len(result.keys)
        if not count:
            return np.zeros(0, np.int64)
        ends = np.cumsum(result.sequences["length"], dtype=np.int64)
        first = int(result.continues)
        last = count - int(result.unfinished and count > first)
        stored = np.ones(count, bool)
        if result.continues:
            stored[0] = self._open is not None and self._open["split"] is not None
            self._go_on(result, int(ends[0]), finished=count > 1 or not result.unfinished)
        else:
            self.end()
        split = self._split_of(unit, result)[first:]
        new = split >= 0
        placed = np.flatnonzero(new)
        if self._seen is not None:
            keys = result.keys[first:][placed]
            first_here = self._seen.add(keys)
            self._unsaved.append(keys[first_here].tobytes())
            new[placed] = first_here & ~self._earlier.has(halves(keys))
        offsets = result.sequences.get("offset", np.full(count, unit.offset))[first:]
        files = result.places[first:]
        left_out = [("duplicate", "", placed[~new[placed]])]
        left_out += [("undated", "no date that decides the split", np.flatnonzero(split == UNDATED))]
        left_out += [("mixed_players", "its players are in different splits", np.flatnonzero(split == MIXED))]
        for reason, detail, these in left_out:
            where = zip(files[these].tolist(), offsets[these].tolist(), strict=True)
            rejects += [(file, int(offset), reason, detail) for file, offset in where]
        stored[first:] = new
        for name, values in result.stored_counts.items():
            if total := int(np.sum(values[stored], dtype=np.int64)):
                self.counts[name] += total
        body = slice(first, last)
        self._append(result, body, ends, np.where(new, split, -1)[: last - first])
        if last < count:
            row = int(ends[last - 1]) if last else 0
            self._begin(result, row, int(ends[-1]), self._splits[split[-1]] if new[-1] else None)
        accepted: Ints = files[new]
        return accepted

    def _append(self, result: UnitResult, body: slice, ends: Ints, split: npt.NDArray[Any]) -> None:
        """Append whole sequences; ``split`` is -1 for one that is dropped."""
        ends = ends[body]
        starts = ends - result.sequences["length"][body]
        for number, name in enumerate(self._splits):
            chosen = split == number
            if chosen.any():
                rows = taken(result.rows, spans_of(starts[chosen], ends[chosen]))
                columns = {key: column[body][chosen] for key, column in result.sequences.items()}
                self._writer.append(result.part, name, rows, columns)

    def _begin(self, result: UnitResult, row: int, end: int, split: str | None) -> None:
        """Take the rows of a last sequence that continues in the next unit."""
        self._open = {"split": split, "key": result.keys[-1].tobytes().hex()}
        if split is not None:
            rows = taken(result.rows, np.array([[row, end]]))
            self._open |= {
                "part": result.part,
                "start": self._writer.append_rows(result.part, split, rows),
                "length": int(result.sequences["length"][-1]),
                "columns": {
                    key: (column.dtype.str, column[-1:].tolist())
                    for key, column in result.sequences.items()
                    if key != "length"
                },
            }

    def _go_on(self, result: UnitResult, row: int, *, finished: bool) -> None:
        """Take the rows of a first sequence that began in an earlier unit."""
        if self._open is None:
            raise AssertionError("a unit continues a sequence that no unit before has begun")
        if self._seen is not None and result.keys[0].tobytes().hex() != self._open["key"]:
            raise ParamsError(
                "filters.duplicates: expected keep, as equal beginnings would count as duplicates: the pieces of a "
                "sequence in several units have different keys; to drop duplicates, its domain gives all of them one"
            )
        if self._open["split"] is not None:
            rows = taken(result.rows, np.array([[0, row]]))
            self._writer.append_rows(self._open["part"], self._open["split"], rows)
            self._open["length"] += row
        if finished:
            self.end()

    def end(self) -> None:
        """Record the last sequence if it might have continued, and no unit continues it."""
        if self._open is not None and self._open["split"] is not None:
            columns: Columns = {
                key: np.array(value, dtype=dtype) for key, (dtype, value) in self._open["columns"].items()
            }
            extent = {"start": np.array([self._open["start"]]), "length": np.array([self._open["length"]])}
            self._writer.append_sequences(self._open["part"], self._open["split"], {**columns, **extent})
        self._open = None

    def snapshot(self) -> tuple[dict[str, Any], bytes, bytes]:
        """What :meth:`restore` takes in a later process: counts, and keys and raw files that are not saved yet.

        A key is 16 bytes; of each raw file number, found and accepted are int64.
        """
        self._unsaved = [b"".join(self._unsaved)]
        sources = [(source, *self.by_source[source]) for source in sorted(self._touched)]
        counts = {
            "found": self.found,
            "accepted": self.accepted,
            "rejected": dict(self.rejected),
            "examples": self.examples,
            "counts": dict(self.counts),
            "audited": self.audited,
            "open": self._open,
        }
        return counts, self._unsaved[0], np.array(sources, "<i8").tobytes()

    def keys(self) -> Keys | None:
        """The sorted keys of all sequences, stored or not; None where duplicates are kept."""
        return None if self._seen is None else self._seen.keys()

    def saved(self) -> None:
        """Mark unsaved keys and sources as saved."""
        self._unsaved = []
        self._touched = set()

    def restore(self, state: Mapping[str, Any], keys: bytes, sources: bytes) -> None:
        """Resume from a :meth:`snapshot`, and all keys and sources saved up to it."""
        self.found, self.accepted, self.audited = state["found"], state["accepted"], state["audited"]
        self.rejected, self.examples = Counter(state["rejected"]), state["examples"]
        self.counts = Counter(state["counts"])
        rows = np.frombuffer(sources, "<i8").reshape(-1, 3).tolist()
        self.by_source = {source: [found, accepted] for source, found, accepted in rows}
        self._open = state["open"]
        if self._seen is not None and keys:
            self._seen.add(np.frombuffer(keys, np.uint8).reshape(-1, 16))


def spans_of(starts: Ints, ends: Ints) -> Ints:
    """Ranges of ascending rows, shape (n, 2), with adjacent ones joined."""
    first = np.append(True, starts[1:] != ends[:-1])
    last = np.append(first[1:], True)
    return np.stack([starts[first], ends[last]], axis=1)


def taken(rows: Columns, spans: Ints) -> Columns:
    """Some rows; a single range is not copied."""
    if len(spans) == 1:
        ((start, end),) = spans.tolist()
        return {name: field[start:end] for name, field in rows.items()}
    lengths = spans[:, 1] - spans[:, 0]
    before = np.cumsum(lengths) - lengths
    places = np.repeat(spans[:, 0] - before, lengths) + np.arange(lengths.sum())
    return {name: np.take(field, places, axis=0) for name, field in rows.items()}  # some times faster than a mask


def _cell(text: str) -> str:
    """A cell that no terminal obeys and no spreadsheet evaluates: ``'=1+1``, with one apostrophe more than the text."""
    return visible(f"'{text}" if _FORMULA.match(text) else text)
