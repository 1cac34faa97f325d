"""Arrays as a user may have them, and what a store of them must hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.store.reader import Store

ROWS = 2003
Data = dict[str, npt.NDArray[Any]]


def data_of(rows: int = ROWS) -> Data:
    number = np.arange(rows)
    noise = np.random.default_rng(0)
    return {
        "number": number,
        "half": noise.normal(size=(rows, 3)).astype(np.float16),
        "flag": number % 3 == 0,
        "picture": noise.integers(0, 256, (rows, 2, 5), np.uint8),
        "zero": np.where(number % 2, -0.0, 0.0),
        "big": (number * 7).astype(">u4"),
    }


def pieces(data: Data, rows: int) -> Iterator[Data]:
    """Pieces in arrays that are used again: whoever keeps one without a copy has wrong rows."""
    buffers = {name: np.empty((rows, *values.shape[1:]), values.dtype) for name, values in data.items()}
    for start in range(0, len(data["number"]), rows):
        piece = {name: values[start : start + rows] for name, values in data.items()}
        for name, values in piece.items():
            buffers[name][: len(values)] = values
        yield {name: buffers[name][: len(values)] for name, values in piece.items()}


def check(store: Store, data: Data) -> None:
    """Every row is in one split, once, with its values to the bit."""
    numbers = []
    for split in store.splits:
        rows = store.rows(split).read()
        numbers.append(rows["number"])
        assert (np.diff(rows["number"]) > 0).all()
        for name, values in data.items():
            expected = values.astype(values.dtype.newbyteorder("="))[rows["number"]]
            assert rows[name].dtype == expected.dtype
            assert rows[name].tobytes() == expected.tobytes(), name
        start, length = store.extents(split)
        assert (length > 0).all()
        assert store.attributes["rows"][split] == len(numbers[-1])
        assert store.attributes["sequences"][split] == len(start)
    assert np.sort(np.concatenate(numbers)).tolist() == list(range(len(data["number"])))
