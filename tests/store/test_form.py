"""A chunk is stored with every bit of its values, or not at all if it holds only the fill value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outofcore.store.codecs import ChunkCodec
from outofcore.store.form import encode_chunk
from outofcore.store.schema import CodecName, Field

ROWS = 700
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
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
