"""How much memory does training a model of a million parameters take, predicted and measured, saving by saving?

    python bench/training_memory.py novels.tar.zst --tokenizer data/tokenizers/text.json --megabytes 1000

The text is repeated, its paragraphs permuted, up to ``--megabytes``, and converted once. Every run is a process of its
own, of a dozen steps, through the loaders and the loop that ``stages/train.py`` uses, after it has read all of the
store once. The savings add up from row to row, except for the last run, which reads raw text instead of the store.
Predicted is what ``outofcore plan text`` shows.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from outofcore.training.baseline import baseline_bytes

from harness.raw import lengthen
from harness.results import Row, arguments, save
from harness.sides import once, tell
from harness.stores import convert
from outofcore.domains.streaming import RAW as RAW_TEXT
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.params import TextSection
from outofcore.machine import Machine
from outofcore.pipeline import write_catalogue
from outofcore.store.reader import open_store
from outofcore.training.loaders import open_loaders, open_streams
from outofcore.training.loop import fit
from outofcore.training.memory_tables import PARTS, Forecast

STEPS, VALIDATED = 12, 4
BUDGET = {"loaded": 4 << 30, "streamed": 256 << 20, RAW_TEXT: 512 << 20}
KIND = {"loaded": "ram", "streamed": "streamed"}


@dataclass(frozen=True)
class Run:
    """How a run differs from the others."""

    name: str
    residency: str = "loaded"
    precision: str = "32-true"
    optimizer: str = "adamw"
    micro_batch: int = 0


PLAIN = Run("plain: all tokens in memory")
STREAMED = replace(PLAIN, name="+ streamed from the store", residency="streamed")
MIXED = replace(STREAMED, name="+ bf16-mixed", precision="bf16-mixed")
EIGHT = replace(MIXED, name="+ adamw8bit", optimizer="adamw8bit")
PIECES = replace(EIGHT, name="+ micro-batch of 4", micro_batch=4)
RAW = replace(PIECES, name="the last, from raw text", residency=RAW_TEXT)
RUNS = (PLAIN, STREAMED, MIXED, EIGHT, PIECES, RAW)


class First:
    """The first batches of a loader: validation is not what is measured here."""

    def __init__(self, loader: Any, count: int) -> None:
        self._loader, self._count = loader, count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return min(self._count, len(self._loader))

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self._loader), self._count)


def section_of(folder: Path, tokenizer: str, run: Run) -> TextSection:
    return TextSection.model_validate(
        {
            "raw": str(folder / "raw"),
            "mode": "stream" if run.residency == RAW_TEXT else "store",
            "tokenizer": {"path": tokenizer},
            "stream": {"shuffle_windows": 8192, "max_examples": 16 * STEPS, "val_examples": 16 * VALIDATED},
            "train": {
                "preset": "small",
                "batch_size": 16,
                "max_steps": STEPS,
                "precision": run.precision,
                "optimizer": run.optimizer,
                "sample_tokens": 0,
            },
        }
    )


def train(place: str, tokenizer: str, name: str) -> dict[str, Any]:
    """A run, in this process."""
    folder, run = Path(place), next(run for run in RUNS if run.name == name)
    section, device = section_of(folder, tokenizer, run), torch.device("cpu")
    store = open_store(folder / "text.zarr")
    torch.manual_seed(section.train.seed)
    task = DOMAIN.task(store, section)
    machine = Machine(workers=2, memory=BUDGET[run.residency], micro_batch=run.micro_batch)
    if run.residency == RAW_TEXT:
        loaders = open_streams(DOMAIN, section, open_store(folder / "data/streams/text.zarr"), machine, device)
    else:
        reading = DOMAIN.reading(store.attributes, section)
        kind: Any = KIND[run.residency]
        loaders = open_loaders(
            store, task, reading, section.train, memory=machine.memory, residency=kind, device=device
        )
        for _ in loaders[0]:  # tokens are loaded on first use: use all
            pass
        loaders[0].set_epoch(0)
    with tempfile.TemporaryDirectory() as out:
        fit(
            task,
            loaders[0],
            First(loaders[1], VALIDATED),
            section.train,
            name="text",
            out=Path(out),
            identity={},
            device="cpu",
            micro_batch=run.micro_batch,
            threads=2,
        )
        ran = json.loads((Path(out) / "metrics/text/train_run.json").read_text())
        with (Path(out) / "plots/text/train/plots/metrics/train/loss.tsv").open() as curve:
            losses = [float(row["loss"]) for row in csv.DictReader(curve, delimiter="\t")]
    return {"peak_memory_bytes": ran["peak_memory_bytes"], "losses": losses, "seconds": ran["training_seconds"]}


def predict(folder: Path, tokenizer: str, run: Run, tokens: int) -> dict[str, int]:
    section = section_of(folder, tokenizer, run)
    rows = round(tokens / (1 - section.splits.val - section.splits.test))
    machine = Machine(workers=2, micro_batch=run.micro_batch)
    found = Forecast(
        DOMAIN, section, DOMAIN.schemas(section, ()), rows, machine, partial(baseline_bytes, run.optimizer)
    )
    parts = {part: getattr(found.model, part) for part in PARTS}
    return {"data": found.data[run.residency], **parts, "interpreter and libraries": found.process()}


def table(result: dict[str, Any]) -> list[Row]:
    """The figures, the prediction and its parts first."""
    rows = []
    for name, found in result["runs"].items():
        predicted, measured = sum(found["predicted"].values()), found["peak_memory_bytes"]
        for part, size in found["predicted"].items():
            rows.append(Row(label=name, value=size / 1e6, of=part, unit="MB", table="parts"))
        of: dict[str, Any] = {"label": name, "table": "training"}
        rows += [
            Row(value=predicted / 1e6, unit="MB predicted", **of),
            Row(value=measured / 1e6, unit="peak MB", ratio=measured / predicted, against="the prediction", **of),
            Row(value=f"{found['losses'][-1]:.4f}", of="loss of the last step", **of),
        ]
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=1000)
    options = parser.parse_args()
    out, tokenizer = options.out.resolve(), str(options.tokenizer.resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lengthen(options.source, folder / "raw", options.megabytes * 10**6)
        convert("text", section_of(folder, tokenizer, PLAIN), folder / "text.zarr")
        os.chdir(folder)  # where a project keeps its catalogue
        write_catalogue(DOMAIN, section_of(folder, tokenizer, RAW), Path("rejects.csv"), threads=2)
        tokens = len(open_store(folder / "text.zarr").rows("train"))
        runs = {}
        for run in RUNS:
            tell(run.name)
            found = once(train, place=folder, tokenizer=tokenizer, name=run.name)
            runs[run.name] = {"predicted": predict(folder, tokenizer, run, tokens), **found}
        os.chdir(out.anchor)
    result = {"tokens": tokens, "bytes": options.megabytes * 10**6, "steps": STEPS, "runs": runs}
    save(
        out,
        "training_memory",
        "text: training in less and less memory",
        table(result),
        facts=(f"{tokens:,} tokens, {STEPS} steps of 16 windows", "each row adds a saving to the one above"),
        details=result,
    )


if __name__ == "__main__":
    main()
