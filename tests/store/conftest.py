"""Small stores, written by the product's own writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.store.schema import Columns, Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter

SCHEMA = Schema(
    rows=(
        Field(name="boards", dtype="uint64", shape=(3,), doc="three words"),
        Field(name="move", dtype="uint16", doc="a number"),
        Field(name="clock", dtype="int32", fill=-1, doc="mostly absent"),
    ),
    sequences=(
        Field(name="title", dtype="string", fill="", doc="text of any length"),
        Field(name="elo", dtype="int16", doc="a number"),
    ),
)
Batch = tuple[Columns, Columns]


def batch(lengths: list[int], rng: np.random.Generator) -> Batch:
    rows = sum(lengths)
    return (
        {
            "boards": rng.integers(0, 2**20, (rows, 3)).astype(np.uint64),
            "move": rng.integers(0, 2**16, rows).astype(np.uint16),
            "clock": np.where(np.arange(rows) % 97 < 90, -1, 5).astype(np.int32),
        },
        {
            "length": np.array(lengths, np.int64),
            "title": np.array([f"game {length} ☗" for length in lengths], object),
            "elo": rng.integers(0, 3000, len(lengths)).astype(np.int16),
        },
    )


def write_store(
    path: Path, *, batches: list[list[int]] | None = None, layout: Layout | None = None, seed: int = 0
) -> Path:
    """A sealed store of games of these lengths, and one of seven rows in ``val``."""
    rng = np.random.default_rng(seed)
    layout = layout or Layout(codec="zstd", chunk_rows=64, shard_rows=256)
    with ThreadPoolExecutor(2) as encoders:
        writer = StoreWriter(path.with_name(f"{path.name}.growing"), {"": SCHEMA}, layout, ("train", "val"), encoders)
        for lengths in batches or [[10, 300], [1, 63, 640], [5]]:
            writer.append("", "train", *batch(lengths, rng))
        writer.append("", "val", *batch([7], rng))
        sources = {
            "name": np.array(["a.pgn"], object),
            "digest": np.array(["00"], object),
            "bytes": np.array([1]),
            "found": np.array([7]),
            "accepted": np.array([7]),
            "rejected": np.array([0]),
        }
        attributes = {
            "domain": "moves",
            "row": "position",
            "sequence": "game",
            "parts": [""],
            "splits": ["train", "val"],
            "found": 7,
            "accepted": 7,
            "rejected": {},
            "rows": {"train": 1019, "val": 7},
            "sequences": {"train": 6, "val": 1},
            "params": {},
        }
        with Target(path) as target:
            writer.commit(target, attributes, sources)
    return path


@pytest.fixture
def encoders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str = "a.zarr", **options: Any) -> Path:
        return write_store(tmp_path / name, **options)

    return make


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Where an S3 server answers; the test is skipped without the extra ``s3``."""
    from tests.store.object_storage import serve

    with serve() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server, which ``s3://`` means in this test."""
    from tests.store.object_storage import point_to

    point_to(server, monkeypatch)
    return server
