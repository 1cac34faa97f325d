"""What the process holds against what the loader was allowed."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from outofcore.loading.memory import LEAST_BATCHES, RETAINED, Needs
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.writer import StoreWriter

CHUNK = 65_536


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    schema = Schema(rows=(Field(name="tokens", dtype="uint16", doc="ids"),), sequences=())
    layout = Layout(codec="lz4", chunk_rows=CHUNK, shard_rows=64 * CHUNK)
    with ThreadPoolExecutor(2) as encoders:
        writer = StoreWriter(folder / "work", {"": schema}, layout, ("train", "val"), encoders)
        for split, chunks in (("train", 400), ("val", 1)):
            rows = np.random.default_rng(0).integers(0, 1000, chunks * CHUNK).astype(np.uint16)
            writer.append("", split, {"tokens": rows}, {"length": np.array([len(rows)])})
        counts = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        names = {name: np.array(["x"], object) for name in ("name", "digest")}
        attributes = {"domain": "text", "parts": [""], "splits": ["train", "val"]}
        writer.commit(folder / "tokens.zarr", attributes, {**counts, **names})
    return folder / "tokens.zarr"


@pytest.mark.long
@pytest.mark.parametrize(("memory", "threads"), [(96 << 20, 2), (128 << 20, 8), (256 << 20, 8)])
def test_windows_of_text_keep_the_budget(tokens: Path, memory: int, threads: int) -> None:
    command = [sys.executable, "-m", "tests.loading.text_epoch", str(tokens), str(memory), str(threads)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert int(ended.stdout) < memory


def test_batches_in_flight_count_what_the_allocator_keeps_of_them() -> None:
    needs = Needs(
        chunk=1 << 20,
        chunks=100,
        pool_blocks=4,
        pool_chunks=8,
        pool_samples=1000,
        batch=1 << 20,
        tables=0,
        threads=4,
    )
    for spare in (0, 1 << 20, 10 << 20, 100 << 20, 1 << 30):
        groups, together = needs.in_flight(spare)
        assert (groups * together - LEAST_BATCHES) * needs.batch * RETAINED <= spare
    assert needs.in_flight(0) == (2, 1)
    assert needs.in_flight(1 << 30) == (6, 8)
