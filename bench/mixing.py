"""Does shuffling blocks teach as well as shuffling everything, on a store that is sorted by label?

    python bench/mixing.py

Two million rows of ten classes, sorted by class, the worst order there is. A small network is trained for an epoch with
block shuffling, with more or smaller blocks in memory, with full shuffling, and without any, from the same start, with
three seeds. Also printed: how far the labels of a batch are from those of the whole (total variation distance).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import nn

from harness.results import Row, arguments, save
from harness.stores import make_store
from outofcore.loading.loader import loader
from outofcore.store.schema import Columns, Field

CLASSES, FEATURES, BATCH, SEQUENCE = 10, 16, 1024, 80
FULL = "all samples (full)"
WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "64 blocks of 4,096 rows (the default)": (4096, {"memory": "64MiB"}),
    "256 blocks of 1,024 rows": (1024, {"memory": "64MiB", "pool_blocks": 256}),
    "256 blocks of 4,096 rows": (4096, {"memory": "256MiB", "pool_blocks": 256}),
    FULL: (4096, {"memory": "1GiB", "shuffle": "full", "residency": "ram"}),
    "none": (4096, {"memory": "64MiB", "shuffle": False}),
}
"""Rows of a chunk of the store, and how it is read."""
FIELDS = (
    Field(name="features", dtype="float32", shape=(FEATURES,), doc="a point"),
    Field(name="label", dtype="uint8", doc="its class"),
)


class Content:
    """Points of overlapping classes, in the order of their classes."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES)).astype(np.float32)

    def __call__(self, split: str, start: int, stop: int) -> Columns:
        """Rows of a split, from one to another."""
        total = self.rows if split == "train" else self.rows // 20
        label = np.arange(start, stop) * CLASSES // total
        noise = np.random.default_rng([start, split == "val"]).normal(size=(stop - start, FEATURES))
        return {"features": self.centres[label] + 2 * noise.astype(np.float32), "label": label.astype(np.uint8)}


def train(store: Path, options: dict[str, Any], seed: int) -> dict[str, float]:
    """An epoch; the loss on the validation split, and how well batches were mixed."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    distances = []
    for batch in loader(store, "train", BATCH, seed=seed, **{"residency": "streamed"} | options):
        label = batch["label"].long()
        loss = nn.functional.cross_entropy(model(batch["features"]), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shares = torch.bincount(label, minlength=CLASSES) / len(label)
        distances.append(float((shares - 1 / CLASSES).abs().sum()) / 2)
    with torch.no_grad():
        losses = [
            (float(nn.functional.cross_entropy(model(batch["features"]), batch["label"].long())), len(batch["label"]))
            for batch in loader(store, "val", BATCH, shuffle=False, memory="64MiB")
        ]
    total = sum(count for _, count in losses)
    return {"loss": sum(loss * count for loss, count in losses) / total, "label_distance": mean(distances)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = {"train": given.rows, "val": given.rows // 20}
        for chunk in {chunk for chunk, _ in WAYS.values()}:
            make_store(Path(folder) / f"{chunk}.zarr", FIELDS, rows, Content(given.rows), SEQUENCE, chunk_rows=chunk)
        for name, (chunk, options) in WAYS.items():
            found = [train(Path(folder) / f"{chunk}.zarr", options, seed) for seed in range(given.seeds)]
            figures[name] = {key: round(mean(each[key] for each in found), 5) for key in found[0]}
    for each in figures.values():
        each["loss_of_full"] = round(each["loss"] / figures[FULL]["loss"], 4)
    table = [
        Row(label=name, value=f"{each[key]:.4f}", of=of, table="mixing")
        for name, each in figures.items()
        for key, of in (
            ("loss", "validation loss"),
            ("loss_of_full", "relative to full shuffling"),
            ("label_distance", "label distance"),
        )
    ]
    facts = (f"{given.rows:,} rows of {CLASSES} classes, sorted by class", f"means over {given.seeds} seeds")
    save(given.out, "mixing", "how well shuffling blocks teaches", table, facts=facts, details=figures)


if __name__ == "__main__":
    main()
