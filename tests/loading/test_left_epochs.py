"""Work that was read ahead, and that nobody waits for, writes nowhere once its epoch has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from outofcore.loading.gather import BatchBuffer, gather
from outofcore.order.batching import Batching
from outofcore.order.windows import touched
from outofcore.store.bulk import decode_plain, read_chunks
from outofcore.store.reader import open_store
from tests.loading.conftest import MakeStore, write_store

ROOT = Path(__file__).parents[2]
WAYS = [
    "nothing",
    "abandoned",
    "set_epoch",
    "loaded_state",
    "closed",
    "error_in_map",
    "ctrl_c",
    "collected_in_a_thread_of_its_own",
    "damage",
]
START = "import sys, outofcore; loaded = outofcore.loader(sys.argv[1], memory='8MiB', threads=2); rest = iter(loaded)"


def test_an_epoch_may_be_left_in_any_way(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.loading.guarded_epochs", str(tmp_path), "3", *WAYS]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [f"{way}, {last}: all rows as stored" for way in WAYS for last in ("drop", "keep")]
    assert (ended.returncode, ended.stdout.splitlines()) == (0, lines), ended.stderr[-2000:]


@pytest.mark.long
@pytest.mark.parametrize("rest", ["", "; next(rest)", "; next(rest); del loaded", "; first = next(rest); del rest"])
def test_a_program_may_end_within_an_epoch(tmp_path: Path, rest: str) -> None:
    store = write_store(tmp_path / "a.zarr", [3000])
    program = [sys.executable, "-c", START + rest, str(store)]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("last", ["drop", "keep", "pad"])
@pytest.mark.parametrize("world", [1, 3])
def test_the_end_is_that_of_the_last_batch(last: str, world: int) -> None:
    for positions in range(40):
        for start in range(0, 40, 5):
            batching = Batching(size=5, last=last, rank=0, world=world)  # type: ignore[arg-type]  # parametrized
            spans = list(batching.spans(start, positions))
            assert batching.end(start, positions) == (spans[-1][1] if spans else start)


def test_chunks_go_into_slots_alone(make_store: MakeStore) -> None:
    array = open_store(make_store()).rows("train")["id"]
    memory = np.full((5, array.chunk_rows), -1, array.dtype)
    for slots in ([3], [-1], [2**40], [-(2**40)]):
        with pytest.raises(IndexError, match="expected one of 3 slots for chunk 1, got "):
            read_chunks([array], np.array([1]), [memory[1:4]], np.array(slots))
    assert (memory == -1).all()
    read_chunks([array], np.array([1]), [memory[1:4]], np.array([2]))
    assert memory[3].tolist() == list(range(array.chunk_rows, 2 * array.chunk_rows))


@pytest.mark.parametrize(
    ("skip", "offset", "size", "decoded"),
    [(0, 0, 8, True), (2, 12, 4, True), (0, 9, 8, False), (0, -1, 8, False), (0, 0, -8, False), (5, 0, 4, False)],
)
def test_plain_chunks_go_into_the_buffer_alone(skip: int, offset: int, size: int, decoded: bool) -> None:
    stored, memory = np.arange(8, dtype=np.uint8), np.full((4, 8), 255, np.uint8)
    job = [0, stored.ctypes.data, 8, 8, skip, offset, size]
    assert decode_plain(0, np.array([job]), 8, memory[1:3]).tolist() == [decoded]
    expected = np.full(32, 255, np.uint8)
    if decoded:
        expected[8 + offset : 8 + offset + size] = stored[skip : skip + size]
    assert memory.reshape(-1).tolist() == expected.tolist()


@pytest.mark.parametrize("length", [1, 3])
def test_a_batch_takes_no_more_rows_than_it_has_room_for(length: int) -> None:
    chunk, out = np.zeros(8, np.int64), BatchBuffer({"x": np.zeros((4, length), np.int64)})
    table = np.array([[chunk.ctypes.data]], np.uint64)
    for at, count in ((3, 2), (0, 5), (-1, 2)):
        with pytest.raises(IndexError, match="do not fit into a buffer"):
            gather(table, np.zeros(count, np.int64), length, 8, np.zeros(1, np.int64), np.array([8]), out, at)


@pytest.mark.parametrize("row", [-40, 31, 1 << 40])
def test_windows_outside_the_rows_touch_no_chunk(row: int) -> None:
    with pytest.raises(IndexError, match="outside the rows"):
        touched(np.array([row]), 2, 8, np.zeros(4, np.int64))
