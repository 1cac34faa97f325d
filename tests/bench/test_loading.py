"""Which sides a comparison of loaders has."""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from pathlib import Path

import numpy as np
import pytest

import loading
from harness.results import versions_of
from harness.rows import SETS
from rivals.peers import PEERS


def test_a_library_with_threads_of_its_own_has_one_side(tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "tokens.npy", np.zeros((10, 513), np.uint16))
    sides = loading.peer_sides("text", tmp_path, Path("python"), ("annbatch", "grain"))
    assert [side.name for side in sides] == ["annbatch", "grain", "grain, 2 workers"]
    assert {side.arguments["rows"] for side in sides} == {10}


def test_a_library_that_is_not_installed_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = versions_of(Path(sys.executable), PEERS)
    told = capsys.readouterr().err
    installed = {one.name: one.version for one in distributions()}
    assert found == {name: installed[name] for name in PEERS if name in installed}
    assert all((f"{name} is left out" in told) == (name not in installed) for name in PEERS)


def test_records_and_columns_become_equal_tensors() -> None:
    generator = np.random.default_rng(0)
    for kind in SETS.values():
        rows = generator.integers(0, 256, (5, kind.row.itemsize), np.uint8).view(kind.row).reshape(-1)
        of_records = kind.as_batch([row.tobytes() for row in rows])
        of_columns = kind.read({name: rows[name] for name in kind.row.names or ()})
        for name, tensor in of_columns.items():
            np.testing.assert_array_equal(of_records[name].numpy(), tensor.numpy())
