"""Train a task on a loader, to the end or on from where it was stopped, and leave model, figures and curves."""

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
from outofcore.training.checkpoint import Checkpoint
from outofcore.training.device import choose_device, peak_device_bytes
from outofcore.training.feed import Loader
from outofcore.training.memory import MemoryWatch
from outofcore.training.module import Training
from outofcore.training.ranks import meet
from outofcore.training.run import Saver, run

ROWS = 200
"""Rows of the training curve, about."""

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
    """Train, validate after every epoch and at the end, and write what came of it.

    A run that was stopped, at whatever step, goes on from its last checkpoint with the next batch, and ends with the
    weights that it would have had. Several ranks give, to rounding, what one gives, and a run may go on with another
    number of them; the first rank alone writes.

    Parameters
    ----------
    task
        What to train, with the weights to begin with.
    train, val
        Loaders; a batch of ``train`` is the effective batch of one optimizer step.
    section
        The training settings.
    name
        The domain's name, a folder in each folder of ``out``.
    out
        The project's folder. Written are ``metrics/<name>/train.json`` (a function of params and data, but for the
        rounding of the device), ``metrics/<name>/train_run.json`` (what this machine did), ``plots/<name>/*.csv``
        and ``*.png``, DVCLive's curves in ``plots/<name>/train``, and ``models/<name>/model.pt`` with what the model
        made; until all that is there, ``models/<name>.partial/checkpoint.pt``.
    identity
        What decides the result: params and the store's digest. A checkpoint of another identity is not gone on from.
    device
        ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
    micro_batch
        Most samples that pass through the model at a time; 0 for whole batches. Changes results by rounding alone.
    threads
        Cores that torch may use, over all ranks of this machine; 0 for as many as it finds, which is too many where a
        container has fewer.
    checkpoint_seconds
        Time from one checkpoint to the next.

    Returns
    -------
    dict
        The content of ``train.json``.

    Raises
    ------
    ParamsError
        If there is no such device, a split gives no batch, or the loss is no longer a number.
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, when the step in progress is finished and saved.
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
    model.parent.mkdir(parents=True, exist_ok=True)
    weights = {key: value.cpu() for key, value in task.state_dict().items()}
    torch.save({"identity": known_as, "step": progress.step, "model": weights}, model)
    for stem, text in task.works().items():
        (model.parent / f"{stem}.txt").write_text(text + "\n", encoding="utf-8")
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
