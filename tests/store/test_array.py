"""Tables of arrays, as a library's user takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from outofcore.errors import StoreError
from outofcore.store.reader import open_store


def test_a_table_is_asked_for_its_fields(make_store: Callable[..., Path]) -> None:
    path = make_store()
    table, group = open_store(path).rows("train"), zarr.open_group(path / "train", mode="r")
    names = {name for name, _ in group.arrays()}
    assert set(table) == names
    assert all(name in table for name in names)
    assert "absent" not in table
    assert 0 not in table
    with pytest.raises(StoreError, match=r"no field 'absent'; there are "):
        table["absent"]
    for name, values in table.read(3, 9).items():
        np.testing.assert_array_equal(values, group[name][3:9])
