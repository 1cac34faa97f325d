"""Weights of rows: a field of the rows, read slab by slab, or a column of the sequences, in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outofcore.errors import ParamsError
from outofcore.loading.split import Split
from outofcore.ndarrays import Doubles, Ints

_SLAB = 1 << 14  # rows that are read at a time


def weights_of_rows(split: Split, column: str) -> tuple[Callable[[Ints], Doubles], int]:
    """A function from rows, those of each store ascending, to their weights; the bytes of its table of sequences."""
    tables = [store.rows(split.name, split.part) for store in split.stores]
    array = tables[0][column] if column in tables[0].fields else split.sequences[column]
    if array.dtype.kind not in "iufb" or len(array.shape) != 1:
        raise ParamsError(f"weighted.column: expected numbers, got {column!r} of {array.dtype}, shape {array.shape}")
    if column in tables[0].fields:
        arrays = [table[column] for table in tables]
        slab = max(1, _SLAB // array.chunk_rows) * array.chunk_rows

        def of_rows(rows: Ints) -> Doubles:
            weights = np.empty(len(rows))
            store = split.rows.store_of(rows)
            for number in np.unique(store).tolist():
                own = rows[store == number] - split.rows.origins[number]
                cuts = np.flatnonzero(np.diff(own // slab)) + 1  # selected rows may be far apart
                weights[store == number] = np.concatenate(
                    [
                        arrays[number].read(int(some[0]), int(some[-1]) + 1)[some - some[0]]
                        for some in np.split(own, cuts)
                    ]
                )
            return weights

        return of_rows, 0
    starts = split.sequences.extents()[0]
    weights = split.sequences.read(column, np.float64)

    def of_sequences(rows: Ints) -> Doubles:
        return weights[np.searchsorted(starts, rows, "right") - 1]

    return of_sequences, split.sequences.extents_bytes
