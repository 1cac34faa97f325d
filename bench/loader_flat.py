"""Whether loading costs the same however many rows there are: 1, 20 and 200 million, by default.

    python bench/loader_flat.py --rows 1e6 20e6 200e6

Rows are two words and a byte. Each store is read by a process of its own; they measure in turn. ``first batch`` is the
time from opening the store to the first batch of an epoch; ``resumed`` the same when going on in the middle of one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from made_store import make_store
from outofcore.loading.loader import loader
from outofcore.sizes import parse_bytes
from outofcore.store.schema import Columns, Field
from record import Row, memory_row, save
from serving import Engine, serve

FIELDS = (
    Field(name="words", dtype="uint64", shape=(2,), doc="two words"),
    Field(name="label", dtype="uint8", doc="a number"),
)
BATCH, MEMORY, SEQUENCE = 1024, "64MiB", 80


def content(split: str, start: int, stop: int) -> Columns:
    del split
    row = np.arange(start, stop, dtype=np.uint64)
    return {"words": np.stack([row >> np.uint64(4), row * row], axis=1), "label": (row % np.uint64(7)).astype(np.uint8)}


def epoch_of(store: Path) -> Callable[[], Iterator[int]]:
    batches = loader(store, "train", BATCH, memory=MEMORY, residency="streamed")
    return lambda: (len(batch["label"]) for batch in batches)


def delays(store: Path) -> tuple[float, float]:
    """Seconds to the first batch, and to the first one in mid-epoch."""
    took = []
    for share in (0.0, 0.5):
        started = time.perf_counter()
        batches = loader(store, "train", BATCH, memory=MEMORY, residency="streamed")
        state = batches.state_dict()
        batches.load_state_dict({**state, "received": int(share * batches.samples)})
        next(iter(batches))
        took.append(time.perf_counter() - started)
        batches.close()
    return took[0], took[1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=float, nargs="+", default=[1e6, 20e6, 200e6])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--out", type=Path, default=Path("bench/results"))
    arguments.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.serve:
        next(epoch_of(given.serve)())  # compiled before memory is looked at
        serve(lambda: epoch_of(given.serve))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        stores = {}
        for rows in map(int, given.rows):
            stores[rows] = Path(folder) / f"{rows}.zarr"
            make_store(stores[rows], FIELDS, {"train": rows}, content, SEQUENCE)
        engines = {
            rows: Engine(str(rows), [sys.executable, __file__, "--serve", str(at)]) for rows, at in stores.items()
        }
        for number in range(given.rounds + 1):
            for engine in engines.values():
                engine.measure(given.seconds, watch=number == given.rounds)
        delays(stores[min(stores)])  # compiled
        for rows, engine in engines.items():
            engine.end()
            first, resumed = delays(stores[rows])
            figures[f"{rows:,}"] = {
                "samples_per_second": round(median(each["samples_per_second"] for each in engine.figures[:-1])),
                "growth_mb": round(engine.figures[-1]["growth_bytes"] / 1e6, 1),
                "first_batch_ms": round(1000 * first, 1),
                "resumed_ms": round(1000 * resumed, 1),
            }
    units = {
        "samples_per_second": "samples/s",
        "growth_mb": "MB held",
        "first_batch_ms": "ms to the first batch",
        "resumed_ms": "ms to resume in mid-epoch",
    }
    rows = [
        Row(label=f"{name} rows", value=each[key], unit=unit)
        for name, each in figures.items()
        for key, unit in units.items()
    ]
    rows += [memory_row(f"{name} rows", each["growth_mb"] * 1e6, parse_bytes(MEMORY)) for name, each in figures.items()]
    facts = (f"rows of 17 bytes, batches of {BATCH:,}", f"medians of {given.rounds} rounds")
    save(given.out, "loader_flat", "stores of other sizes", rows, facts=facts, details=figures)


if __name__ == "__main__":
    main()
