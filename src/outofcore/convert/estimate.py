"""What a conversion will write, from a sample of the real input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcore.convert.executors import in_order
from outofcore.domains.domain import Domain
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.codecs import ChunkCodec
from outofcore.store.schema import Columns, Field, Layout, Schema
from outofcore.store.shards import index_bytes
from outofcore.store.writer import SEQUENCE_CHUNK_ROWS

# Between this many units and twice as many are converted, spread evenly over the input.
SAMPLE_UNITS = 24
# Beyond this much raw input the sample is taken from its beginning: a look at the rest would take longer than it tells.
SAMPLE_RAW_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Estimate:
    """A forecast of a store.

    Attributes
    ----------
    store_bytes
        Size of the store on disk.
    rows
        Rows in all splits.
    raw_bytes
        Size of the raw input.
    sampled_bytes
        How much of the raw input was converted for it.
    """

    store_bytes: int
    rows: int
    raw_bytes: int
    sampled_bytes: int


def estimate(domain: Domain, section: Any, files: Sequence[RawFile], executor: Executor, ahead: int = 4) -> Estimate:
    """Convert a sample of the input, without writing, and scale it up.

    Duplicates are scaled as what they are, pairs: of the pairs that lie in different units, a sample of a share f of
    all units sees a share f squared.

    Parameters
    ----------
    domain, section, files
        As for the conversion.
    executor
        Where the sample is converted.
    """
    raw_bytes = sum(file.bytes for file in files)
    units, seen_bytes = _spread(domain.units(files, section))
    schemas = domain.schemas(section, files)
    layout: Layout = section.store.layout()
    convert: Callable[[Unit], UnitResult] = domain.converter(section)
    drop = getattr(section.filters, "duplicates", "keep") == "drop"
    sampled = sum(unit.raw_bytes for unit in units)
    share = sampled / seen_bytes if seen_bytes else 1.0
    rows = sequences = stored = 0.0
    keys: list[Any] = []
    inside = 0
    for _, result in in_order(executor, convert, units, ahead):
        count = len(result.keys)
        if not count:
            continue
        unique = len(np.unique(result.keys, axis=0))
        inside += count - unique
        keys.append(np.unique(result.keys, axis=0))
        rows += len(next(iter(result.rows.values())))
        sequences += count
        stored += _encoded(result, schemas[result.part], layout)
    if not sequences:
        return Estimate(_fixed(schemas, layout), 0, raw_bytes, sampled)
    kept = 1.0
    if drop:
        between = sum(map(len, keys)) - len(np.unique(np.concatenate(keys), axis=0))
        total = sequences / share
        kept = max(0.0, 1 - (inside / share + between / share**2) / total)
    scale = raw_bytes / sampled * kept
    return Estimate(int(stored * scale) + _fixed(schemas, layout), int(rows * scale), raw_bytes, sampled)


def _spread(units: Any) -> tuple[list[Unit], int]:
    """Every 2**k-th unit, so that SAMPLE_UNITS to twice as many are kept, and the raw bytes that were passed."""
    kept: list[Unit] = []
    stride, passed = 1, 0
    for number, unit in enumerate(units):
        passed += unit.raw_bytes
        if number % stride == 0 and not unit.detail.get("continues"):
            kept.append(unit)
            if len(kept) == 2 * SAMPLE_UNITS:
                kept = kept[::2]
                stride *= 2
        if passed > SAMPLE_RAW_BYTES:
            break
    return kept, passed


def _encoded(result: UnitResult, schema: Schema, layout: Layout) -> float:
    """Bytes of the encoded chunks of a unit, as they will be on average."""
    rows = sum(_field(field, result.rows, layout.chunk_rows, layout) for field in schema.rows)
    columns = sum(_field(field, result.sequences, SEQUENCE_CHUNK_ROWS, layout) for field in schema.sequences)
    places = 2 * _field(Field(name="length", dtype="int64", doc=""), result.sequences, SEQUENCE_CHUNK_ROWS, layout)
    return rows + columns + places


def _field(field: Field, columns: Columns, chunk_rows: int, layout: Layout) -> float:
    codec = ChunkCodec(layout.codec, layout.level, field.dtype)
    array = columns[field.name]
    total = 0.0
    for start in range(0, len(array), chunk_rows):
        chunk = array[start : start + chunk_rows]
        if not np.all(chunk == field.fill):
            total += len(codec.encode(chunk)) + 16  # its place in the shard's index
    return total


def _fixed(schemas: dict[str, Schema], layout: Layout) -> int:
    """Metadata and the indexes of the first shards: what a store of a few rows takes."""
    chunks = layout.shard_rows // layout.chunk_rows
    fields = sum(len(schema.rows) + len(schema.sequences) + 2 for schema in schemas.values())
    return 3 * fields * (index_bytes(min(chunks, 256)) + 1200) + 20_000
