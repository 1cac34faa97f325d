"""Parse and check the ``zarr.json`` of a store: stores may be untrusted, and their numbers reach compiled code."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.codecs import ChunkCodec
from outofcore.store.schema import CodecName
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


@dataclass(frozen=True)
class ArrayFacts:
    """Metadata of an array; text has dtype object."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Any  # value of chunks that were never written
    attributes: dict[str, Any]
    shard_rows: int
    chunk_rows: int
    codec: ChunkCodec


class Attributes(dict[str, Any]):
    """Attributes of a group; a missing one is a StoreError naming the file ``where``."""

    def __init__(self, where: str, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.where = where

    def __missing__(self, name: str) -> Any:
        message = f"{self.where} has no attribute {name!r}; convert again with this version"
        raise StoreError(message)


def parse_document(root: Path | str, name: str, content: bytes, digest: str) -> dict[str, Any]:
    """The JSON of a group or array; raises DamagedStore if its bytes changed, StoreError if invalid."""
    if hashlib.sha256(content).hexdigest() != digest:
        message = f"{root}: {name} was changed after sealing; {ADVICE}"
        raise DamagedStore(message)
    try:
        document = json.loads(content)
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


def parse_array(root: Path | str, path: str, document: Mapping[str, Any]) -> ArrayFacts:
    """Metadata of an array; raises StoreError for anything that outofcore does not write."""
    try:
        return _facts(document)
    except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise _refused(root, f"{path}/zarr.json", error) from error


def _facts(document: Mapping[str, Any]) -> ArrayFacts:
    shape = _sizes("shape", document["shape"])
    inner = shape[1:]
    _require(all(inner), f"shape {shape}: rows without values")
    grid, keys = document["chunk_grid"], document["chunk_key_encoding"]
    _require(grid["name"] == "regular", f"chunk grid {grid['name']!r:.80}")
    _require(keys == {"name": "default", "configuration": {"separator": "."}}, f"chunk keys {keys!r:.80}")
    shard = _sizes("chunk_grid", grid["configuration"]["chunk_shape"])
    (codec,) = document["codecs"]
    _require(codec["name"] == "sharding_indexed", f"codec {codec['name']!r:.80}")
    sharding = codec["configuration"]
    chunk = _sizes("chunk_shape", sharding["chunk_shape"])
    _require(shard[1:] == inner == chunk[1:], f"shards {shard} and chunks {chunk} of shape {shape}")
    _require(0 < chunk[0] <= shard[0] and shard[0] % chunk[0] == 0, f"shards of {shard[0]} rows, chunks of {chunk[0]}")
    _require(sharding["index_location"] == "start", f"index_location {sharding['index_location']!r:.80}")
    index = [each["name"] for each in sharding["index_codecs"]]
    _require(index == ["bytes", "crc32c"], f"index codecs {index!r:.80}")
    name = document["data_type"]
    text = name == "string"
    _require(text or name in DTYPES, f"data_type {name!r:.80}")
    dtype = np.dtype(object if text else name)
    _require(not text or not inner, "texts of more than one axis")
    row = math.prod(inner) * dtype.itemsize
    _require(row * chunk[0] <= MOST_CHUNK_BYTES, f"chunks of {row * chunk[0]} bytes")
    return ArrayFacts(
        shape=shape,
        dtype=dtype,
        fill=_fill(document["fill_value"], dtype, text=text),
        attributes=dict(document.get("attributes", {})),
        shard_rows=shard[0],
        chunk_rows=chunk[0],
        codec=codec_of(sharding["codecs"], name),
    )


def codec_of(chain: list[dict[str, Any]], dtype: str) -> ChunkCodec:
    """The codec of a chunk, from its chain of Zarr codecs; raises ValueError if outofcore does not write it."""
    names = [codec["name"] for codec in chain]
    first, *middle, last = names
    plain = "vlen-utf8" if dtype == "string" else "bytes"
    configuration = chain[0].get("configuration", {})
    _require(
        first == plain and last == "crc32c" and configuration.get("endian", "little") == "little",
        f"codecs {names!r:.80}",
    )
    settings = chain[1].get("configuration", {})
    if middle == ["zstd"]:
        return _codec("zstd", settings["level"], dtype)
    if middle == ["blosc"]:
        _require(settings["cname"] == "lz4", f"blosc with {settings['cname']!r:.80}")
        return _codec("lz4", settings["clevel"], dtype)
    _require(not middle, f"codecs {names!r:.80}")
    return _codec("none", 0, dtype)


def _codec(name: CodecName, level: Any, dtype: str) -> ChunkCodec:
    _require(_is_int(level), f"level {level!r:.80}")
    return ChunkCodec(name, level, dtype)


def _fill(value: Any, dtype: np.dtype[Any], *, text: bool) -> Any:
    if text:
        _require(isinstance(value, str), f"fill_value {value!r:.80}")
        return value
    value = _NOT_FINITE.get(value, value) if isinstance(value, str) else value
    fits = {"b": bool, "f": float | int}.get(dtype.kind, int)
    _require(isinstance(value, fits) and isinstance(value, bool) == (dtype.kind == "b"), f"fill_value {value!r:.80}")
    return np.array(value, dtype)[()]


def _sizes(name: str, value: Any) -> tuple[int, ...]:
    fits = isinstance(value, list) and 0 < len(value) <= MOST_AXES and all(map(_is_int, value))
    _require(fits and all(0 <= each <= MOST_ROWS for each in value), f"{name} {value!r:.80}")
    return tuple(value)


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
