"""Whether several stores read as one are as fast as one store of the same rows.

    python bench/loader_several.py data/stores/chess.zarr --stores 12

The training split of a chess store is written as one store and, cut between games, as so many. Batches of 1,024
positions as planes, shuffled, streamed. Each side runs in a process of its own; they measure in turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

from loader_engines import BATCH, READING
from outofcore.domains.chess.schema import SCHEMA
from outofcore.loading.loader import loader
from outofcore.sizes import parse_bytes
from outofcore.store.reader import Store, open_store
from outofcore.store.schema import Layout, Schema
from outofcore.store.writer import StoreWriter
from record import Row, memory_row, save
from serving import Engine, serve

MEMORY = "128MiB"
SLAB = 1 << 18


def write_games(store: Store, first: int, stop: int, path: Path) -> None:
    """A store of games ``first`` to ``stop`` of the training split."""
    table, lengths = store.rows("train"), store.sequences("train")["length"].read()
    ends = np.cumsum(lengths)
    fields = tuple(field for field in SCHEMA.rows if field.name in READING.fields)
    begin, end = int(ends[first] - lengths[first]), int(ends[stop - 1])
    with ThreadPoolExecutor(2) as encoders:
        schema, layout = Schema(rows=fields, sequences=()), Layout(codec="zstd", chunk_rows=table["move"].chunk_rows)
        writer = StoreWriter(path.with_suffix(".work"), {"": schema}, layout, ("train",), encoders)
        for start in range(begin, end, SLAB):
            rows = {field.name: table[field.name].read(start, min(start + SLAB, end)) for field in fields}
            writer.append_rows("", "train", rows)
        own = lengths[first:stop]
        writer.append_sequences("", "train", {"start": np.cumsum(own) - own, "length": own})
        counts = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        names = {name: np.array(["x"], object) for name in ("name", "digest")}
        writer.commit(path, {"domain": "chess", "parts": [""], "splits": ["train"]}, {**counts, **names})


def epoch_of(stores: list[Path]) -> Callable[[], Iterator[int]]:
    batches = loader(stores, "train", BATCH, memory=MEMORY, residency="streamed", tensors=READING)
    return lambda: (len(batch["target"]) for batch in batches)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("store", type=Path)
    arguments.add_argument("--stores", type=int, default=12)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--out", type=Path, default=Path("bench/results"))
    arguments.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.serve:
        stores = sorted(given.store.glob("*.zarr"))
        next(epoch_of(stores)())  # compiled before memory is looked at
        serve(lambda: epoch_of(stores))
    store = open_store(given.store)
    games, several = len(store.sequences("train")), f"{given.stores} stores"
    with tempfile.TemporaryDirectory() as folder:
        engines = []
        for name, count in (("one store", 1), (several, given.stores)):
            (Path(folder) / name).mkdir()
            edges = np.linspace(0, games, count + 1).astype(int).tolist()
            for number in range(count):
                write_games(store, edges[number], edges[number + 1], Path(folder) / name / f"{number:03}.zarr")
            engines.append(Engine(name, [sys.executable, __file__, "--serve", str(Path(folder) / name)]))
        for number in range(given.rounds + 1):
            for engine in engines:
                engine.measure(given.seconds, watch=number == given.rounds)
    for engine in engines:
        engine.end()
    speeds = [median(each["samples_per_second"] for each in engine.figures[:-1]) for engine in engines]
    rows = [Row(label="one store", value=round(speeds[0]), unit="samples/s")]
    rows += [
        Row(label=several, value=round(speeds[1]), unit="samples/s", ratio=speeds[1] / speeds[0], against="one store")
    ]
    rows += [memory_row(each.name, each.figures[-1]["growth_bytes"], parse_bytes(MEMORY)) for each in engines]
    facts = (
        f"{len(store.rows('train')):,} positions, batches of {BATCH:,}",
        f"medians of {given.rounds} rounds",
    )
    details = {engine.name: engine.figures for engine in engines}
    save(given.out, "loader_several", "several stores read as one", rows, facts=facts, details=details)


if __name__ == "__main__":
    main()
