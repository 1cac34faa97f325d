"""The on-disk form of a store's fields and groups: one template, by which documents are written and read.

zarr-python writes the same bytes (a test compares them), but is not needed: it takes a third of a second to import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.store.codecs import ChunkCodec, zarr_codecs
from outofcore.store.schema import Field, Layout

# Names of the first dimension by the table that an array belongs to, for xarray and others; rows in all other tables.
_FIRST = {"sequences": "sequence", "sources": "file"}
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The ``zarr.json`` of a group."""
    return {"attributes": sorted_keys(attributes), "zarr_format": 3, "node_type": "group"}


def array_document(table: str, field: Field, codec: ChunkCodec, layout: Layout, rows: int) -> dict[str, Any]:
    """The ``zarr.json`` of a field of a table with so many rows."""
    axes = field.axes or [f"{field.name}_{axis}" for axis in range(1, len(field.shape) + 1)]
    sharding = {
        "chunk_shape": [layout.chunk_rows, *field.shape],
        "codecs": zarr_codecs(codec),
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "index_location": "start",
    }
    fill = "" if field.dtype == "string" else np.array(field.fill, field.dtype)[()].item()
    return {
        "shape": [rows, *field.shape],
        "data_type": field.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [layout.shard_rows, *field.shape]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": _NOT_FINITE.get(str(fill), fill) if isinstance(fill, float) else fill,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "attributes": dict(sorted({"doc": field.doc, **field.attributes}.items())),
        "dimension_names": [_FIRST.get(table.rpartition("/")[2], "row"), *axes],
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def as_bytes(document: Mapping[str, Any]) -> bytes:
    """The content of a ``zarr.json``."""
    return json.dumps(document, indent=2).encode()


def sorted_keys(value: Any) -> Any:
    """Mappings with sorted keys at all levels: equal content, equal bytes."""
    if isinstance(value, Mapping):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list | tuple) else value


def is_empty(field: Field, chunk: npt.NDArray[Any]) -> bool:
    """Whether a chunk holds only the fill value."""
    if (chunk.size and chunk.flat[0] != field.fill) or not np.all(chunk == field.fill):
        return False
    # -0.0 equals 0.0, but is another value to store.
    return not (chunk.dtype.kind == "f" and field.fill == 0 and np.signbit(chunk).any())


def encode_chunk(field: Field, codec: ChunkCodec, chunk: npt.NDArray[Any]) -> bytes:
    """Bytes of a whole chunk; empty if it holds only the fill value."""
    return b"" if is_empty(field, chunk) else codec.encode(chunk)


def filler(field: Field, rows: int) -> npt.NDArray[Any]:
    """Fill rows, as at the end of the last chunk."""
    return np.full((rows, *field.shape), field.fill, dtype=dtype_of(field))


def dtype_of(field: Field) -> Any:
    """In-memory numpy dtype of a field's rows."""
    return object if field.dtype == "string" else np.dtype(field.dtype)
