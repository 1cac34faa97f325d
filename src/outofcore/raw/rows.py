"""Rows of a unit, here or kept by the worker that made them, and which of them are meant."""

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
    """Rows that stay where they were made; here is known only which they are.

    Attributes
    ----------
    unit
        What stands for the unit's result where it was made.
    spans
        First row and end of ranges of them, shape (n, 2).
    """

    unit: Any
    spans: Ints

    def __len__(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())


Rows = Columns | KeptRows


def spans_of(starts: Ints, ends: Ints) -> Ints:
    """Ranges of rows in ascending order, shape (n, 2), those that touch joined to one."""
    first = np.append(True, starts[1:] != ends[:-1])
    last = np.append(first[1:], True)
    return np.stack([starts[first], ends[last]], axis=1)


def rows_of(result: UnitResult, spans: Ints) -> Rows:
    """Some rows of a unit, or what stands for them."""
    return taken(result.rows, spans) if result.kept is None else KeptRows(result.kept, spans)


def taken(rows: Columns, spans: Ints) -> Columns:
    """Some rows; one range of them is not copied."""
    if len(spans) == 1:
        ((start, end),) = spans.tolist()
        return {name: field[start:end] for name, field in rows.items()}
    lengths = spans[:, 1] - spans[:, 0]
    before = np.cumsum(lengths) - lengths
    places = np.repeat(spans[:, 0] - before, lengths) + np.arange(lengths.sum())
    return {name: np.take(field, places, axis=0) for name, field in rows.items()}  # some times faster than a mask
