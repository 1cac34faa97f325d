"""Rows of a unit, local or kept by the worker that made them, and selections of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.raw.unit import UnitResult
from outofcore.store.schema import Columns

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeptRows:
    """Rows kept where they were made; only their identity is known here."""

    unit: Any  # reference to the unit's result
    spans: Ints  # (n, 2): [first, end) of ranges of rows

    def __len__(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())


Rows = Columns | KeptRows


def spans_of(starts: Ints, ends: Ints) -> Ints:
    """Ranges of ascending rows, shape (n, 2), with adjacent ones joined."""
    first = np.append(True, starts[1:] != ends[:-1])
    last = np.append(first[1:], True)
    return np.stack([starts[first], ends[last]], axis=1)


def rows_of(result: UnitResult, spans: Ints) -> Rows:
    """Some rows of a unit, or a reference to them."""
    return taken(result.rows, spans) if result.kept is None else KeptRows(result.kept, spans)


def taken(rows: Columns, spans: Ints) -> Columns:
    """Some rows; a single range is not copied."""
    if len(spans) == 1:
        ((start, end),) = spans.tolist()
        return {name: field[start:end] for name, field in rows.items()}
    lengths = spans[:, 1] - spans[:, 0]
    before = np.cumsum(lengths) - lengths
    places = np.repeat(spans[:, 0] - before, lengths) + np.arange(lengths.sum())
    return {name: np.take(field, places, axis=0) for name, field in rows.items()}  # some times faster than a mask
