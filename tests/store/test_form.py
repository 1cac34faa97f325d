"""A chunk is stored with every bit of its values, or not at all if it holds only the fill value."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.codecs
from zarr.abc.buffer import Buffer
from zarr.storage import MemoryStore

from outofcore.store.codecs import ChunkCodec, CodecName
from outofcore.store.form import array_document, as_bytes, encode_chunk, group_document
from outofcore.store.metadata import DTYPES, parse_array
from outofcore.store.schema import Field, Layout

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


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("dtype", [*sorted(DTYPES), "string"])
@pytest.mark.parametrize("shape", [(), (8, 3)])
def test_the_documents_are_those_of_zarr_python(dtype: str, codec: CodecName, shape: tuple[int, ...]) -> None:
    """Byte for byte, of an array and of a group, and read back as what was written."""
    text, layout = dtype == "string", Layout(codec=codec, level=3, chunk_rows=64, shard_rows=256)
    shape = () if text else shape
    fills = {"f": [0.0, -1.5, np.nan, np.inf, -np.inf], "b": [False, True]}
    for fill in fills.get("s" if text else np.dtype(dtype).kind, [0, 7] if not text else [""]):
        attributes = {"z": [1, {"b": 2.5}], "a": "\u00e9\u65e5", "none": None}
        field = Field(name="x", dtype=dtype, doc="it is", shape=shape, fill=fill, attributes=attributes)
        own = as_bytes(array_document("part/train", field, ChunkCodec(codec, 3, dtype), layout, 1000))
        written: dict[str, Buffer] = {}
        compressors: dict[str, list[Any]] = {
            "none": [],
            "lz4": [zarr.codecs.BloscCodec(cname="lz4", clevel=3, shuffle="noshuffle")],
            "zstd": [zarr.codecs.ZstdCodec(level=3)],
        }
        zarr.create_array(
            store=MemoryStore(written),
            name="part/train/x",
            shape=(1000, *shape),
            dtype=str if text else np.dtype(dtype).newbyteorder("<"),
            chunks=(64, *shape),
            shards={"shape": (256, *shape), "index_location": "start"},  # type: ignore[arg-type]  # zarr 3.1
            compressors=[*compressors[codec], zarr.codecs.Crc32cCodec()],
            filters=None,
            fill_value=fill,
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=("row", *(f"x_{axis}" for axis in range(1, len(shape) + 1))),
            attributes=dict(sorted({"doc": "it is", **attributes}.items())),
        )
        assert own == written["part/train/x/zarr.json"].to_bytes()
        facts = parse_array("a.zarr", "part/train/x", json.loads(own))
        assert (facts.shape, facts.codec.name, facts.shard_rows, facts.chunk_rows) == ((1000, *shape), codec, 256, 64)
        np.testing.assert_equal(facts.fill, fill)
    written = {}
    zarr.create_group(store=MemoryStore(written), attributes={"a": 1, "b": {"c": [2]}})
    assert as_bytes(group_document({"b": {"c": (2,)}, "a": 1})) == written["zarr.json"].to_bytes()


def test_writing_and_reading_a_store_needs_no_zarr_python(tmp_path: Path) -> None:
    script = (
        "import sys, numpy, outofcore\n"
        "outofcore.write_store(sys.argv[1], {'x': numpy.arange(100)}).rows('train')['x'].read()\n"
        "assert 'zarr' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a.zarr")], check=True)
