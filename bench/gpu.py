"""Does training on a GPU wait for its data, and how fast do batches get there?

    python bench/gpu.py data/stores/chess.zarr

A model is trained on the store with the settings of ``params.yaml``, but for ``train.arithmetic: native``, after a
short run that loads what a first step needs. Then its batches are read without a model:

* ``ram``, ``streamed``, ``device``: the loader, with rows in that place; ``auto`` of a training chooses one.
* ``gather, pinned`` and ``gather, pageable``: ready tensors in memory, of which torch takes the rows of a permutation
  in whole batches, and sends them with ``non_blocking=True``.
"""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness.results import Row, arguments, save, speed_rows
from harness.rows import sizes
from harness.sides import Epoch, compare_here, tell
from harness.stores import section_of
from outofcore.domains.registry import get_domain
from outofcore.loading.loader import loader
from outofcore.settings.machine import load_machine
from outofcore.store.reader import Store, open_store
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit

DEVICE = torch.device("cuda:0")
WARM = 30  # steps
BATCH = 1024
HELD_BYTES = 1 << 30  # of ready tensors
PINNED = "gather, pinned"


def trained(store: Store, preset: str, residency: Any, steps: int) -> dict[str, Any]:
    """``train_run.json`` of so many steps, with ``steps``."""
    name, machine = str(store.attributes["domain"]), load_machine()
    domain = get_domain(name)
    train = {"arithmetic": "native", "preset": preset, "max_steps": steps, "epochs": steps, "val_examples": BATCH}
    section = section_of(name, store.root, {"train": train})
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    task, reading = domain.task(store, section), domain.reading(store.attributes, section)
    batches, val = open_loaders(store, task, reading, section.train, replace(machine, residency=residency), DEVICE)
    with tempfile.TemporaryDirectory() as name_out, batches, val:
        out, own = Path(name_out), {"device": str(DEVICE), "threads": machine.workers}
        fit(task, batches, val, section.train, name=name, out=out, identity={}, **own)
        run = json.loads((out / "metrics" / name / "train_run.json").read_text(encoding="utf-8"))
    return {**run, "steps": steps, "residency": batches.readers[0].plan.kind, "preset": preset}


def training_rows(run: dict[str, Any]) -> list[Row]:
    of: dict[str, Any] = {"label": f"{run['preset']}, {run['residency']}", "table": "gpu_training"}
    return [
        Row(value=round(100 * run["data_wait_share"], 2), unit="% of the time waiting", **of),
        Row(value=run["steps"] / run["training_seconds"], unit="steps/s", **of),
        Row(value=run["samples_per_second"], unit="samples/s", **of),
        Row(value=round(run["peak_device_bytes"] / 1e6), unit="MB of the GPU", **of),
    ]


def loading_rows(store: Store, rounds: int, seconds: float) -> list[Row]:
    name = str(store.attributes["domain"])
    section, domain = section_of(name, store.root), get_domain(name)
    reading = domain.task(store, section).reading_for(DEVICE, domain.reading(store.attributes, section))

    def opened(**options: Any) -> Any:
        return loader(store, "train", BATCH, tensors=reading, memory=load_machine().memory // 2, **options)

    epochs: dict[str, Epoch] = {}
    for residency in ("ram", "streamed"):
        batches = opened(residency=residency, device=DEVICE)
        epochs[residency] = lambda batches=batches: sizes(batches)
    ready, size = [], 0
    for batch in opened(residency="streamed", part=store.parts[0]):
        ready.append(batch)
        if (size := size + sum(tensor.nbytes for tensor in batch.values())) > HELD_BYTES:
            break
    columns = {key: torch.cat([batch[key] for batch in ready]) for key in ready[0]}
    for pinned in (True, False):
        epochs[PINNED if pinned else "gather, pageable"] = lambda pinned=pinned: gathered(columns, pinned)
    measured = compare_here(epochs, rounds, seconds)
    rows = speed_rows(measured, "samples/s", dict.fromkeys(measured, PINNED), memory=False, short=f"`{PINNED}`")
    sample = sum(tensor[0].nbytes for tensor in columns.values())
    rows += [Row(label=label, value=side.rate * sample / 1e9, unit="GB/s") for label, side in measured.items()]
    return [replace(row, table="gpu_loading") for row in rows]


def gathered(columns: dict[str, torch.Tensor], pinned: bool) -> Iterator[int]:  # noqa: FBT001
    for places in torch.randperm(len(next(iter(columns.values())))).split(BATCH):
        taken = {name: tensor.index_select(0, places) for name, tensor in columns.items()}
        sent = [(tensor.pin_memory() if pinned else tensor).to(DEVICE, non_blocking=True) for tensor in taken.values()]
        yield len(sent[0])


def main() -> None:
    parser = arguments(__doc__, rounds=3, seconds=1.0)
    parser.add_argument("store", type=Path)
    parser.add_argument("--presets", nargs="+", default=["test", "medium"], help="of the model")
    parser.add_argument("--steps", type=int, default=2000, help="of a training")
    given = parser.parse_args()
    store, runs = open_store(given.store), list[dict[str, Any]]()
    name = str(store.attributes["domain"])
    for number, preset in enumerate(given.presets):
        trained(store, preset, "auto", WARM)
        for residency in ("auto", "streamed")[: 1 if number else 2]:
            tell(f"training {preset}, {residency}")
            runs.append(trained(store, preset, residency, given.steps))
    rows = [row for run in runs for row in training_rows(run)]
    rows += loading_rows(store, given.rounds, given.seconds)
    count = sum(len(store.rows("train", part)) for part in store.parts)
    facts = (f"{count:,} rows", f"trained for {given.steps:,} steps", torch.cuda.get_device_name())
    save(given.out, f"gpu_{name}", name, rows, facts=facts, details={"runs": runs})


if __name__ == "__main__":
    main()
