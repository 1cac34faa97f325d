"""Mapped shards: what changes in them while a loader is open is noticed, and ends in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outofcore.errors import DamagedStore, StoreError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from tests.loading.conftest import write_store
from tests.processes import with_few_files

SHARD = "train/id/c.1"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "a.zarr", [300, 700], codec="none")


def mapped(store: Path) -> Loader:
    return loader(
        store,
        "train",
        50,
        tensors=("id",),
        residency="mapped",
        memory="64MiB",
        threads=1,
        shuffle=Shuffle(pool_blocks=4),
    )


def change(path: Path, place: int) -> None:
    """Change a byte where it is, as a failing disk does."""
    with path.open("r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 4]))


def test_a_byte_that_changes_after_an_epoch_is_noticed_by_the_next(store: Path) -> None:
    batches = mapped(store)
    assert sorted(int(row) for batch in batches for row in batch["id"]) == list(range(1000))
    read = batches.stats.bytes_read
    assert sorted(int(row) for batch in batches for row in batch["id"]) == list(range(1000))
    assert batches.stats.bytes_read == read
    change(store / SHARD, 200)
    with pytest.raises(DamagedStore, match=r"field train/id, shard train/id/c\.1, chunk 4 .* is damaged"):
        list(batches)


def test_a_shard_that_is_cut_short_is_refused_and_does_not_kill_the_process(store: Path) -> None:
    batches = mapped(store)
    list(batches)
    size = (store / SHARD).stat().st_size
    os.truncate(store / SHARD, 100)
    with pytest.raises(DamagedStore, match=rf"train/id/c\.1 has 100 bytes, expected {size}"):
        list(batches)


def test_more_shards_than_files_that_may_be_open_are_one_line(tmp_path: Path) -> None:
    store = write_store(tmp_path / "a.zarr", [1000], codec="none", chunk_rows=16, shard_rows=16)
    small = write_store(tmp_path / "b.zarr", [100], codec="none")
    with pytest.raises(
        StoreError, match=r"cannot be (mapped|opened).*raise (it|the limit of open files) with 'ulimit -n'"
    ):
        with_few_files(read_mapped, small, store)


def read_mapped(small: Path, store: Path) -> None:
    list(mapped(small))  # loads the machine code, before files run out
    list(mapped(store))
