"""Data that outofcore did not write, read in place: what every store without a seal has.

Splits are ranges of rows. What a sealed store promises is not known here: a file that changes is not noticed. Two are
told apart by their names, form, and first and last chunks, which a saved state is compared with.
"""

from __future__ import annotations

import hashlib
import html
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.errors import ParamsError, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.array import Array, ArrayInMemory, Table
from outofcore.store.reader import Store
from outofcore.store.seal import Seal

LEAST_CHUNKS = 10
"""Chunks in each split from which on they end with chunks: none is off by more than a tenth of itself."""


class Unsealed(Store):
    """A store without a seal; ``facts`` describe its form, ``place`` is where it is, links resolved.

    ``reopened`` opens it again, in another process.
    """

    def __init__(
        self,
        root: Path | str,
        domain: str,
        attributes: dict[str, Any],
        splits: Mapping[str, range],
        chunk_rows: int,
        facts: object,
        place: str,
        reopened: Callable[[], Unsealed],
    ) -> None:
        super().__init__(root, Seal({}), attributes, domain, ("",), [*splits])
        self.chunk_rows, self._rows = chunk_rows, splits
        self._facts, self._place, self._reopened = facts, place, reopened
        self._sequences: dict[str, Table] = {}  # kept: to find the ends of documents, all tokens are read

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reopened, ()

    def __repr__(self) -> str:
        fields = ", ".join(self.fields(next(iter(self._rows.values()))))
        counts = ", ".join(f"{split} {len(rows):,}" for split, rows in self._rows.items())
        return f"{type(self).__name__}({str(self.root)!r}, rows: {counts}, fields={fields})"

    def _repr_html_(self) -> str:
        """Without counts of sequences, for which all tokens would be read."""
        return f"<pre>{html.escape(repr(self))}</pre>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over name, form, rows of the splits, and the first and last chunk of each field: not all values."""
        name = self._place.rstrip("/").rpartition("/")[2]
        digest = hashlib.sha256(json.dumps([name, self._facts, self._ranges, self.chunk_rows], sort_keys=True).encode())
        whole = range(min(rows.start for rows in self._rows.values()), max(rows.stop for rows in self._rows.values()))
        for array in self.fields(whole).values():
            for number in sorted({0, array.chunks - 1}):
                start = number * array.chunk_rows
                values = array.read(start, min(start + array.chunk_rows, len(array)))
                digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        return digest.hexdigest()

    @property
    def identity(self) -> str:
        """Equal for the same rows of the same place."""
        return f"{self._place} {self._ranges}"

    @property
    def _ranges(self) -> dict[str, list[int]]:
        return {name: [rows.start, rows.stop] for name, rows in self._rows.items()}

    @abstractmethod
    def fields(self, rows: range) -> Mapping[str, Array]:
        """The arrays of these rows."""

    def ends(self, rows: range) -> Ints:
        """The row after each sequence that ends inside of these rows, ascending; others do not count."""
        del rows
        return np.empty(0, np.int64)

    def missing(self, field: str) -> int | None:
        """Stored chunks of a field that are missing and read as the fill value; None if its storage lists nothing."""
        del field
        return 0

    def table(self, path: str) -> Table:
        rows = self._rows.get(path.removesuffix("/sequences"))
        if rows is None:
            raise StoreError(f"{self.root}: data that outofcore did not write has no table of raw files")
        if path in self._rows:
            return Table(path, self.fields(rows))
        if path not in self._sequences:
            ends = self.ends(rows)
            inside = ends[(ends > rows.start) & (ends < rows.stop)]
            length = np.diff(inside, prepend=rows.start, append=rows.stop)
            columns = {"start": np.cumsum(length) - length, "length": length}
            arrays = {name: ArrayInMemory(self.root, f"{path}/{name}", values) for name, values in columns.items()}
            self._sequences[path] = Table(path, arrays)
        return self._sequences[path]


def split_rows(
    root: Path | str, count: int, chunk: int, rows: tuple[int, int] | None, splits: Mapping[str, float] | None
) -> dict[str, range]:
    """The rows of each split, as :func:`outofcore.open_zarr` describes; raises ParamsError."""
    first, stop = rows if rows is not None else (0, count)
    if not 0 <= first < stop <= count:
        raise ParamsError(f"rows: expected a range inside 0..{count}, got {rows} of {root}")
    shares = dict(splits or {})
    if (
        "train" in shares
        or not all(isinstance(share, float | int) and 0 < share < 1 for share in shares.values())
        or sum(shares.values()) >= 1
    ):
        raise ParamsError(f"splits: expected shares of splits other than train that leave some for it, got {splits}")
    left = 1 - sum(shares.values())
    step = chunk if (stop - first) * min([left, *shares.values()]) >= LEAST_CHUNKS * chunk else 1
    ends = [first]
    for share in shares.values():
        ends.append(max(ends[-1], first + round((stop - first) * left) // step * step))
        left += share
    ends.append(stop)
    parts = {name: range(low, high) for name, low, high in zip(["train", *shares], ends, ends[1:], strict=False)}
    if empty := [name for name, part in parts.items() if not part]:
        raise ParamsError(
            f"splits: {stop - first} rows of {root} leave none for {' and '.join(empty)}, got {splits}; "
            "give other shares"
        )
    return parts
