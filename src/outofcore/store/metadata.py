"""The ``zarr.json`` of a store, from one template by which it is written, and parsed and checked.

Stores may be untrusted, and their numbers reach compiled code. zarr-python writes the same bytes (a test compares
them), but is not needed: it takes a third of a second to import.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.errors import DamagedStore, StoreError
from outofcore.settings.yaml_text import parse_json
from outofcore.store.codecs import ChunkCodec, codec_of, zarr_codecs
from outofcore.store.schema import Field, Layout
from outofcore.store.seal import ADVICE

DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
# More rows than any disk holds, but products of sizes stay within 64 bits.
MOST_ROWS = 1 << 48
MOST_CHUNK_BYTES = 1 << 34
MOST_AXES = 32
_NOT_FINITE = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
_COUNTS = ("found", "accepted", "audited")
_COUNTS_BY_NAME = ("rows", "sequences", "rejected")
_WORDS = ("domain", "row", "sequence")
_NAMES = ("parts", "splits")
# Names of the first dimension by the table that an array belongs to, for xarray and others; rows in all other tables.
_FIRST = {"sequences": "sequence", "sources": "file"}
_NAMED = {str(value): name for name, value in _NOT_FINITE.items()}


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The ``zarr.json`` of a group."""
    return {"attributes": sorted_keys(attributes), "zarr_format": 3, "node_type": "group"}


