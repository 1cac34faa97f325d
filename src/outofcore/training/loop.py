"""Training, from the first step to the files that it leaves: one loop."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress as Bar
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.training.checkpoint import Checkpoint, Progress
from outofcore.training.curves import Curves
from outofcore.training.interruption import StopBetweenSteps
from outofcore.training.loaders import Batches
from outofcore.training.memory import MemoryWatch
from outofcore.training.optimizers import make_optimizer
from outofcore.training.ranks import add_up, add_up_each, choose_device, meet, wait_for_all
from outofcore.training.results import write_metrics, write_model, write_plots

ROWS = 200
"""Approximate number of rows of the training curve."""

_DIGITS = 6
_log = logging.getLogger(__name__)


def fit(
    task: Task,
    train: Batches,
    val: Batches,
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

    Raises ParamsError if the device does not exist, a split has no batch, or the loss is not finite; StateError if the
    checkpoint is of another version; KeyboardInterrupt after Ctrl-C or SIGTERM, once the current step is finished and
    saved.
    """
    started = time.monotonic()
    where = choose_device(device)
    ranks = meet(where)
    first = ranks.rank == 0
    if threads:
        torch.set_num_threads(max(1, threads // ranks.local_world))
    for split, loader in (("train", train), ("val", val)):
        if len(loader) == 0:
            message = (
                f"the {split} split gives no batch: it has no sequence, or none as long as a sample; convert more, or "
                f"into more sequences, ask for shorter samples in {name}.tensors, or change {name}.splits"
            )
            raise ParamsError(message)
    steps, val_batches = section.epochs * len(train), len(val)
    if section.max_steps >= 0:
        steps = min(steps, section.max_steps)
    if section.val_examples is not None:
        val_batches = min(val_batches, -(-section.val_examples // section.batch_size))
    steps_per_row = max(steps // ROWS, 1)

    task.to(where)
    optimizer = make_optimizer(
        task, section.optimizer, learning_rate=section.learning_rate, weight_decay=section.weight_decay
    )
    known_as, saved = json.dumps(identity, sort_keys=True), out / "models" / f"{name}.partial" / "checkpoint.pt"
    progress = _resume(saved, known_as, task, optimizer)
    resumed_from, saved_at = progress.step, time.monotonic()
    # A batch of one recording does not use the readouts of the others.
    model = DistributedDataParallel(task, find_unused_parameters=True) if ranks.world > 1 else task
    # Casts are not cached, so that the gradients of a weight that is used twice add up in 32 bits.
    precision = partial(
        torch.autocast, where.type, torch.bfloat16, enabled=section.precision == "bf16-mixed", cache_enabled=False
    )
    losses: list[Tensor] = []  # of the last steps, each with its count, on the device
    samples, seconds, waited = 0, 0.0, 0.0  # of the steps in this process
    live = Curves(str(out / "plots" / name / "train")) if first else None
    bar = Bar(console=Console(stderr=True), disable=not (first and sys.stderr.isatty()))
    line = bar.add_task("training", total=steps, completed=progress.step)
    memory, stop = MemoryWatch(), StopBetweenSteps()

    def validate() -> None:
        sums: dict[str, Tensor] = {}
        modes = {module: module.training for module in task.modules()}
        task.eval()
        val.set_epoch(0)
        with torch.no_grad(), precision():
            for number, batch in enumerate(islice(val, val_batches), 1):
                for piece in task.micro_batches(batch, micro_batch):
                    for key, value in task.evaluate(piece).items():
                        exact = value.cpu().double()
                        sums[key] = sums[key] + exact if key in sums else exact
                bar.update(line, description=f"validation {number} of {val_batches}")
                pause()
        for module, mode in modes.items():
            module.training = mode
        progress.sums, progress.validated = add_up_each(sums, where), progress.step
        write({f"val/{key}": value for key, value in task.summarize(progress.sums).items()})

    def write(figures: dict[str, float]) -> None:
        progress.history.append((progress.step, figures))
        draw(progress.step, figures)

    def draw(step: int, figures: dict[str, float]) -> None:
        if live:
            live.step = step
            for key, value in figures.items():
                live.log_metric(key, value)
            live.sync()  # type: ignore[no-untyped-call]  # dvclive has no types here

    def read_losses() -> None:
        for loss, count in torch.stack(losses).tolist() if losses else ():
            progress.loss_sum += loss
            progress.loss_count += count
        losses.clear()

    def mean_loss() -> float:
        """Since the last row of the curves; raises ParamsError, on all ranks alike, if it is not finite."""
        read_losses()
        mean = progress.loss_sum / max(progress.loss_count, 1)
        if not math.isfinite(mean):
            message = (
                f"the loss is {mean} around step {progress.step}; lower train.learning_rate "
                f"(now {section.learning_rate:g}), or train with precision 32-true"
            )
            raise ParamsError(message)
        return mean

    def save() -> None:
        nonlocal saved_at
        read_losses()
        if first and math.isfinite(progress.loss_sum):  # otherwise every run that resumes would fail again
            Checkpoint(known_as, task.state_dict(), optimizer.state_dict(), progress).save(saved)
        saved_at = time.monotonic()

    def pause() -> None:
        """Save if it is time or the user asks to stop, and then stop."""
        stopped = stop.requested()
        if stopped or time.monotonic() - saved_at >= checkpoint_seconds:
            save()
        if stopped:
            wait_for_all()  # until the first has saved: torchrun ends all ranks when one leaves
            raise KeyboardInterrupt

    with memory, live or nullcontext(), bar, stop:
        for step, row in progress.history:
            draw(step, row)
        while True:
            epoch_over = progress.batches >= len(train)
            ended = progress.step >= steps
            if (epoch_over or ended) and progress.validated != progress.step:
                if ended:
                    mean_loss()
                    save()
                validate()
                if ended:
                    save()  # should a result fail to be written, nothing is trained or validated again
            if ended:
                break
            if epoch_over:
                progress.epoch, progress.batches, progress.loader = progress.epoch + 1, 0, None
            train.set_epoch(progress.epoch)
            if progress.loader is not None:
                train.load_state_dict(progress.loader)
            bar.update(line, description=f"epoch {progress.epoch + 1}")
            batches, epoch_begun = iter(train), time.perf_counter()
            while progress.batches < len(train) and progress.step < steps:
                asked = time.perf_counter()
                batch = next(batches)
                waited += time.perf_counter() - asked
                # Keyed by the step, so that random layers behave the same in a resumed run.
                torch.manual_seed((ranks.rank << 56 | section.seed << 32 | progress.step) % 2**63)
                with precision():
                    pieces = list(task.micro_batches(batch, micro_batch))
                    losses.append(train_step(model, optimizer, pieces, ranks.world))
                progress.step, progress.batches = progress.step + 1, progress.batches + 1
                progress.loader = train.state_dict()
                samples += len(next(iter(batch.values())))
                if progress.step % steps_per_row == 0:
                    mean = mean_loss()
                    progress.loss_sum = progress.loss_count = 0.0
                    write({"train/loss": mean})
                    bar.update(line, description=f"epoch {progress.epoch + 1}, loss {mean:.4g}")
                bar.update(line, completed=progress.step)
                pause()
            if where.type == "cuda":
                torch.cuda.synchronize(where)
            seconds += time.perf_counter() - epoch_begun

    figures = {
        "steps": progress.step,
        "parameters": sum(parameter.numel() for parameter in task.parameters()),
        **{key: round(value, _DIGITS) for key, value in task.summarize(progress.sums).items()},
    }
    machine = {
        "seconds": round(time.monotonic() - started, 2),
        "training_seconds": round(seconds, 2),
        "samples_per_second": round(ranks.world * samples / seconds, 1) if seconds else 0.0,
        "data_wait_share": round(waited / seconds, 4) if seconds else 0.0,
        "peak_memory_bytes": memory.peak_bytes,
        "peak_device_bytes": torch.cuda.max_memory_allocated(where) if where.type == "cuda" else 0,
        "device": str(where),
        "ranks": ranks.world,
        "micro_batch": micro_batch,
        "resumed_from_step": resumed_from,
    }
    if first:
        task.to("cpu")  # what it generates does not depend on the device
        write_plots(out / "plots" / name, task, progress.sums)
        write_model(out / "models" / name, task, known_as, progress.step)
        write_metrics(out / "metrics" / name, train=figures, train_run=machine)
        shutil.rmtree(saved.parent, ignore_errors=True)
    return figures


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: list[Batch], world: int) -> Tensor:
    """Make one optimizer step; returns the summed loss of the batch and its count, over all ranks.

    Gradients are those of the summed loss, divided by the count of the whole batch: equal up to rounding for any pieces
    and number of ranks, even if they count unequal numbers of tokens or bins.
    """
    optimizer.zero_grad()
    loss = count = torch.zeros((), device=next(model.parameters()).device)
    for number, piece in enumerate(pieces, 1):
        # Ranks exchange gradients once, with the last piece.
        with model.no_sync() if isinstance(model, DistributedDataParallel) and number < len(pieces) else nullcontext():
            piece_loss, piece_count = model(piece)
            piece_loss.backward()
        loss, count = loss + piece_loss.detach(), count + piece_count.detach()
    totals = add_up(torch.stack([loss, count.to(loss.dtype)]))
    for parameter in model.parameters():
        if parameter.grad is not None:  # the mean over ranks, where the sum is needed
            parameter.grad /= totals[1].clamp(min=1) / world
    optimizer.step()
    return totals


def _resume(path: Path, identity: str, task: Task, optimizer: torch.optim.Optimizer) -> Progress:
    """Load a checkpoint of the same run into the task and the optimizer; without one, the run begins."""
    checkpoint = Checkpoint.load(path)
    if checkpoint is None:
        return Progress()
    if checkpoint.identity != identity:
        _log.warning("the checkpoint in %s is of other params or another store; training begins anew", path.parent)
        return Progress()
    task.load_state_dict(checkpoint.model)
    optimizer.load_state_dict(checkpoint.optimizer)
    return checkpoint.progress
