"""Many chunks in one call against one chunk at a time.

A chunk of the fill value alone is not stored, any other with every bit of its values. test_writer.py reads them with
other libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from outofcore.errors import DamagedStore
from outofcore.store import bulk
from outofcore.store.bulk import encode_chunk, encode_chunks, intact, read_chunks
from outofcore.store.codecs import ChunkCodec, CodecName
from outofcore.store.reader import open_store
from outofcore.store.schema import Field, Layout

MakeStore = Callable[..., Path]
FIELDS = (
    Field(name="squares", dtype="uint8", shape=(4, 8), doc="-"),
    Field(name="clock", dtype="int32", fill=-1, doc="-"),
    Field(name="value", dtype="float32", doc="-"),
    Field(name="missing", dtype="float64", fill=float("nan"), doc="-"),
    Field(name="flag", dtype="bool", doc="-"),
    Field(name="name", dtype="string", fill="", doc="-"),
)
ROWS = 700
RNG = np.random.default_rng(0)


@pytest.fixture(params=["compiled", "plain"])
def functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the C functions, and as where they are missing."""
    if request.param == "plain":
        monkeypatch.setattr(bulk, "_decoders", lambda: None)
    elif bulk._decoders() is None:
        pytest.skip("this platform's wheels do not export the C functions")


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("codec", get_args(CodecName))
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
@pytest.mark.parametrize("codec", get_args(CodecName))
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


@pytest.mark.skipif(bulk._decoders() is None, reason="this platform's wheels do not export the C functions")
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
    monkeypatch.setattr(bulk, "_decoders", lambda: None)
    assert soundness(encoded, int.from_bytes(encoded[-4:].tobytes(), "little"), len(encoded)) == [False]


def soundness(encoded: np.ndarray, sealed: int, *lengths: int) -> list[bool]:
    places = np.full(len(lengths), encoded.ctypes.data, np.uint64)
    found: list[bool] = intact(places, np.array(lengths), np.full(len(lengths), sealed)).tolist()
    return found


def chunks_of_all_kinds() -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (ROWS, 4, 8), np.uint8), rng.integers(-1, 3, ROWS, np.int32)]
    noise += [rng.normal(size=ROWS).astype(np.float32), rng.normal(size=ROWS), rng.random(ROWS) < 0.5]
    empty = [np.zeros((ROWS, 4, 8), np.uint8), np.full(ROWS, -1, np.int32), np.zeros(ROWS, np.float32)]
    empty += [np.full(ROWS, np.nan), np.zeros(ROWS, bool)]
    signed = [*empty[:2], np.where(np.arange(ROWS) == 300, np.float32(-0.0), np.float32(0)), *empty[3:]]
    nearly = [each.copy() for each in empty]
    for each, other in zip(nearly, noise, strict=True):
        each[-1] = other[-1]
    apart = [np.repeat(each, 2, axis=0)[::2] for each in noise]
    texts = [np.array(["a", ""] * (ROWS // 2), object), np.array([""] * ROWS, object)]
    return [[*kind, texts[place % 2]] for place, kind in enumerate((noise, empty, signed, nearly, apart))]


@pytest.mark.parametrize("name", get_args(CodecName))
@pytest.mark.parametrize("compiled", [True, False])
def test_chunks_have_the_bytes_that_they_have_one_by_one(
    monkeypatch: pytest.MonkeyPatch, name: str, *, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr(bulk, "_encoders", lambda: None)
    codecs = [ChunkCodec(name, 3, field.dtype) for field in FIELDS]
    chunks = chunks_of_all_kinds()
    expected = [[encode_chunk(*each) for each in zip(FIELDS, codecs, arrays, strict=True)] for arrays in chunks]
    assert encode_chunks(FIELDS, codecs, chunks) == expected
    assert [encoded == b"" for encoded in expected[1]] == [True, True, True, False, True, True]
    assert expected[2][2], "a negative zero is a value to store"


def test_a_chunk_that_cannot_be_compressed_fits() -> None:
    field = Field(name="noise", dtype="uint64", doc="-")
    codec, rng = ChunkCodec("zstd", 1, "uint64"), np.random.default_rng(1)
    for rows in (1, 2, 100, 20_000):
        noise = rng.integers(0, 2**64, rows, np.uint64)
        ((encoded,),) = encode_chunks([field], [codec], [[noise]])
        out = np.empty_like(noise)
        codec.decode(encoded, out)
        assert np.array_equal(out, noise)
        assert encoded == codec.encode(noise)


@pytest.mark.parametrize("codec", get_args(CodecName))
@pytest.mark.parametrize(
    ("dtype", "fill", "empty", "stored"),
    [
        ("uint8", 0, np.zeros((ROWS, 4, 8)), RNG.integers(0, 256, (ROWS, 4, 8))),
        ("uint64", 0, np.zeros(ROWS), RNG.integers(0, 2**64, ROWS, np.uint64)),
        ("int32", -1, np.full(ROWS, -1), np.append(np.full(ROWS - 1, -1), 7)),
        ("float32", 0.0, np.zeros(ROWS), np.where(np.arange(ROWS) == 300, -0.0, 0.0)),  # -0.0 equals the fill value
        ("float64", float("nan"), None, np.full(ROWS, np.nan)),  # no value is equal to one that is not a number
        ("bool", False, np.zeros(ROWS), RNG.random(ROWS) < 0.5),
        ("string", "", np.full(ROWS, "", object), np.array(["é", ""] * (ROWS // 2), object)),
        ("uint8", 0, None, np.zeros((ROWS, 0))),
    ],
)
def test_only_a_chunk_of_the_fill_value_is_not_stored(
    codec: CodecName, dtype: str, fill: Any, empty: np.ndarray | None, stored: np.ndarray
) -> None:
    kind = object if dtype == "string" else dtype
    field = Field(name="a", dtype=dtype, shape=stored.shape[1:], fill=fill, doc="-")
    coder = ChunkCodec(codec, 3, dtype)
    if empty is not None:
        assert encode_chunk(field, coder, empty.astype(kind)) == b""
    chunk = stored.astype(kind)
    encoded = encode_chunk(field, coder, chunk)
    if not stored.size:
        assert encoded == b""
        return
    out = np.empty_like(chunk)
    coder.decode(encoded, out)
    assert out.tolist() == chunk.tolist() if dtype == "string" else out.tobytes() == chunk.tobytes()
