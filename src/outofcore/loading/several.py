"""Several stores read as one: their rows and sequences follow each other, store after store.

Every store begins with a chunk of its own: the rows that the last chunk of a store lacks have numbers too, but belong
to no sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import BudgetError, StoreError
from outofcore.sizes import format_bytes
from outofcore.store.reader import Array, Store, Table

Ints = npt.NDArray[np.int64]

# Attributes that count what a conversion found, or say how it went; the others describe the fields.
_COUNTS = frozenset(("accepted", "audited", "found", "params", "rejected", "rows", "sequences", "splits"))
_OWN_ARRAYS = "arrays"  # the domain of stores made from arrays, whose further attributes are the user's
_MOST_SHOWN = 120

_EXAMINED = 16 << 20  # bytes of a table that is read whatever the budget, to say what is needed
_SLAB = 1 << 12  # sequences


class Rows:
    """The rows of a split of several stores, numbered through; ``stores`` are the fields of each.

    ``origins`` (stores,) is the number of each store's first row, ``lengths`` (stores,) how many it has.
    """

    def __init__(self, stores: Sequence[Mapping[str, Array]], first_chunk: int = 0) -> None:
        some = [next(iter(fields.values())) for fields in stores]
        self.stores = tuple(stores)
        self.fields = dict(stores[0])  # the dtypes, shapes and chunks of all
        self.chunk_rows = some[0].chunk_rows
        self.lengths = np.array([len(array) for array in some], np.int64)
        self._first_chunks = np.cumsum([first_chunk, *(array.chunks for array in some)])
        self.origins = self._first_chunks[:-1] * self.chunk_rows

    def __len__(self) -> int:
        return int(self.lengths.sum())

    @property
    def chunks(self) -> int:
        """Number of chunks per field."""
        return int(self._first_chunks[-1] - self._first_chunks[0])

    @property
    def row_bytes(self) -> int:
        """Decoded bytes per row, over all fields."""
        return sum(array.row_bytes for array in self.fields.values())

    @property
    def arrays(self) -> list[Array]:
        """The fields of all stores."""
        return [array for fields in self.stores for array in fields.values()]

    def of(self, stores: slice) -> Rows:
        """The rows of some of the stores, with the same numbers."""
        return Rows(self.stores[stores], int(self._first_chunks[stores.start]))

    def store_of(self, rows: Ints) -> Ints:
        """The store of each row."""
        return np.searchsorted(self.origins, rows, "right") - 1

    def place(self, chunk: int) -> tuple[int, int]:
        """The store of a chunk, and the chunk's number there."""
        store = int(np.searchsorted(self._first_chunks, chunk, "right")) - 1
        return store, chunk - int(self._first_chunks[store])

    def by_store(self, chunks: Ints) -> Iterator[tuple[int, slice, Ints]]:
        """Each store of ascending chunks, their places among these, and their numbers in the store."""
        edges = np.searchsorted(chunks, self._first_chunks).tolist()
        for store, own in enumerate(map(slice, edges, edges[1:])):
            if own.start < own.stop:
                yield store, own, chunks[own] - self._first_chunks[store]

    def chunk_origins(self) -> Ints:
        """The first row of the store of each chunk, (chunks,)."""
        return np.repeat(self.origins, np.diff(self._first_chunks))

    def runs(self, *, whole_chunks: bool) -> tuple[Ints, Ints]:
        """Runs of rows in the order of their samples; with ``whole_chunks``, chunks that are not full come last."""
        if not whole_chunks:
            return self.origins, self.lengths
        full = self.lengths // self.chunk_rows * self.chunk_rows
        return np.concatenate((self.origins, self.origins + full)), np.concatenate((full, self.lengths - full))


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

    def __getitem__(self, name: str) -> Array:
        """A column of the first store, which has the dtype and shape of all; raises StoreError if one differs."""
        columns = [table[name] for table in self._tables]
        for store, column in zip(self.stores[1:], columns[1:], strict=True):
            _same(self.stores[0], store, column.path, _form(columns[0]), _form(column))
        return columns[0]

    def read(self, name: str, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        """The values of a column, in another dtype if one is given."""
        some = self[name]
        values = np.empty((len(self), *some.shape[1:]), some.dtype if dtype is None else dtype)
        self._prove(values.nbytes)
        place = 0
        for column in (table[name] for table in self._tables):
            slab = max(1, _SLAB // column.chunk_rows) * column.chunk_rows
            for start in range(0, len(column), slab):
                stop = min(start + slab, len(column))
                values[place + start : place + stop] = column.read(start, stop)
            place += len(column)
        return values

    def slabs(self, names: Sequence[str]) -> Iterator[tuple[slice, dict[str, npt.NDArray[Any]]]]:
        """Values by column of a few thousand sequences at a time, and their places."""
        place = 0
        for table in self._tables:
            size = max((table[name].chunk_rows for name in names), default=1)
            slab = max(1, _SLAB // size) * size
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
            own = slice(place, place + len(table))
            store.extents(*self._names, out=(starts[own], lengths[own]))
            starts[own] += origin
            place = own.stop
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
            message = (
                f"a memory budget of {format_bytes(self._budget)} is too small: a column of the {len(self):,} "
                f"sequences of {self.path} takes {format_bytes(size)}"
            )
            raise BudgetError(message)


def check_stores(stores: Sequence[Store]) -> None:
    """Raise StoreError if stores are not of one kind, or one is given twice."""
    seen: dict[str, Store] = {}
    for store in stores:
        if store.identity in seen:
            message = f"{seen[store.identity].root} and {store.root} hold the same rows: give each store once"
            raise StoreError(message)
        seen[store.identity] = store
    first = stores[0]
    for store in stores[1:]:
        _same(first, store, "domain", first.domain, store.domain)
        _same(first, store, "parts", ", ".join(first.parts), ", ".join(store.parts))
        if first.domain != _OWN_ARRAYS:  # a converted store keeps there what its fields mean, such as the tokenizer
            for name in sorted({*first.attributes, *store.attributes} - _COUNTS):
                _same(first, store, f"attribute {name!r}", first.attributes.get(name), store.attributes.get(name))


def splits_lines(stores: Sequence[Store]) -> list[str]:
    """What to tell the user of stores that were split in different ways."""
    ways = [store.attributes.get("params", {}).get("splits") for store in stores]
    for store, way in zip(stores, ways, strict=True):
        if way != ways[0]:
            both = f"{stores[0].root} and {store.root}"
            return [f"{both} were split by different settings: train of one may hold what is in val of the other"]
    return []


def check_fields(stores: Sequence[Store], rows: Sequence[Mapping[str, Array]], path: str) -> None:
    """Raise StoreError if the fields of stores differ in name, dtype, shape, attributes or chunks."""
    first = rows[0]
    for store, fields in zip(stores[1:], rows[1:], strict=True):
        _same(stores[0], store, f"fields of {path}", ", ".join(first), ", ".join(fields))
        for name, array in first.items():
            _same(stores[0], store, f"{path}/{name}", _form(array), _form(fields[name]))
            _same(stores[0], store, f"rows per chunk of {path}", array.chunk_rows, fields[name].chunk_rows)


def _form(array: Array) -> str:
    meaning = {name: value for name, value in array.attributes.items() if name != "doc"}
    return f"{array.dtype} {array.shape[1:]} {meaning or ''}".rstrip()


def _same(first: Store, other: Store, what: str, own: object, found: object) -> None:
    if own == found:
        return
    shown = " ".join(f"{own!s} and {found!s}".split())
    message = (
        f"stores that are read as one need the same fields: {first.root} and {other.root} differ in {what}"
        f"{f' ({shown})' if len(shown) <= _MOST_SHOWN else ''}"
    )
    raise StoreError(message)
