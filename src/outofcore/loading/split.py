"""The loader's view of a store: some fields of one split, as samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from outofcore.errors import StoreError
from outofcore.loading.windows import Window, Windows
from outofcore.store.reader import Array, Store, Table, open_store

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Fields of a split, which share rows, chunks and shards."""

    store: Store
    name: str
    part: str
    fields: Mapping[str, Array]

    @property
    def path(self) -> str:
        """Its group in the store."""
        return f"{self.part}/{self.name}" if self.part else self.name

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.fields.values())))

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return next(iter(self.fields.values())).chunk_rows

    @property
    def chunks(self) -> int:
        """Number of chunks per field."""
        return next(iter(self.fields.values())).chunks

    @property
    def row_bytes(self) -> int:
        """Decoded bytes per row, over all fields."""
        return sum(array.row_bytes for array in self.fields.values())

    @property
    def mappable(self) -> bool:
        """Whether all fields are in uncompressed local files."""
        return isinstance(self.store.root, Path) and all(array.codec.name == "none" for array in self.fields.values())

    @property
    def index_bytes(self) -> int:
        """Memory of the chunk indexes once all shards have been read."""
        return 16 * self.chunks * len(self.fields)

    @cached_property
    def sequences(self) -> Table:
        """The table of sequences."""
        return self.store.sequences(self.name, self.part)

    def windows(self, window: Window | None, *, phase: bool) -> Windows:
        """The samples of the split."""
        return Windows(self.rows, window, phase=phase, sequences=self.starts_and_lengths)

    def starts_and_lengths(self) -> tuple[Ints, Ints]:
        """First row and number of rows of each sequence."""
        return self.store.extents(self.name, self.part)


def open_split(store: Store | str | Path, split: str, part: str, fields: tuple[str, ...] | None) -> Split:
    """Open fields of a split, by default all.

    Raises StoreError if split or field does not exist, a field holds text, or fields differ in layout.
    """
    opened = store if isinstance(store, Store) else open_store(store)
    table = opened.rows(split, part)
    names = fields if fields is not None else tuple(name for name, array in table.fields.items() if array.dtype != "O")
    if not names:
        message = f"{table.path}: expected at least one field to read"
        raise StoreError(message)
    arrays = {name: table[name] for name in names}
    layouts = {(len(array), array.chunk_rows, array.shard_rows) for array in arrays.values()}
    if len(layouts) > 1:
        message = f"{table.path}: expected fields of one layout, got (rows, chunk, shard) of {sorted(layouts)}"
        raise StoreError(message)
    texts = [name for name, array in arrays.items() if array.dtype == "O"]
    if texts:
        message = f"{table.path}: {', '.join(texts)} holds text, which no tensor can"
        raise StoreError(message)
    return Split(opened, split, part, arrays)
