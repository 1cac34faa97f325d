"""Gathering by addresses against numpy's own indexing."""

from __future__ import annotations

import numpy as np
import pytest

from outofcore.loading.gather import BatchBuffer, gather

CHUNK = 13
ORIGINS = np.zeros(9, np.int64)


@pytest.mark.parametrize("shape", [(), (2,), (3,), (5, 3), (200, 4)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "uint64"])
@pytest.mark.parametrize("length", [1, 4, 30])
def test_is_numpys_indexing(shape: tuple[int, ...], dtype: str, length: int) -> None:
    rng = np.random.default_rng(0)
    # Chunks at odd places: the 9 of them in a shuffled buffer, 3 bytes apart.
    chunks = [rng.integers(0, 100, (CHUNK, *shape)).astype(dtype) for _ in range(9)]
    size = chunks[0].nbytes + 3
    buffer = np.zeros(9 * size, np.uint8)
    table = np.zeros((1, 9), np.uint64)
    for place, number in enumerate(rng.permutation(9)):
        buffer[place * size : place * size + size - 3] = chunks[number].reshape(-1).view(np.uint8)
        table[0, number] = buffer.ctypes.data + place * size
    first = rng.integers(0 if length == 1 else -length + 1, 9 * CHUNK - length + 1, 40)
    out = BatchBuffer({"x": np.zeros((50, length, *shape), dtype)})
    row_bytes = np.array([chunks[0].nbytes // CHUNK])
    gather(table, first, length, CHUNK, ORIGINS, row_bytes, out, 5)
    rows = np.concatenate(chunks)
    assert (out.arrays["x"][5:45] == rows[np.maximum(first[:, None] + np.arange(length), 0)]).all()
    assert not out.arrays["x"][:5].any()
    assert not out.arrays["x"][45:].any()


@pytest.mark.parametrize("size", [*range(1, 130), 511, 512, 513])
def test_rows_of_every_size_are_whole_and_touch_no_neighbour(size: int) -> None:
    rng = np.random.default_rng(size)
    rows = rng.integers(1, 256, (40, size), np.uint8)
    table = np.array([[rows[start:].ctypes.data for start in range(0, len(rows), 8)]], np.uint64)
    first = rng.permutation(len(rows))[::2]  # so that between two copied rows none follows the other
    out = BatchBuffer({"x": np.zeros((len(first) + 2, 1, size), np.uint8)})
    for at, row in enumerate(first, 1):  # one at a time: the next row would cover what is written too far
        gather(table, np.array([row]), 1, 8, ORIGINS, np.array([size]), out, at)
        assert (out.arrays["x"][1 : at + 1, 0] == rows[first[:at]]).all()
        assert not out.arrays["x"][at + 1 :].any()
    out.arrays["x"][:] = 0
    gather(table, first, 1, 8, ORIGINS, np.array([size]), out, 1)
    assert (out.arrays["x"][1:-1, 0] == rows[first]).all()
    assert not out.arrays["x"][[0, -1]].any()


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("row", [4, 26, 39, 1000])
def test_what_is_not_in_reach_is_an_error_and_not_a_crash(length: int, row: int) -> None:
    here = np.zeros((CHUNK, 1), np.int64)
    table = np.array([[0, here.ctypes.data, 0]], np.uint64)
    out = BatchBuffer({"x": np.zeros((1, length), np.int64)})
    with pytest.raises(LookupError, match=f"rows from {row} on"):
        gather(table, np.array([row]), length, CHUNK, ORIGINS, np.array([8]), out, 0)
