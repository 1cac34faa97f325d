"""From rows in pieces of any size to splits and sequences: where the pieces are cut changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.assemble import spans_of, taken
from outofcore.conversion.splits import shares
from outofcore.raw.unit import KEY_BYTES
from outofcore.store.schema import Columns
from outofcore.store.writer import StoreWriter

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[Any]

TRAIN = "train"


@dataclass(frozen=True)
class Shares:
    """Splits and the shares of all but ``train``, which has the rest."""

    shares: Mapping[str, float]
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits, ``train`` first."""
        return (TRAIN, *sorted(self.shares))

    def choose(self, keys: npt.NDArray[np.uint8]) -> Ints:
        """The index in :attr:`names` of each key's split."""
        bounds = np.cumsum([self.shares[name] for name in self.names[1:]])
        return (np.searchsorted(bounds, shares(keys, self.seed), "right") + 1) % len(self.names)


@dataclass(frozen=True)
class _Runs:
    """Sequences, or parts of them, with their rows one after the other."""

    columns: Columns
    begin: Ints
    split: Ints
    groups: Values | None


class Sequencer:
    """Appends rows to the splits of a store with their sequences: of ``block`` rows where rows belong to none."""

    def __init__(self, writer: StoreWriter, splits: Shares, block: int) -> None:
        self._writer = writer
        self._splits = splits
        self._block = block
        self._single = not splits.shares
        self._held: list[Columns] = []  # rows of a sequence whose content is not known to its end
        self._open: tuple[int, int, int, Values | None] | None = None  # split, start, length and group of the last one

    def add(self, columns: Columns, starts: npt.NDArray[np.bool_] | None, groups: Values | None) -> None:
        """Add rows; ``starts`` tells which begin a sequence, ``groups`` decide the split, and None is for neither."""
        if starts is None:
            self._blocks(columns)
        elif self._single or groups is not None:
            begin = np.flatnonzero(starts)
            values = None if groups is None else groups[begin]
            self._runs(_Runs(columns, begin, self._by_group(begin, values), values))
        else:
            self._hold(columns, np.flatnonzero(starts))

    def close(self) -> None:
        """Record the sequences that no further row can belong to."""
        if self._held:
            self._release(_joined(self._held), np.zeros(1, np.int64))
        if self._open is not None:
            split, start, length, group = self._open
            self._record(split, np.array([start]), np.array([length]), group)
            return
        for number, name in enumerate(self._splits.names):
            rows = self._writer.count(name)[0]
            begin = np.arange(0, rows, self._block)
            if rows:
                self._record(number, begin, np.minimum(rows - begin, self._block), None)

    def _blocks(self, columns: Columns) -> None:
        """Append rows, each to the split that its content decides."""
        rows = _rows(columns)
        each = np.arange(rows)
        split = np.zeros(rows, np.int64) if self._single else self._splits.choose(_content_keys(columns, each))
        for number, name in enumerate(self._splits.names):
            chosen = each[split == number]
            if len(chosen):
                self._writer.append_rows("", name, taken(columns, spans_of(chosen, chosen + 1)))

    def _by_group(self, begin: Ints, groups: Values | None) -> Ints:
        if self._single or groups is None or not len(begin):
            return np.zeros(len(begin), np.int64)
        return self._splits.choose(_group_keys(groups.tolist()))

    def _hold(self, columns: Columns, begin: Ints) -> None:
        """Append the sequences that are whole, and keep the rows of the last one."""
        last = int(begin[-1]) if len(begin) else 0
        before = sum(map(_rows, self._held))
        if len(begin) and before + last:
            whole = _joined([*self._held, {name: values[:last] for name, values in columns.items()}])
            self._release(whole, np.concatenate([np.zeros(min(before, 1), np.int64), before + begin[:-1]]))
        if len(begin):
            self._held = []
        self._held.append({name: values[last:].copy() for name, values in columns.items()})

    def _release(self, columns: Columns, begin: Ints) -> None:
        self._runs(_Runs(columns, begin, self._splits.choose(_content_keys(columns, begin)), None))

    def _runs(self, runs: _Runs) -> None:
        """Append rows and record all sequences but the last, which may continue."""
        begin, split, groups = runs.begin, runs.split, runs.groups
        continued = self._open if not len(begin) or begin[0] else None
        if continued is not None:
            begin, split = np.append(0, begin), np.append(continued[0], split)
            groups = None if groups is None or continued[3] is None else np.concatenate([continued[3], groups])
        elif self._open is not None:
            self._record(self._open[0], np.array([self._open[1]]), np.array([self._open[2]]), self._open[3])
        end = np.append(begin[1:], _rows(runs.columns))
        length, start = end - begin, np.zeros(len(begin), np.int64)
        for number, name in enumerate(self._splits.names):
            chosen = np.flatnonzero(split == number)
            if len(chosen):
                rows = taken(runs.columns, spans_of(begin[chosen], end[chosen]))
                first = self._writer.append_rows("", name, rows)
                start[chosen] = first + np.cumsum(length[chosen]) - length[chosen]
        if continued is not None:
            start[0], length[0] = continued[1], continued[2] + length[0]
        for number in range(len(self._splits.names)):
            chosen = np.flatnonzero(split[:-1] == number)
            if len(chosen):
                self._record(number, start[chosen], length[chosen], None if groups is None else groups[chosen])
        self._open = (int(split[-1]), int(start[-1]), int(length[-1]), None if groups is None else groups[-1:])

    def _record(self, split: int, start: Ints, length: Ints, groups: Values | None) -> None:
        column = {} if groups is None else {"group": groups}
        self._writer.append_sequences("", self._splits.names[split], {"start": start, "length": length, **column})


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _content_keys(columns: Columns, begin: Ints) -> npt.NDArray[np.uint8]:
    """A hash of the rows from each of ``begin`` to the next."""
    rows = _rows(columns)
    fields = [np.ascontiguousarray(columns[name]).reshape(rows, -1).view(np.uint8) for name in sorted(columns)]
    flat = np.ascontiguousarray(np.concatenate(fields, axis=1) if len(fields) > 1 else fields[0])
    content, size = flat.reshape(-1).data, flat.shape[1]
    edges = (np.append(begin, rows) * size).tolist()
    pairs = pairwise(edges)
    return _keys([blake2b(content[start:stop], digest_size=KEY_BYTES).digest() for start, stop in pairs])


def _group_keys(groups: list[Any]) -> npt.NDArray[np.uint8]:
    """A hash of each group, a whole number or a text."""
    names = (f"{'t' if isinstance(group, str) else 'n'}{group}".encode() for group in groups)
    return _keys([blake2b(name, digest_size=KEY_BYTES).digest() for name in names])


def _keys(digests: list[bytes]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, KEY_BYTES)
