"""Rows of one table: refused where they are not its fields', encoded ahead, written in order and counted."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.store import table_writer
from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.shards import ShardFile, index_bytes
from outofcore.store.table_writer import Chunk, EncodingQueue, TableWriter
from outofcore.store.writer import StoreWriter
from tests.processes import with_few_files
from tests.store.conftest import SCHEMA, batch, write_store

SPLITS = ("train", "val", "test")


def test_a_column_of_the_wrong_kind_is_named(tmp_path: Path, encoders: ThreadPoolExecutor) -> None:
    writer = StoreWriter(tmp_path / "w", {"": SCHEMA}, Layout(chunk_rows=64, shard_rows=64), ("train",), encoders)
    rows, sequences = batch([4], np.random.default_rng(0))
    with pytest.raises(ValueError, match="train/move: expected dtype uint16, got int64"):
        writer.append("", "train", {**rows, "move": rows["move"].astype(np.int64)}, sequences)
    with pytest.raises(ValueError, match=r"train/boards: expected shape \(4, 3\), got \(4, 2\)"):
        writer.append("", "train", {**rows, "boards": rows["boards"][:, :2]}, sequences)


def test_appends_of_any_size_give_the_same_bytes(tmp_path: Path, encoders: ThreadPoolExecutor) -> None:
    rows, _ = batch([1000], np.random.default_rng(0))
    files = []
    for number, cuts in enumerate(([], [1, 2, 3, 4], [64, 128], [63, 65, 500, 500], range(1, 1000, 7))):
        layout, queue = Layout(chunk_rows=64, shard_rows=256), EncodingQueue(encoders)
        table = TableWriter(tmp_path / str(number), "train", SCHEMA.rows, layout, queue)
        for start, stop in pairwise([0, *cuts, 1000]):
            table.append({name: column[start:stop] for name, column in rows.items()})
        table.close()
        files.append(table.files)
    assert len(files[0]) == 12
    assert files == files[:1] * 5


def test_shards_that_are_finished_slowly_do_not_keep_their_files_open(tmp_path: Path) -> None:
    with_few_files(write_small_shards, tmp_path, files=60)


def write_small_shards(folder: Path) -> None:
    sync = os.fsync
    os.fsync = lambda number: time.sleep(0.003) or sync(number)  # type: ignore[assignment,func-returns-value]
    write_store(folder / "a.zarr", batches=[[100]] * 20, layout=Layout(codec="none", chunk_rows=16, shard_rows=16))
    assert len([*(folder / "a.zarr/train/move").glob("c.*")]) == 125


def test_bytes_written_are_counted_as_chunks_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the shards have, without a look at all of them for every unit."""

    def on_disk() -> int:
        sizes = {path: path.stat().st_size for path in (tmp_path / "store").rglob("c.*")}
        return sum(size - (path.suffix == ".partial") * index_bytes(2) for path, size in sizes.items())

    schema = Schema(rows=(Field(name="number", dtype="int32", doc="a number"),), sequences=())
    layout = Layout(chunk_rows=16, shard_rows=32)
    monkeypatch.setattr(table_writer, "ShardFile", Synced)
    with AtOnce() as encoders:
        writer = StoreWriter(tmp_path / "store", {"": schema}, layout, SPLITS, encoders)
        for number in range(50):
            rows = {"number": np.arange(number, number + 20, dtype=np.int32)}
            writer.append("", SPLITS[number % 3], rows, {"length": np.array([20])})
            assert writer.bytes_waiting() > 0
            assert writer.bytes_written() == on_disk()
            for table in writer.tables():
                table.files = Unread(table.files)
        state = writer.snapshot()
        assert writer.bytes_waiting() == 0
        assert writer.bytes_written() == on_disk() > 0
        writer.abandon()
        again = StoreWriter(tmp_path / "store", {"": schema}, layout, SPLITS, encoders)
        again.restore(*state)
        assert again.bytes_written() == on_disk()
        again.abandon()


class AtOnce(Executor):
    """Has done everything before anybody looks."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Synced(ShardFile):
    """A shard of which nothing remains in a buffer."""

    def append(self, encoded: bytes) -> None:
        super().append(encoded)
        self.sync()


class Unread(dict[str, tuple[int, str]]):
    """Shards that nobody sums up."""

    def values(self) -> Any:
        raise AssertionError


def chunks(number: int) -> list[Chunk]:
    return [[np.full(3, 2 * number, np.uint8)], [np.full(3, 2 * number + 1, np.uint8)]]


def encode(group: list[Chunk]) -> list[list[bytes]]:
    return [[array.tobytes() for array in chunk] for chunk in group]


def test_chunks_are_written_in_order_whichever_is_encoded_first() -> None:
    released, written = threading.Event(), []
    with ThreadPoolExecutor(2) as encoders:
        queue = EncodingQueue(encoders)
        queue.put(chunks(0), lambda group: encode(group) if released.wait() else [], written.extend)
        for number in range(1, 10):
            queue.put(chunks(number), encode, written.extend)
        assert not written
        released.set()
        queue.finish()
    assert b"".join(written) == bytes(np.repeat(np.arange(20, dtype=np.uint8), 3))


def test_at_most_so_many_groups_of_chunks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "AHEAD", 3)
    written: list[bytes] = []
    with ThreadPoolExecutor(1) as encoders:
        queue = EncodingQueue(encoders)
        for number in range(10):
            queue.put(chunks(number), encode, written.extend)
            assert len(written) >= 2 * (number - 2)
            assert queue.bytes_waiting == 3 * (2 * (number + 1) - len(written))


@pytest.mark.parametrize(("dtype", "filler"), [(object, 0), (np.dtypes.StringDType(), "")])
def test_texts_take_no_more_than_is_counted(dtype: Any, filler: Any) -> None:
    codec = ChunkCodec("none", 0, "string")
    with ThreadPoolExecutor(1) as encoders:
        queue = EncodingQueue(encoders)
        texts = np.array(["\N{GRINNING FACE}" * 50] * 100 + [filler] * 20, dtype)
        queue.put([[texts]], lambda _: [[codec.encode(texts)]], lambda _: None)
        assert len(codec.encode(texts)) - 4 - CRC_BYTES == queue.bytes_waiting


def test_a_chunk_that_cannot_be_encoded_is_never_passed_over() -> None:
    written: list[bytes] = []
    with ThreadPoolExecutor(1) as encoders:
        queue = EncodingQueue(encoders)
        queue.put(chunks(0), lambda group: [[b"%d" % (1 // len(group[5:]))]], written.extend)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                queue.finish()
    assert not written
