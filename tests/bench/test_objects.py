"""The server of objects that benches read from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from outofcore import open_store, write_store
from tests.pipeline.conftest import ROOT
from tests.store.object_storage import point_to


def test_a_store_is_read_from_it_as_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (10_000, 8), np.uint8)
    store = write_store(tmp_path / "stores/a.zarr", {"x": rows}, chunk_rows=256)
    command = [sys.executable, "-m", "harness.objects", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT / "bench") as server:
        try:
            assert server.stdout is not None
            point_to(f"http://127.0.0.1:{int(server.stdout.readline())}", monkeypatch)
            there = open_store("s3://stores/a.zarr")
            assert there.digest == store.digest
            np.testing.assert_array_equal(there.rows("train")["x"].read(), store.rows("train")["x"].read())
        finally:
            server.kill()
