"""Stores to measure: converted as a stage does it, made of arrays, or copied from another store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.conversion.estimate import forecast_conversion
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.chess.squares import bitboards
from outofcore.domains.registry import get_domain
from outofcore.params import load_params
from outofcore.raw.files import RawFile, find_files
from outofcore.settings.machine import Machine
from outofcore.store.codecs import CodecName
from outofcore.store.reader import Store
from outofcore.store.schema import Columns, Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from outofcore.system.peak_memory import MemoryWatch

SLAB = 1 << 18
NEVER = 1 << 62  # so many sequences are forecast that no record of the input is chosen for an audit


def section_of(name: str, raw: str | Path, changes: Mapping[str, Any] | None = None) -> Any:
    """The section of ``params.yaml`` for other raw input, with some keys changed."""
    section = load_params().section(name)
    return type(section).model_validate(_merged(section.model_dump(), {"raw": str(raw), **(changes or {})}))


def _merged(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**content} | {
        key: _merged(content[key], value) if isinstance(value, dict) and isinstance(content[key], dict) else value
        for key, value in changes.items()
    }


def files_of(name: str, section: Any) -> list[RawFile]:
    """The raw files of a section."""
    return find_files(section.raw, section.match, get_domain(name).suffixes, section=name)


def convert(name: str, section: Any, store: Path, workers: int = 2, *, audits: bool = True) -> dict[str, Any]:
    """Estimate and convert in threads, as a stage does; rejects are listed next to the store.

    Returns the content of ``convert.json``, with ``positions`` (rows of all splits), ``seconds`` from the estimate to
    the seal, and ``peak_memory_bytes``.
    """
    domain, files, machine = get_domain(name), files_of(name, section), Machine(workers=workers)
    started = time.perf_counter()
    with MemoryWatch(interval=0.1) as memory:
        forecast = forecast_conversion(domain, section, files, store, machine, sample=False).estimate
        if not audits:
            forecast = replace(forecast, sequences=NEVER, unusual=NEVER, bound=None)
        outcome = Conversion(domain, section, files, store, store.with_suffix(".csv")).run(
            forecast,
            executor=open_executor("threads", workers),
            workers=workers,
            watch=lambda *_: None,
        )
    return {
        **outcome.figures,
        "positions": sum(outcome.figures["rows"].values()),
        "seconds": time.perf_counter() - started,
        "peak_memory_bytes": memory.peak_bytes,
    }


def make_store(
    path: Path,
    fields: tuple[Field, ...],
    rows: Mapping[str, int],
    content: Callable[[str, int, int], Columns],
    sequence: int,
    codec: CodecName = "zstd",
    chunk_rows: int = 4096,
) -> None:
    """Write splits of so many rows, which ``content(split, start, stop)`` gives, in sequences of equal length."""
    layout = Layout(codec=codec, chunk_rows=chunk_rows, shard_rows=1 << 20)
    with _writing(path, fields, layout, tuple(rows)) as writer:
        for split, count in rows.items():
            for start in range(0, count, SLAB):
                writer.append_rows("", split, content(split, start, min(start + SLAB, count)))
            starts = np.arange(0, count, sequence, dtype=np.int64)
            lengths = np.diff(np.append(starts, count))
            writer.append_sequences("", split, {"start": starts, "length": lengths})


def copy_sequences(
    store: Store, first: int, stop: int, path: Path, fields: tuple[Field, ...], codec: CodecName = "zstd"
) -> None:
    """A store of some sequences and fields of the training split of another, in chunks of the same size."""
    table, lengths = store.rows("train"), store.sequences("train")["length"].read()
    ends = np.cumsum(lengths)
    begin, end = int(ends[first] - lengths[first]), int(ends[stop - 1])
    some = table[fields[0].name]
    layout = Layout(codec=codec, chunk_rows=some.chunk_rows, shard_rows=some.shard_rows)
    with _writing(path, fields, layout, ("train",), str(store.attributes["domain"])) as writer:
        for start in range(begin, end, SLAB):
            at = start, min(start + SLAB, end)
            writer.append_rows("", "train", {field.name: table[field.name].read(*at) for field in fields})
        own = lengths[first:stop]
        writer.append_sequences("", "train", {"start": np.cumsum(own) - own, "length": own})


@contextmanager
def _writing(
    path: Path, fields: tuple[Field, ...], layout: Layout, splits: tuple[str, ...], domain: str = "made"
) -> Iterator[StoreWriter]:
    with ThreadPoolExecutor(2) as encoders:
        schema = Schema(rows=fields, sequences=())
        writer = StoreWriter(path.with_suffix(".work"), {"": schema}, layout, splits, encoders)
        yield writer
        counts = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        names = {name: np.array(["made"], object) for name in ("name", "digest")}
        with Target(path) as target:
            writer.commit(target, {"domain": domain, "parts": [""], "splits": list(splits)}, {**counts, **names})


def write_arrays(store: Store, folder: Path, fields: tuple[str, ...]) -> None:
    """The rows of the training split as ``.npy`` files."""
    table = store.rows("train")
    folder.mkdir()
    for name in fields:
        array = table[name]
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", array.dtype, (len(table), *array.shape[1:]))
        for start in range(0, len(table), SLAB):
            out[start : start + SLAB] = array.read(start, min(start + SLAB, len(table)))
        out.flush()


def write_bitboards(folder: Path) -> None:
    """Bitboards of chess next to the arrays of its store: what one would store to make planes with NumPy."""
    squares = np.load(folder / "squares.npy", mmap_mode="r")
    out = np.lib.format.open_memmap(folder / "boards.npy", "w+", np.uint64, (len(squares), 12))
    for start in range(0, len(squares), SLAB):
        out[start : start + SLAB] = bitboards(squares[start : start + SLAB])
