"""From rows in slices of any size to splits and sequences: where the rows are cut changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.assemble import Assembler, spans_of, taken
from outofcore.domains.splits import shares
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import KEY_BYTES, Unit, UnitResult
from outofcore.store.schema import Columns
from outofcore.store.writer import StoreWriter

Values = npt.NDArray[Any]

TRAIN = "train"
_SLICE = Unit(source=0, name="arrays", offset=0)


@dataclass(frozen=True)
class Shares:
    """Splits and the shares, or the groups, of all but ``train``, which has the rest."""

    shares: Mapping[str, float]
    seed: int
    named: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits, ``train`` first."""
        return (TRAIN, *sorted([*self.shares, *self.named]))

    def choose(self, keys: Bytes, groups: Values | None = None) -> Ints:
        """The index in :attr:`names` of each split, by key; of a named group, that of its name."""
        bounds = np.cumsum([self.shares.get(name, 0.0) for name in self.names[1:]])
        split = (np.searchsorted(bounds, shares(keys, self.seed), "right") + 1) % len(self.names)
        if groups is not None:
            for name, named in self.named.items():
                split[[group in named for group in groups.tolist()]] = self.names.index(name)
        return split


class Sequencer:
    """Appends rows to the splits of a store with their sequences: of ``block`` rows where rows belong to none."""

    def __init__(self, writer: StoreWriter, splits: Shares, block: int) -> None:
        self._writer = writer
        self._splits = splits
        self._block = block
        self._assembler = Assembler(
            writer, lambda _, result: splits.choose(result.keys, result.sequences.get("group")), splits.names
        )
        self._held: list[Columns] = []  # rows of a sequence whose content is not known to its end

    def add(self, columns: Columns, starts: npt.NDArray[np.bool_] | None, groups: Values | None) -> None:
        """Add rows; ``starts`` tells which begin a sequence, ``groups`` decide the split, and None is for neither."""
        if starts is None:
            self._add_single(columns)
        elif groups is None and self._splits.shares:
            self._hold(columns, np.flatnonzero(starts))
        else:
            self._add(columns, np.flatnonzero(starts), groups)

    def close(self) -> None:
        """Record the sequences that no further row can belong to."""
        if self._held:
            self._add(_joined(self._held), np.zeros(1, np.int64), None)
        self._assembler.end()
        counts = self._writer.counts()
        for name, rows in counts["rows"].items():
            if rows and not counts["sequences"][name]:
                start = np.arange(0, rows, self._block)
                extents = {"start": start, "length": np.minimum(rows - start, self._block)}
                self._writer.append_sequences("", name, extents)

    def _add_single(self, columns: Columns) -> None:
        """Append rows, each to the split that its content decides."""
        numbers = np.arange(_rows(columns))
        split = self._splits.choose(self._split_keys(columns, numbers, None))
        for number, name in enumerate(self._splits.names):
            chosen = numbers[split == number]
            if len(chosen):
                self._writer.append_rows("", name, taken(columns, spans_of(chosen, chosen + 1)))

    def _hold(self, columns: Columns, begin: Ints) -> None:
        """Append the sequences that are whole, and keep the rows of the last one."""
        if len(begin):
            before, last = sum(map(_rows, self._held)), begin[-1]
            if before + last:
                whole = _joined([*self._held, {name: values[:last] for name, values in columns.items()}])
                first = [0] if before else []
                self._add(whole, np.append(first, before + begin[:-1]).astype(np.int64), None)
            self._held = []
            columns = {name: values[last:].copy() for name, values in columns.items()}
        self._held.append(columns)

    def _add(self, columns: Columns, begin: Ints, groups: Values | None) -> None:
        """Append sequences; rows before the first belong to the last one of those before, which may thus continue."""
        continues = not len(begin) or begin[0] > 0
        if continues:
            begin = np.append(0, begin)
        sequences = {"length": np.diff(begin, append=_rows(columns))}
        if groups is not None:
            groups = sequences["group"] = groups[begin]
        result = UnitResult(
            found=len(begin) - continues,
            rows=columns,
            sequences=sequences,
            keys=self._split_keys(columns, begin, groups),
            continues=continues,
            unfinished=True,
        )
        self._assembler.add(_SLICE, result)

    def _split_keys(self, columns: Columns, begin: Ints, groups: Values | None) -> Bytes:
        """What decides the splits: a hash of each group or, without groups, of the rows from each of ``begin``."""
        if not self._splits.shares:
            return np.zeros((len(begin), KEY_BYTES), np.uint8)
        if groups is not None:  # whole numbers or texts
            names = (f"{'t' if isinstance(group, str) else 'n'}{group}".encode() for group in groups.tolist())
            return _keys([blake2b(name, digest_size=KEY_BYTES).digest() for name in names])
        rows = _rows(columns)
        fields = [np.ascontiguousarray(columns[name]).reshape(rows, -1).view(np.uint8) for name in sorted(columns)]
        flat = np.ascontiguousarray(np.concatenate(fields, axis=1) if len(fields) > 1 else fields[0])
        content, size = flat.reshape(-1).data, flat.shape[1]
        edges = pairwise((np.append(begin, rows) * size).tolist())
        return _keys([blake2b(content[start:stop], digest_size=KEY_BYTES).digest() for start, stop in edges])


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _keys(digests: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, KEY_BYTES)
