"""Whether shuffling blocks teaches as well as shuffling everything, on a store that is sorted by label.

    python bench/loader_mixing.py

Two million rows of ten classes, sorted by class, the worst order there is. A small network is trained for an epoch with
block shuffling, with full shuffling, and without any, from the same start, with three seeds. Also printed: how far
the labels of a batch are from those of the whole (total variation distance).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import nn

from made_store import make_store
from outofcore.loading.loader import loader
from outofcore.store.schema import Columns, Field
from record import Row, save

CLASSES, FEATURES, BATCH, SEQUENCE = 10, 16, 1024, 80
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


def train(store: Path, shuffle: Any, seed: int) -> dict[str, float]:
    """An epoch; the loss on the validation split, and how well batches were mixed."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    distances = []
    residency: Any = "ram" if shuffle == "full" else "streamed"
    memory = "1GiB" if shuffle == "full" else "64MiB"
    for batch in loader(store, "train", BATCH, shuffle=shuffle, seed=seed, memory=memory, residency=residency):
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
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--out", type=Path, default=Path("bench/results"))
    given = arguments.parse_args()
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "sorted.zarr"
        rows = {"train": given.rows, "val": given.rows // 20}
        make_store(store, FIELDS, rows, Content(given.rows), SEQUENCE)
        for shuffle in ("blocks", "full", False):
            found = [train(store, shuffle, seed) for seed in range(given.seeds)]
            figures[str(shuffle)] = {name: round(mean(each[name] for each in found), 5) for name in found[0]}
    for each in figures.values():
        each["loss_of_full"] = round(each["loss"] / figures["full"]["loss"], 4)
    labels = {"blocks": "blocks (the default)", "full": "every sample", "False": "none"}
    rows = []
    for name, each in figures.items():
        loss, distance = f"{each['loss']:.4f}", f"{each['label_distance']:.4f}"
        rows.append(Row(label=labels[name], value=loss, of="validation loss", table="mixing"))
        rows.append(
            Row(label=labels[name], value=f"{each['loss_of_full']:.4f}", of="of that by every sample", table="mixing")
        )
        rows.append(Row(label=labels[name], value=distance, of="label distance", table="mixing"))
    facts = (f"{given.rows:,} rows of {CLASSES} classes, sorted by class", f"means over {given.seeds} seeds")
    save(given.out, "loader_mixing", "how well shuffling blocks teaches", rows, facts=facts, details=figures)


if __name__ == "__main__":
    main()
