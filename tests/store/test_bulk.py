"""Many chunks in one call against one chunk at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outofcore.errors import DamagedStore
from outofcore.store import bulk
from outofcore.store.bulk import intact, read_chunks
from outofcore.store.codecs import ChunkCodec, CodecName
from outofcore.store.reader import open_store
from outofcore.store.schema import Layout

MakeStore = Callable[..., Path]


@pytest.fixture(params=["compiled", "plain"])
def functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the C functions, and as where they are missing."""
    if request.param == "plain":
        monkeypatch.setattr(bulk, "_functions", lambda: None)
    elif bulk._functions() is None:
        pytest.skip("this platform's wheels do not export the C functions")


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_is_what_single_chunks_give(make_store: MakeStore, codec: CodecName) -> None:
    layout = Layout(codec=codec, chunk_rows=64, shard_rows=256)
    table = open_store(make_store(batches=[[300], [700, 90]], layout=layout)).rows("train")
    arrays = [table[name] for name in ("boards", "clock", "move")]
    chunks = np.random.default_rng(0).permutation(arrays[0].chunks)
    slots = np.random.default_rng(1).permutation(20)[: len(chunks)]
    buffers = [np.zeros((20, 64, *array.shape[1:]), array.dtype) for array in arrays]
    read = sum(read_chunks(arrays, chunks[at : at + 6], buffers, slots[at : at + 6]) for at in range(0, len(chunks), 6))
    expected = 0
    for array, buffer in zip(arrays, buffers, strict=True):
        plain = np.empty((64, *array.shape[1:]), array.dtype)
        for chunk, slot in zip(chunks, slots, strict=True):
            expected += array.chunk(int(chunk), plain)
            assert (buffer[slot] == plain).all()
    assert read == expected


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("from_end", [1, 4, 5, 30])
def test_any_changed_bit_is_noticed(make_store: MakeStore, codec: CodecName, from_end: int) -> None:
    root = make_store(batches=[[300], [700, 90]], layout=Layout(codec=codec, chunk_rows=64, shard_rows=256))
    shard = root / "train" / "boards" / "c.1.0"
    content = bytearray(shard.read_bytes())
    content[-from_end] ^= 16
    shard.write_bytes(content)
    arrays = [open_store(root).rows("train")["boards"]]
    buffers = [np.zeros((20, 64, 3), np.uint64)]
    with pytest.raises(DamagedStore, match=r"train/boards.*c\.1\.0.*chunk 7"):
        read_chunks(arrays, np.arange(10), buffers, np.arange(10))


@pytest.mark.usefixtures("functions")
def test_a_file_that_was_cut_is_noticed(make_store: MakeStore) -> None:
    root = make_store(batches=[[300], [700, 90]])
    arrays = [open_store(root).rows("train")["boards"]]
    shard = root / "train" / "boards" / "c.1.0"
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(DamagedStore, match=r"c\.1\.0"):
        read_chunks(arrays, np.arange(10), [np.zeros((10, 64, 3), np.uint64)], np.arange(10))


@pytest.mark.skipif(bulk._functions() is None, reason="this platform's wheels do not export the C functions")
def test_chunks_in_memory_are_intact_until_a_bit_changes() -> None:
    encoded = np.frombuffer(ChunkCodec("none", 0, "uint8").encode(np.arange(99, dtype=np.uint8)), np.uint8).copy()
    size = len(encoded)
    sealed = int.from_bytes(encoded[-4:].tobytes(), "little")
    assert soundness(encoded, sealed, size, size - 1, size, 3) == [True, False, True, False]
    assert soundness(encoded, sealed ^ 1, size) == [False]
    for place in range(size):
        encoded[place] ^= 4
        assert soundness(encoded, sealed, size) == [False]
        encoded[place] ^= 4


def test_where_checksums_cannot_be_computed_no_chunk_is_intact(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = np.frombuffer(ChunkCodec("none", 0, "uint8").encode(np.arange(9, dtype=np.uint8)), np.uint8)
    monkeypatch.setattr(bulk, "_functions", lambda: None)
    assert soundness(encoded, int.from_bytes(encoded[-4:].tobytes(), "little"), len(encoded)) == [False]


def soundness(encoded: np.ndarray, sealed: int, *lengths: int) -> list[bool]:
    places = np.full(len(lengths), encoded.ctypes.data, np.uint64)
    found: list[bool] = intact(places, np.array(lengths), np.full(len(lengths), sealed)).tolist()
    return found
