"""Stores made for a measurement, written as any other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.store.schema import CodecName, Columns, Field, Layout, Schema
from outofcore.store.writer import StoreWriter

SLAB = 1 << 20
CHUNK_ROWS, SHARD_ROWS = 4096, 1 << 20


def make_store(
    path: Path,
    fields: tuple[Field, ...],
    rows: dict[str, int],
    content: Callable[[str, int, int], Columns],
    sequence: int,
    codec: CodecName = "zstd",
    chunk_rows: int = CHUNK_ROWS,
) -> None:
    """Write splits of so many rows, which ``content(split, start, stop)`` gives, in sequences of equal length."""
    with ThreadPoolExecutor(2) as encoders:
        layout = Layout(codec=codec, chunk_rows=chunk_rows, shard_rows=SHARD_ROWS)
        schema = Schema(rows=fields, sequences=())
        writer = StoreWriter(path.with_suffix(".work"), {"": schema}, layout, tuple(rows), encoders)
        for split, count in rows.items():
            for start in range(0, count, SLAB):
                writer.append_rows("", split, content(split, start, min(start + SLAB, count)))
            starts = np.arange(0, count, sequence, dtype=np.int64)
            lengths = np.diff(np.append(starts, count))
            writer.append_sequences("", split, {"start": starts, "length": lengths})
        texts: dict[str, Any] = {"name": np.array(["made"], object), "digest": np.array([""], object)}
        counts = {name: np.array([1]) for name in ("bytes", "found", "accepted", "rejected")}
        attributes = {"domain": "made", "parts": [""], "splits": list(rows)}
        writer.commit(path, attributes, {**texts, **counts})
