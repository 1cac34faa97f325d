"""Are several stores read as one as fast as one store of the same rows?

    python bench/several_stores.py data/stores/chess.zarr --stores 12

The training split of a chess store is written as one store and, cut between games, as several. Batches of 1,024
positions as planes, shuffled, streamed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from harness.arrays import CHESS, batch_of
from harness.results import arguments, memory_row, save, speed_rows
from harness.sides import Epoch, Side, compare
from harness.stores import copy_sequences
from outofcore.domains.chess.schema import SCHEMA
from outofcore.loading.loader import loader
from outofcore.sizes import parse_bytes
from outofcore.store.reader import open_store

BATCH, MEMORY = batch_of("chess"), "128MiB"


def stored(stores: list[str]) -> Epoch:
    batches = loader(stores, "train", BATCH, memory=MEMORY, residency="streamed", tensors=CHESS)
    return lambda: (len(batch["target"]) for batch in batches)


def main() -> None:
    parser = arguments(__doc__, rounds=7, seconds=3.0)
    parser.add_argument("store", type=Path, help="a chess store")
    parser.add_argument("--stores", type=int, default=12)
    given = parser.parse_args()
    store = open_store(given.store)
    games = len(store.sequences("train"))
    fields = tuple(field for field in SCHEMA.rows if field.name in CHESS.fields)
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for name, count in (("one store", 1), (f"{given.stores} stores", given.stores)):
            edges = np.linspace(0, games, count + 1).astype(int).tolist()
            paths = [Path(folder) / f"{count}_{number:03}.zarr" for number in range(count)]
            for path, first, stop in zip(paths, edges, edges[1:], strict=False):
                copy_sequences(store, first, stop, path, fields)
            sides.append(Side(name, stored, {"stores": list(map(str, paths))}))
        measured = compare(sides, given.rounds, given.seconds)
    rows = speed_rows(measured, "samples/s", dict.fromkeys(measured, "one store"))
    rows += [memory_row(name, each.held_bytes, parse_bytes(MEMORY)) for name, each in measured.items()]
    facts = (f"{len(store.rows('train')):,} positions, batches of {BATCH:,}", f"medians of {given.rounds} rounds")
    save(given.out, "several_stores", "several stores read as one", rows, facts=facts, details={"sides": measured})


if __name__ == "__main__":
    main()