def array_document(table: str, field: Field, layout: Layout, rows: int) -> dict[str, Any]:
    """The ``zarr.json`` of a field of a table with so many rows."""
    axes = field.axes or [f"{field.name}_{axis}" for axis in range(1, len(field.shape) + 1)]
    sharding = {
        "chunk_shape": [layout.chunk_rows, *field.shape],
        "codecs": zarr_codecs(ChunkCodec(layout.codec, layout.level, field.dtype)),
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "index_location": "start",
    }
    fill = "" if field.dtype == "string" else np.array(field.fill, field.dtype)[()].item()
    return {
        "shape": [rows, *field.shape],
        "data_type": field.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [layout.shard_rows, *field.shape]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": _NAMED.get(str(fill), fill) if isinstance(fill, float) else fill,
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


class Attributes(dict[str, Any]):
    """Attributes of a group; a missing one is a StoreError naming the file ``where``."""

    def __init__(self, where: str, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise StoreError(f"{self.where} has no attribute {name!r}; convert again with this version")


def parse_document(root: Path | str, name: str, content: bytes, digest: str) -> dict[str, Any]:
    """The JSON of a group or array; raises DamagedStore if its bytes changed, StoreError if invalid."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise DamagedStore(f"{root}: {name} was changed after sealing; {ADVICE}")
    try:
        document = parse_json(content)
        _require(isinstance(document, dict), "no mapping")
        _require(document["node_type"] in ("array", "group"), f"node_type {document['node_type']!r}")
        attributes = document.get("attributes", {})
        _require(isinstance(attributes, dict), "attributes that are no mapping")
    except (LookupError, ValueError, TypeError, RecursionError) as error:
        raise _refused(root, name, error) from error
    return dict(document)


def parse_root(root: Path | str, document: Mapping[str, Any]) -> Attributes:
    """The attributes of the root group that all domains share; raises StoreError if invalid."""
    name = "zarr.json"
    attributes = document.get("attributes", {})
    try:
        for key in ("domain", *_NAMES):
            _require(key in attributes, f"no attribute {key!r}")
        _require(len(attributes["parts"]) > 0, "no part")
        for key, value in attributes.items():
            _require(_is_well_typed(key, value), f"attribute {key!r} {value!r:.80}")
    except (ValueError, TypeError) as error:
        raise _refused(root, name, error) from error
    return Attributes(f"{root}: {name}", attributes)


def chunks_stated(root: Path | str, path: str, document: Mapping[str, Any]) -> int:
    """Chunks of an array by its document, of which no more is checked; raises StoreError."""
    try:
        rows, chunk = document["shape"][0], document["codecs"][0]["configuration"]["chunk_shape"][0]
        _require(_is_int(rows) and _is_int(chunk) and rows >= 0 < chunk, f"sizes {rows!r:.80}, {chunk!r:.80}")
    except (LookupError, ValueError, TypeError) as error:
        raise _refused(root, f"{path}/zarr.json", error) from error
    return int(-(-rows // chunk))


def parse_array(root: Path | str, path: str, document: Mapping[str, Any]) -> tuple[Field, Layout, int]:
    """The field, layout and rows of an array; raises StoreError for anything that outofcore does not write."""
    try:
        return _parsed(path, document)
    except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise _refused(root, f"{path}/zarr.json", error) from error


def _parsed(path: str, document: Mapping[str, Any]) -> tuple[Field, Layout, int]:
    """What varies between arrays, from a document that is otherwise the one that would be written."""
    (rows, *inner), (shard, *_) = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
    sharding, dtype = document["codecs"][0]["configuration"], document["data_type"]
    chunk, codec = sharding["chunk_shape"][0], codec_of(sharding["codecs"], dtype)
    sizes, text = (rows, *inner, shard, chunk), dtype == "string"
    _require(all(map(_is_int, (*sizes, codec.level))), f"sizes {sizes!r:.80}, level {codec.level!r:.80}")
    _require(0 <= min(sizes) <= max(sizes) <= MOST_ROWS and shard > 0, f"sizes {sizes!r:.80}")
    _require(len(inner) < MOST_AXES and all(inner), f"shape {document['shape']!r:.80}: rows of no values, or many axes")
    _require((text and not inner) or dtype in DTYPES, f"data_type {dtype!r:.80}")
    row = math.prod(inner) * np.dtype(object if text else dtype).itemsize
    _require(chunk > 0 and row * chunk <= MOST_CHUNK_BYTES, f"chunks of {row * chunk} bytes")
    fill = document["fill_value"]
    fill = _NOT_FINITE.get(fill, fill) if isinstance(fill, str) and not text else fill
    attributes = dict(document["attributes"])
    table, _, own = path.rpartition("/")
    names = document.get("dimension_names", ())  # earlier stores have none
    field = Field(
        name=own,
        dtype=dtype,
        doc=attributes.get("doc", ""),
        shape=tuple(inner),
        axes=tuple(names[1:]),
        fill=fill,
        attributes=attributes,
    )
    layout = Layout(codec=codec.name, level=codec.level, chunk_rows=chunk, shard_rows=shard)
    with np.errstate(all="ignore"):  # a fill value beyond the dtype does not come back
        written = array_document(table, field, layout, rows)
    for key in written.keys() - {"attributes", "dimension_names", "fill_value" if text else ""}:
        difference = _difference(document[key], json.loads(json.dumps(written[key])))
        _require(not difference, f"{key}{difference}")
    _require(not text or isinstance(fill, str), f"fill_value {fill!r:.80}")
    return field, layout, rows


def _difference(value: Any, expected: Any) -> str:
    """Where a JSON value first differs from the expected one, and how; "" if it does not."""
    parts: list[Any] = []
    if isinstance(value, dict) and isinstance(expected, dict) and value.keys() == expected.keys():
        parts = sorted(value)
    if isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        parts = [*range(len(value))]
    for part in parts:
        if difference := _difference(value[part], expected[part]):
            return f".{part}{difference}"
    same = bool(parts) or (type(value) is type(expected) and value == expected)
    return "" if same else f" is {value!r:.80}, expected {expected!r:.80}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_well_typed(key: str, value: Any) -> bool:
    if key in _COUNTS:
        return _is_int(value) and value >= 0
    if key in _COUNTS_BY_NAME:
        return isinstance(value, dict) and all(_is_int(count) and count >= 0 for count in value.values())
    if key in _WORDS:
        return isinstance(value, str)
    if key in _NAMES:
        names = value if isinstance(value, list) else [None]
        return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return key != "params" or isinstance(value, dict)


def _require(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _refused(root: Path | str, name: str, error: Exception) -> StoreError:
    what = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
    return StoreError(
        f"{root}: {name} is no metadata that outofcore writes ({' '.join(what.split())[:200]}); convert again"
    )
