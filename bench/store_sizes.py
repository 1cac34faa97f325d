"""Does loading cost the same however many rows there are?

    python bench/store_sizes.py --rows 1e6 20e6 200e6

Rows are two words and a byte. ``first batch`` is the time from opening the store to the first batch of an epoch;
``resumed`` the same when continuing in the middle of one.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness.results import Row, arguments, memory_row, save, speed_rows
from harness.sides import Epoch, Side, compare, once
from harness.stores import make_store
from outofcore.loading.loader import loader
from outofcore.sizes import parse_bytes
from outofcore.store.schema import Columns, Field

FIELDS = (
    Field(name="words", dtype="uint64", shape=(2,), doc="two words"),
    Field(name="label", dtype="uint8", doc="a number"),
)
BATCH, MEMORY, SEQUENCE = 1024, "64MiB", 80


def content(_: str, start: int, stop: int) -> Columns:
    row = np.arange(start, stop, dtype=np.uint64)
    return {"words": np.stack([row >> np.uint64(4), row * row], axis=1), "label": (row % np.uint64(7)).astype(np.uint8)}


def batches_of(store: str) -> Any:
    return loader(store, "train", BATCH, memory=MEMORY, residency="streamed")


def stored(store: str) -> Epoch:
    batches = batches_of(store)
    return lambda: (len(batch["label"]) for batch in batches)


def delays(store: str) -> list[float]:
    """Seconds to the first batch, and to the first one in mid-epoch, once all code is compiled."""
    took = []
    for share in (0.0, 0.0, 0.5):
        started = time.perf_counter()
        batches = batches_of(store)
        batches.load_state_dict({**batches.state_dict(), "received": int(share * batches.samples)})
        next(iter(batches))
        took.append(time.perf_counter() - started)
        batches.close()
    return took[1:]


def main() -> None:
    parser = arguments(__doc__, rounds=5, seconds=2.0)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 20e6, 200e6])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stores = {f"{int(rows):,} rows": Path(folder) / f"{int(rows)}.zarr" for rows in given.rows}
        for rows, store in zip(given.rows, stores.values(), strict=True):
            make_store(store, FIELDS, {"train": int(rows)}, content, SEQUENCE)
        sides = [Side(name, stored, {"store": store}) for name, store in stores.items()]
        measured = compare(sides, given.rounds, given.seconds)
        waited = {name: once(delays, store=store) for name, store in stores.items()}
    rows = speed_rows(measured, "samples/s", dict.fromkeys(measured, sides[0].name))
    for name, (first, resumed) in waited.items():
        rows.append(Row(label=name, value=1000 * first, unit="ms to the first batch"))
        rows.append(Row(label=name, value=1000 * resumed, unit="ms to resume in mid-epoch"))
        rows.append(memory_row(name, measured[name].held_bytes, parse_bytes(MEMORY)))
    facts = (f"rows of 17 bytes, batches of {BATCH:,}", f"medians of {given.rounds} rounds")
    save(given.out, "store_sizes", "stores of other sizes", rows, facts=facts, details={"sides": measured})


if __name__ == "__main__":
    main()
