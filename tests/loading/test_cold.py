"""What is on a disk and not in memory is asked for before it is waited for: a disk works on many requests at once."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from outofcore.arrays import write_store
from outofcore.loading.chunk_cache import ChunkCache
from outofcore.loading.loader import loader
from outofcore.loading.residency import Residency, Work
from outofcore.ndarrays import Ints
from outofcore.order.plain import InOrder, Shuffle
from outofcore.order.windows import Window
from tests.loading.conftest import MakeStore, windows_read

VALUES = np.random.default_rng(0).integers(0, 255, (4096, 64), np.uint8)
OPTIONS: dict[str, Any] = {"memory": "1MiB", "tensors": ("id",), "residency": "streamed"}


def sealed(path: Path, codec: str) -> None:
    write_store(path, {"x": VALUES}, codec=codec, chunk_rows=256, shard_rows=1024)


def plain(path: Path, shards: tuple[int, int] | None) -> None:
    array = zarr.create_array(path, shape=VALUES.shape, dtype="u1", chunks=(256, 64), shards=shards, fill_value=0)
    array[:] = VALUES
    array[256:512] = 0  # a chunk that is not stored


INDEX = 4 * 16 + 4  # bytes of that of a shard, which is read by itself


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no advice")
@pytest.mark.parametrize(
    ("make", "residency", "stored", "chunks"),
    [
        pytest.param(lambda path: sealed(path, "zstd"), "streamed", "train/x/c*", slice(INDEX, None), id="streamed"),
        pytest.param(
            lambda path: sealed(path, "zstd"),
            "ram",
            "train/x/c*",
            slice(INDEX, None),
            id="kept",
            marks=pytest.mark.long,
        ),
        pytest.param(lambda path: sealed(path, "none"), "mapped", "train/x/c*", slice(INDEX, None), id="mapped"),
        pytest.param(lambda path: plain(path, None), "streamed", "c/*/*", slice(0, None), id="a Zarr without shards"),
        pytest.param(
            lambda path: plain(path, (1024, 64)), "streamed", "c/*/*", slice(0, -INDEX), id="a Zarr of shards"
        ),
    ],
)
def test_what_an_epoch_reads_is_announced_once_and_nothing_else(
    make: Callable[[Path], None],
    residency: Any,
    stored: str,
    chunks: slice,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(tmp_path / "x.zarr")
    announced = Counter[tuple[Path, int]]()  # times of each byte of each file

    def advise(number: int, offset: int, length: int, advice: int) -> None:
        file = Path(f"/proc/self/fd/{number}").readlink()
        announced.update((file, place) for place in range(offset, offset + length if length else file.stat().st_size))
        assert advice == os.POSIX_FADV_WILLNEED

    monkeypatch.setattr(os, "posix_fadvise", advise)
    batches = loader(tmp_path / "x.zarr", "train", 64, residency=residency, memory="4MB", threads=2)
    assert sum(len(next(iter(batch.values()))) for batch in batches) == len(VALUES)
    files = [file for file in (tmp_path / "x.zarr").glob(stored) if file.is_file()]
    assert announced == Counter((file, place) for file in files for place in range(file.stat().st_size)[chunks])


def test_a_pool_is_announced_while_the_one_before_is_decoded(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools, in_time, third, bring = 0, list[bool](), threading.Event(), Residency.bring

    def bring_second_after_third(residency: Residency, chunks: Ints) -> list[Work]:
        nonlocal pools
        pools += 1
        if pools == 3:
            third.set()
        wait = [lambda: in_time.append(third.wait(30))] if pools == 2 else []
        return [*wait, *bring(residency, chunks)]

    monkeypatch.setattr(Residency, "bring", bring_second_after_third)
    for batch in loader(make_store(), batch_size=16, threads=1, shuffle=Shuffle(pool_blocks=2), **OPTIONS):
        del batch
    assert pools > 2
    assert in_time == [True]


def test_chunks_that_pools_share_are_waited_for(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window(length=70, mode="reach")
    options = OPTIONS | {
        "memory": "8MiB",
        "shuffle": InOrder(pool_blocks=1),
        "window": window,
        "batch_size": 64,
        "threads": 8,
    }
    expected = windows_read(loader(make_store(), **options))
    load = ChunkCache._load

    def load_late(cache: ChunkCache, chunks: Ints) -> int:
        if 7 in chunks % 8:  # the last of every second pool of four, which the next pool needs too
            time.sleep(0.1)
        return load(cache, chunks)

    monkeypatch.setattr(ChunkCache, "_load", load_late)
    np.testing.assert_array_equal(windows_read(loader(make_store(), **options)), expected)
