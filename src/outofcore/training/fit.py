"""Train a task to completion, resuming if stopped, and write model, metrics and curves."""

from __future__ import annotations

import csv
import json
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Task
from outofcore.errors import ParamsError
from outofcore.replacing import replace_file, replace_text
from outofcore.training.checkpoint import Checkpoint
from outofcore.training.device import choose_device, peak_device_bytes
from outofcore.training.feed import Loader
from outofcore.training.memory import MemoryWatch
from outofcore.training.module import Training
from outofcore.training.ranks import meet
from outofcore.training.run import Saver, run

ROWS = 200
"""Approximate number of rows of the training curve."""

_DIGITS = 6
_log = logging.getLogger(__name__)


def fit(
    task: Task,
    train: Loader,
    val: Loader,
    section: TrainSection,
    *,
    name: str,
    out: Path,
    identity: Mapping[str, Any],
    device: str = "auto",
    micro_batch: int = 0,
    threads: int = 0,
    checkpoint_seconds: float = 300.0,
) -> dict[str, Any]:
    """Train, validate after every epoch and at the end, and write the results; returns ``train.json``.

    A run stopped at any step resumes from its last checkpoint with the next batch, and ends with the same weights.
    Several ranks give the same result as one, up to rounding, and a run may resume with another number of them; only
    the first rank writes.

    A batch of ``train`` is the effective batch of one optimizer step; ``micro_batch`` samples pass through the model at
    a time (0: whole batches), which changes results only by rounding. ``threads`` are cores for torch over all ranks of
    this machine, 0 for its own default, too many in a container with fewer. A checkpoint of another ``identity``
    (params and the store's digest) is ignored.

    Written to ``out``: ``metrics/<name>/train.json`` (a function of params and data, up to device rounding),
    ``metrics/<name>/train_run.json`` (this machine), ``plots/<name>/*.csv`` and ``*.png``, DVCLive's curves in
    ``plots/<name>/train``, and ``models/<name>/model.pt`` with the model's outputs; until then
    ``models/<name>.partial/checkpoint.pt``.

    Raises ParamsError if the device does not exist, a split has no batch, or the loss is not finite; KeyboardInterrupt
    after Ctrl-C or SIGTERM, once the current step is finished and saved.
    """
    started = time.monotonic()
    where = choose_device(device)
    ranks = meet(where)
    if threads:
        torch.set_num_threads(max(1, threads // ranks.local_world))
    known_as = json.dumps(identity, sort_keys=True)
    saved = out / "models" / f"{name}.partial" / "checkpoint.pt"
    for split, loader in (("train", train), ("val", val)):
        if len(loader) == 0:
            message = (
                f"the {split} split gives no batch: it has no sequence, or none as long as a sample; convert more, or "
                f"into more sequences, ask for shorter samples in {name}.tensors, or change {name}.splits"
            )
            raise ParamsError(message)
    steps = section.epochs * len(train)
    if section.max_steps >= 0:
        steps = min(steps, section.max_steps)
    begin = _begin(saved, known_as)
    begin_step = begin.progress.step if begin else 0
    module = Training(
        task,
        train,
        val,
        section,
        micro_batch=micro_batch,
        ranks=ranks,
        begin=begin,
        steps_per_row=max(steps // ROWS, 1),
    )
    with MemoryWatch() as memory:
        run(module, section, where, out / "plots" / name / "train", Saver(saved, known_as, checkpoint_seconds, ranks))

    progress = module.progress
    figures: dict[str, Any] = {
        "steps": progress.step,
        "parameters": sum(parameter.numel() for parameter in task.parameters()),
        **{key: round(value, _DIGITS) for key, value in task.summarize(progress.sums).items()},
    }
    machine = {
        "seconds": round(time.monotonic() - started, 2),
        "training_seconds": round(module.seconds, 2),
        "samples_per_second": round(ranks.world * module.samples / module.seconds, 1) if module.seconds else 0.0,
        "data_wait_share": round(module.waited / module.seconds, 4) if module.seconds else 0.0,
        "peak_memory_bytes": memory.peak_bytes,
        "peak_device_bytes": peak_device_bytes(where),
        "device": str(where),
        "ranks": ranks.world,
        "micro_batch": micro_batch,
        "resumed_from_step": begin_step,
    }
    if ranks.rank:
        return figures
    _write_json(out / "metrics" / name / "train.json", figures)
    _write_json(out / "metrics" / name / "train_run.json", machine)
    for stem, rows in task.plots(progress.sums).items():
        _write_csv(out / "plots" / name / f"{stem}.csv", rows)
    for stem, picture in task.pictures().items():
        (out / "plots" / name / f"{stem}.png").write_bytes(picture)
    model = out / "models" / name / "model.pt"
    weights = {key: value.cpu() for key, value in task.state_dict().items()}
    content = {"identity": known_as, "step": progress.step, "model": weights}
    replace_file(model, lambda new: torch.save(content, new))
    for stem, text in task.works().items():
        replace_text(model.parent / f"{stem}.txt", text + "\n")
    shutil.rmtree(saved.parent, ignore_errors=True)
    return figures


def _begin(path: Path, identity: str) -> Checkpoint | None:
    checkpoint = Checkpoint.load(path)
    if checkpoint is None or checkpoint.identity == identity:
        return checkpoint
    _log.warning("the checkpoint in %s is of other params or another store; training begins anew", path.parent)
    return None


def _write_json(path: Path, figures: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _write_csv(path: Path, rows: list[dict[str, float | str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
