"""Schema of a store: fields, tables, and their layout in chunks and shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.store.codecs import CodecName

Columns = Mapping[str, npt.NDArray[Any]]
"""Arrays that share their first axis, by field name."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One array of a table.

    Attributes
    ----------
    name
        Its name in the store, a path segment.
    dtype
        A little-endian numpy dtype name (``"uint8"``, ``"float32"``, ...), or ``"string"`` for text of any length.
    shape
        Shape of one row; ``()`` for a scalar.
    axes
        Names of the axes of a row, for xarray and others; by default the field's name and a number.
    fill
        Value of rows that were never written. A chunk with only this value takes no space.
    doc
        One line: meaning, unit and range.
    attributes
        Further facts for readers (column names, code tables), kept in the array's metadata.
    """

    name: str
    dtype: str
    doc: str
    shape: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    fill: int | float | str = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row_bytes(self) -> int:
        """Bytes of one decoded row; 0 for text, whose rows differ."""
        if self.dtype == "string":
            return 0
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The tables of one part of a store.

    Attributes
    ----------
    rows
        Fields of the smallest stored item (a position, a token, a time bin).
    sequences
        Columns of groups of consecutive rows (a game, a document, a trial). ``start`` (int64, first row) and
        ``length`` (int64, number of rows) precede them in every store and are not listed here.
    attributes
        Facts about the whole part.
    """

    rows: tuple[Field, ...]
    sequences: tuple[Field, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How rows become files.

    Attributes
    ----------
    codec, level
        Compression of a chunk: a row of :data:`outofcore.store.codecs.CODECS`, and its level, if it has one.
    chunk_rows
        Rows per chunk, the unit of decoding.
    shard_rows
        Rows per shard (one file of one field), a multiple of ``chunk_rows``.
    """

    codec: CodecName = "zstd"
    level: int = 1
    chunk_rows: int = 4096
    shard_rows: int = 1_048_576

    def __post_init__(self) -> None:
        if self.chunk_rows < 1 or self.shard_rows % self.chunk_rows:
            raise ValueError(
                f"shard_rows must be a multiple of chunk_rows, got {self.shard_rows} and {self.chunk_rows}"
            )


START = Field(name="start", dtype="int64", doc="first row of the sequence in this split")
LENGTH = Field(name="length", dtype="int64", doc="number of rows of the sequence")


def filler(field: Field, rows: int) -> npt.NDArray[Any]:
    """Fill rows, as at the end of the last chunk."""
    return np.full((rows, *field.shape), field.fill, dtype=dtype_of(field))


def dtype_of(field: Field) -> Any:
    """In-memory numpy dtype of a field's rows."""
    return object if field.dtype == "string" else np.dtype(field.dtype)
