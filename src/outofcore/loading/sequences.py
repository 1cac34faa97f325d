"""The sequences of a split, over all its stores: where they are, which are selected, and their columns in a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outofcore.errors import BudgetError, ParamsError
from outofcore.ndarrays import Ints
from outofcore.order.windows import Windows
from outofcore.settings.sizes import format_bytes
from outofcore.store.joined import check_form
from outofcore.store.reader import Array, Store, Table
from outofcore.system.recycling import Recycler

NUMBER = "sequence"
"""The name under which a sequence's number in its split is asked for."""

SOURCE = "source"
"""The name of the number of a sample's source in a mixture."""

VALID = "valid"
"""The name under which a reading gets which rows of a window are neither padding nor begin the rest of a sequence."""

_EXAMINED = 16 << 20  # bytes of a table that is read whatever the budget, to say what is needed
_SLAB = 1 << 12  # sequences
# Bytes of a column, and sequences, that are read at a time: several chunks at once, as a storage far away sends them.
_COLUMN_BYTES, _COLUMN_ROWS = 1 << 20, 1 << 15
_TEXT_BYTES = 256  # about
_WIDER = {"uint16": np.int32, "uint32": np.int64}


class Sequences:
    """The sequences of a split of several stores; ``mask`` (sequences,) marks those that are selected, None for all."""

    def __init__(
        self,
        stores: Sequence[Store],
        split: str,
        part: str,
        origins: Ints,
        budget: int,
        mask: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.stores = stores
        self._names = split, part
        self._origins = origins
        self._budget = budget
        self.mask = mask

    @cached_property
    def _tables(self) -> list[Table]:
        return [store.sequences(*self._names) for store in self.stores]

    @property
    def path(self) -> str:
        return self._tables[0].path

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the first store."""
        return tuple(self._tables[0].fields)

    @property
    def selected(self) -> int:
        """Number of selected sequences."""
        return len(self) if self.mask is None else int(np.count_nonzero(self.mask))

    def __len__(self) -> int:
        return sum(len(table) for table in self._tables)

    def of(self, stores: slice) -> Sequences:
        """The sequences of some of the stores."""
        ends = np.cumsum([0, *(len(table) for table in self._tables)])[[stores.start, stores.stop]]
        mask = None if self.mask is None else self.mask[slice(*ends)]
        return Sequences(self.stores[stores], *self._names, self._origins[stores], self._budget, mask)

    def origin_of(self, rows: Ints) -> Ints:
        """First row of the store of each row."""
        return self._origins[np.searchsorted(self._origins, rows, "right") - 1]

    def __getitem__(self, name: str) -> Array:
        """A column of the first store, which has the dtype and shape of all; raises StoreError if one differs."""
        columns = [table[name] for table in self._tables]
        for store, column in zip(self.stores[1:], columns[1:], strict=True):
            check_form(self.stores[0], columns[0], store, column)
        return columns[0]

    def read(self, name: str, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        """The values of a column, in another dtype if one is given."""
        column = self[name]
        values = np.empty((len(self), *column.shape[1:]), column.dtype if dtype is None else dtype)
        self._prove(values.nbytes)
        for places, slab in self.slabs([name]):
            values[places] = slab[name]
        return values

    def slabs(self, names: Sequence[str]) -> Iterator[tuple[slice, dict[str, npt.NDArray[Any]]]]:
        """Values by column of a few thousand sequences at a time, and their places."""
        place = 0
        for table in self._tables:
            slab = _slab([table[name] for name in names])
            for start in range(0, len(table), slab):
                stop = min(start + slab, len(table))
                yield slice(place + start, place + stop), {name: table[name].read(start, stop) for name in names}
            place += len(table)

    @property
    def extents_bytes(self) -> int:
        """Bytes of :meth:`extents`, of what is examined at a time, and of finding those that are selected."""
        return 16 * len(self) + 96 * min(len(self), _SLAB) + (0 if self.mask is None else 3 * len(self))

    def extents(self) -> tuple[Ints, Ints]:
        """First row and number of rows of each sequence; raises DamagedStore as :meth:`Store.extents` does."""
        self._prove(self.extents_bytes)
        starts, lengths, place = np.empty(len(self), np.int64), np.empty(len(self), np.int64), 0
        for store, table, origin in zip(self.stores, self._tables, self._origins, strict=True):
            rows = slice(place, place + len(table))
            store.extents(*self._names, out=(starts[rows], lengths[rows]))
            starts[rows] += origin
            place = rows.stop
        return starts, lengths

    def selected_extents(self) -> tuple[Ints, Ints]:
        """:meth:`extents` of the selected sequences."""
        starts, lengths = self.extents()
        return (starts, lengths) if self.mask is None else (starts[self.mask], lengths[self.mask])

    def selected_runs(self) -> tuple[Ints, Ints]:
        """First row and number of rows, possibly none, of each run of selected sequences that follow each other."""
        assert self.mask is not None
        starts, lengths = self.extents()
        mask = self.mask | (lengths == 0)  # empty sequences separate nothing
        begin = mask & ~np.append(False, mask[:-1])
        end = mask & ~np.append(mask[1:], False)
        edges = np.cumsum([len(table) for table in self._tables])
        inner = edges[(edges > 0) & (edges < len(self))]
        begin[inner], end[inner - 1] = mask[inner], mask[inner - 1]
        first = starts[begin]
        return first, starts[end] + lengths[end] - first

    def _prove(self, size: int) -> None:
        """Raise BudgetError, before it is read, if a table alone exceeds the budget."""
        if size > max(self._budget, _EXAMINED):
            raise BudgetError(
                f"a memory budget of {format_bytes(self._budget)} is too small: a column of the {len(self):,} "
                f"sequences of {self.path} takes {format_bytes(size)}"
            )


def _slab(columns: Sequence[Array]) -> int:
    """Sequences whose values of some columns are read at a time, whole chunks."""
    size = max((column.chunk_rows for column in columns), default=1)
    widest = max((_TEXT_BYTES if column.dtype == "O" else column.row_bytes for column in columns), default=1)
    return max(1, min(_COLUMN_ROWS, _COLUMN_BYTES // widest) // size) * size


class SequenceColumns:
    """Values of a split's sequences, held once read; a sample belongs to the sequence of its first row, or its last.

    ``names`` are the columns of a batch, ``taken`` those that the reading takes with the rows.
    """

    def __init__(
        self,
        sequences: Sequences,
        windows: Windows,
        names: tuple[str, ...],
        taken: tuple[str, ...] = (),
        sources: Ints | None = None,
    ) -> None:
        self._names, self._taken = names, taken
        self._sources = sources
        self._sequences = sequences
        self._window = (windows.length,) if windows.length > 1 else ()
        self._packs = windows.packs
        self._ahead = windows.length - 1 if windows.window is not None and windows.window.mode == "reach" else 0
        self._blank: dict[str, npt.NDArray[Any]] = {}  # a value of each, as a batch has it
        for name in (*names, *taken):
            array = None if name == NUMBER else sequences[name]
            if array is not None:
                refuse_text(f"{sequences.path}/{name}", array.dtype)
            self._blank[name] = indexable(
                np.zeros((), np.int64) if array is None else np.zeros(array.shape[1:], array.dtype)
            )
        held = sum(value.nbytes for name, value in self._blank.items() if name != NUMBER)
        self.bytes = len(sequences) * (8 + held) if self._blank else 0  # of first rows and values
        self._starts = np.empty(0, np.int64)
        self._values: dict[str, npt.NDArray[Any]] = {}

    def blank(self) -> dict[str, npt.NDArray[Any]]:
        """Values of one sample that belongs to no sequence, by column."""
        values = {name: self._blank[name][np.newaxis] for name in self._names}
        return values | ({} if self._sources is None else {SOURCE: np.zeros(1, np.int64)})

    def blank_rows(self) -> dict[str, npt.NDArray[Any]]:
        """:meth:`of_rows` of such a sample."""
        valid = {} if self._packs is None else {VALID: np.ones((1, *self._window), np.bool_)}
        blank = {name: self._blank[name] for name in self._taken}
        return {name: np.zeros((1, *self._window, *value.shape), value.dtype) for name, value in blank.items()} | valid

    def read(self) -> None:
        if self._blank:
            self._starts = self._sequences.extents()[0]
        for name, value in self._blank.items():
            if name != NUMBER:
                self._values[name] = self._sequences.read(name, value.dtype)

    def of(self, first: Ints) -> dict[str, npt.NDArray[Any]]:
        """Values by column (samples,), by the first row of each sample."""
        rows = first + self._ahead
        values = self._values_at(rows, self._names)
        if self._sources is not None:
            values[SOURCE] = np.searchsorted(self._sources, rows, "right") - 1
        return values

    def of_rows(self, first: Ints) -> dict[str, npt.NDArray[Any]]:
        """Values that the reading takes, as if they were fields of the rows, by the first row of each sample."""
        valid = {} if self._packs is None else {VALID: self._packs.runs(first)[2]}
        if not self._taken:
            return valid
        rows = first if self._packs is None else self._packs.rows(first)
        if self._window and self._packs is None:
            rows = first[:, None] + np.arange(*self._window)
            rows = np.maximum(rows, self._sequences.origin_of(rows[:, -1])[:, None])  # as windows that reach back do
        return self._values_at(rows, self._taken) | valid

    def _values_at(self, rows: Ints, names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
        sequence = np.searchsorted(self._starts, rows, "right") - 1
        return {name: sequence if name == NUMBER else self._values[name][sequence] for name in names}


def refuse_text(column: str, dtype: npt.DTypeLike) -> None:
    """Raise ParamsError if the values of a column are text."""
    if np.dtype(dtype).hasobject:
        raise ParamsError(f"columns: {column} holds text, which no tensor can; use {NUMBER!r} to look it up")


def with_columns(tensors: dict[str, torch.Tensor], values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """A batch and its columns, on the same device. Raises ParamsError if a tensor already has a column's name."""
    taken = [name for name in values if name in tensors]
    if taken:
        raise ParamsError(f"columns: the tensors already contain {taken[0]!r}")
    where = next(iter(tensors.values())).device
    return {**tensors, **{name: torch.from_numpy(column).to(where) for name, column in values.items()}}


def indexable(array: npt.NDArray[Any], memory: Recycler | None = None) -> npt.NDArray[Any]:
    """Numbers in a dtype that torch can index: unsigned words widened, in ``memory``; uint64 with its bits as int64."""
    plain = array.view(np.int64) if array.dtype == np.uint64 else array
    wider = np.dtype(_WIDER.get(plain.dtype.name, plain.dtype))
    if memory is None or wider == plain.dtype:
        return plain.astype(wider, copy=False)
    widened = memory.empty(plain.shape, wider)
    widened[...] = plain
    return widened
