"""The rows of a split, numbered through its stores, and their values of a column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from outofcore.errors import ParamsError
from outofcore.loading.sequences import Sequences
from outofcore.ndarrays import Doubles, Ints
from outofcore.store.reader import Array, Table

_SLAB = 1 << 14  # rows that are read at a time


class Rows:
    """The rows of a split, numbered through its stores; ``stores`` are the fields of each.

    Each store begins with a chunk of its own: the rows that the last chunk of a store lacks have numbers too, but
    belong to no sample. ``origins`` (stores,) is the number of each store's first row, ``lengths`` (stores,) how many
    it has.
    """

    def __init__(self, stores: Sequence[Mapping[str, Array]], first_chunk: int = 0) -> None:
        some = [next(iter(fields.values())) for fields in stores]
        self.stores = tuple(stores)
        self.fields = dict(stores[0])  # the dtypes, shapes and chunks of all
        self.arrays = [array for fields in stores for array in fields.values()]
        self.chunk_rows = some[0].chunk_rows
        self.lengths = np.array([len(array) for array in some], np.int64)
        self.row_bytes = sum(array.row_bytes for array in self.fields.values())  # decoded
        self._first_chunks = np.cumsum([first_chunk, *(array.chunks for array in some)])
        self.chunks = int(self._first_chunks[-1] - first_chunk)  # per field
        self.origins = self._first_chunks[:-1] * self.chunk_rows

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def of(self, stores: slice) -> Rows:
        """The rows of some of the stores, with the same numbers."""
        return Rows(self.stores[stores], int(self._first_chunks[stores.start]))

    def store_of(self, rows: Ints) -> Ints:
        """The store of each row."""
        return np.searchsorted(self.origins, rows, "right") - 1

    def place(self, chunk: int) -> tuple[int, int]:
        """The store of a chunk, and the chunk's number there."""
        store = bisect_right(self._first_chunks, chunk) - 1
        return store, chunk - int(self._first_chunks[store])

    def by_store(self, chunks: Ints) -> Iterator[tuple[int, slice, Ints]]:
        """Each store of ascending chunks, their places among these, and their numbers in the store."""
        edges = np.searchsorted(chunks, self._first_chunks).tolist()
        for store, places in enumerate(map(slice, edges, edges[1:])):
            if places.start < places.stop:
                yield store, places, chunks[places] - self._first_chunks[store]

    def chunk_origins(self) -> Ints:
        """The first row of the store of each chunk, (chunks,)."""
        return np.repeat(self.origins, np.diff(self._first_chunks))


def values_of_rows(
    tables: Sequence[Table], rows: Rows, sequences: Sequences, column: str
) -> tuple[Callable[[Ints], Doubles], int]:
    """A function from rows, those of each store ascending, to their values of a column of numbers.

    A field of the rows is read slab by slab. Also the bytes held of a column of the sequences, else 0.
    """
    array = tables[0][column] if column in tables[0].fields else sequences[column]
    if array.dtype.kind not in "iufb" or len(array.shape) != 1:
        raise ParamsError(f"weighted.column: expected numbers, got {column!r} of {array.dtype}, shape {array.shape}")
    if column in tables[0].fields:
        arrays = [table[column] for table in tables]
        slab = max(1, _SLAB // array.chunk_rows) * array.chunk_rows

        def of_rows(row_numbers: Ints) -> Doubles:
            values = np.empty(len(row_numbers))
            store_of_row = rows.store_of(row_numbers)
            for store in np.unique(store_of_row).tolist():
                rows_in_store = row_numbers[store_of_row == store] - rows.origins[store]
                slab_edges = np.flatnonzero(np.diff(rows_in_store // slab)) + 1  # selected rows may be far apart
                values[store_of_row == store] = np.concatenate(
                    [
                        arrays[store].read(int(slab_rows[0]), int(slab_rows[-1]) + 1)[slab_rows - slab_rows[0]]
                        for slab_rows in np.split(rows_in_store, slab_edges)
                    ]
                )
            return values

        return of_rows, 0
    starts = sequences.extents()[0]
    values_of_sequences = sequences.read(column, np.float64)

    def of_sequences(row_numbers: Ints) -> Doubles:
        return values_of_sequences[np.searchsorted(starts, row_numbers, "right") - 1]

    return of_sequences, sequences.extents_bytes
