"""Training, from the first step to the files that it leaves: one loop."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from outofcore.display.console import interrupt, stopped_by
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task, note
from outofcore.errors import BudgetError, ParamsError
from outofcore.order.batching import Steps
from outofcore.order.permutation import key
from outofcore.system.durable import write_json
from outofcore.system.peak_memory import MemoryWatch
from outofcore.training.checkpoint import Saver
from outofcore.training.evaluation import add_sums
from outofcore.training.loaders import Batches
from outofcore.training.optimizers import learning_rate, make_optimizer, train_step
from outofcore.training.ranks import add_up_each, any_of, choose_device, meet
from outofcore.training.results import Curves, model_digest, order_of, write_model, write_plots

ROWS = 200
"""Approximate number of rows of the training curve."""

_DIGITS = 6
_LAYERS = 64  # purpose of a key; those of the loader are lower numbers


def fit(
    task: Task,
    train: Batches,
    val: Batches,
    section: TrainSection,
    *,
    name: str,
    out: Path,
    identity: Mapping[str, Any],
    code: Mapping[str, str] | None = None,
    device: str = "auto",
    micro_batch: int = 0,
    threads: int = 0,
    checkpoint_seconds: float = 300.0,
    facts: Mapping[str, Any] | None = None,
    place: str = "",
    processes: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Train, validate, and write the results; returns ``train.json``.

    A validation comes after every epoch, or ``val_every`` steps, and at the end.

    A run stopped at any step resumes from its last checkpoint with the next batch, and ends with the same weights.
    Several ranks give the same result as one, up to rounding, and a run may resume with another number of them; only
    the first rank writes.

    A batch of ``train`` is the effective batch of one optimizer step; ``micro_batch`` samples pass through the model at
    a time (0: whole batches), which changes results only by rounding. ``threads`` are cores for torch over all ranks of
    this machine, 0 for its own default, too many in a container with fewer. A checkpoint of another ``identity``
    (params and the store's digest) or ``code`` (versions and a digest) is ignored, and a warning says so. ``facts`` are
    further entries of ``train.json``, ``place`` that of the store, for ``train_run.json``. ``processes`` are those of
    an earlier run, whose micro-batches are taken again at the same steps.

    Written to ``out``: ``metrics/<name>/train.json`` (a function of params and data, up to device rounding),
    ``metrics/<name>/train_run.json`` (this machine), ``plots/<name>/*.csv`` and ``*.png``, curves in
    ``plots/<name>/train`` and ``val``, and ``models/<name>/model.pt`` with the model's outputs; until then
    ``models/<name>.partial/checkpoint.pt``.

    Raises ParamsError if the device does not exist, a split has no batch, or the loss is not finite; BudgetError if the
    device runs out of memory; StateError if the checkpoint is of another version; KeyboardInterrupt after Ctrl-C or
    SIGTERM, once the current step is finished and saved.
    """
    started = time.monotonic()
    where = choose_device(device)
    ranks = meet(where)
    if threads:
        torch.set_num_threads(max(1, threads // ranks.local_world))
    val_batches = _val_batches(train, val, section, name)
    checkpoint = out / "models" / f"{name}.partial" / "checkpoint.pt"
    saver = Saver(checkpoint, json.dumps(identity, sort_keys=True), code or {}, checkpoint_seconds)
    device_memory = partial(_device_memory, where, micro_batch or section.batch_size)
    with device_memory():
        run = _Run(name, task.to(where), section, train.epoch_steps, where, saver, out / "plots" / name)
    progress, curves, steps = run.progress, run.curves, run.steps
    length = _length(section, steps, train.epoch_steps)
    note(f"{name}: {length}")
    between = min(steps, section.val_every or train.epoch_steps)
    if val_batches > between > 0:
        shorter = "val_examples reads fewer"
        note(f"{name}: a validation is {val_batches:,} batches, but {between:,} steps come before it; {shorter}")
    process = {
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
        "ranks": ranks.world,
        "micro_batch": micro_batch,
    }
    if processes:
        progress.processes = list(map(dict, processes))
    else:
        progress.begin(process)
    resumed_from = progress.step
    if resumed_from:
        note(f"{name}: resuming at step {resumed_from:,} of {steps:,}")
    with saver.alone(), MemoryWatch() as memory, curves, stopped_by(run.stop), device_memory():
        for step, row in progress.history:
            curves.draw(step, row)
        curves.show(progress.step)
        while progress.step < steps:
            if section.val_every is None and progress.step and progress.loader is None:
                run.validate(val, val_batches)
            run.train_epoch(train, val, val_batches)
        if progress.validated != progress.step:
            run.mean_loss()
            run.save()
            run.validate(val, val_batches)
            run.save()  # should a result fail to be written, nothing is trained or validated again

    figures = {
        "steps": progress.step,
        "parameters": sum(parameter.numel() for parameter in task.parameters()),
        **{key: round(value, _DIGITS) for key, value in task.summarize(progress.sums).items()},
        **(facts or {}),
        "model": model_digest(task.state_dict()),
    }
    machine = {
        "seconds": round(time.monotonic() - started, 2),
        "training_seconds": round(run.seconds, 2),
        "samples_per_second": round(ranks.world * run.samples / run.seconds, 1) if run.seconds else 0.0,
        "data_wait_share": round(run.waited / run.seconds, 4) if run.seconds else 0.0,
        "peak_memory_bytes": memory.peak_bytes,
        "peak_device_bytes": torch.cuda.max_memory_allocated(where) if where.type == "cuda" else 0,
        "store": place,
        **process,
        "device": str(where),
        "resumed_from_step": resumed_from,
    }
    if ranks.rank == 0:
        task.to("cpu")  # what it generates does not depend on the device
        write_plots(out / "plots" / name, task, progress.sums)
        record = {
            "code": dict(code or {}),
            "processes": progress.processes,
            "order": order_of(train, progress.step, run.skip),
        }
        write_model(out / "models" / name, task, saver.identity, progress.step, record)
        write_json(out / f"metrics/{name}/train.json", figures)
        write_json(out / f"metrics/{name}/train_run.json", machine)
        saver.remove()
    if steps < section.max_steps:
        note(f"{name}: trained for {length}")
    return figures


def _length(section: TrainSection, steps: int, epoch_steps: int) -> str:
    """What a run takes, in words."""
    epochs = f"{section.epochs} epoch{'s' * (section.epochs != 1)} of {epoch_steps:,} step{'s' * (epoch_steps != 1)}"
    if steps < section.max_steps:
        return f"{epochs}; max_steps {section.max_steps:,} is not reached: set epochs to train longer"
    if steps == section.max_steps:
        return f"{steps:,} steps (max_steps) of {epochs}"
    return epochs


@contextmanager
def _device_memory(where: torch.device, samples: int) -> Iterator[None]:
    """Raise BudgetError if the device has no memory left for passes of so many samples."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BudgetError(
            f"device {where}: no memory left for passes of {samples:,} samples through the model; set micro_batch in "
            f"machine.yaml, or OUTOFCORE_MICRO_BATCH, to less, such as {max(1, samples // 2)}"
        ) from error


def _val_batches(train: Batches, val: Batches, section: TrainSection, name: str) -> int:
    """Batches of a validation; raises ParamsError if a split has none."""
    for split, loader in (("train", train), ("val", val)):
        if len(loader) == 0:
            raise ParamsError(
                f"the {split} split gives no batch: it has no sequence, or none as long as a sample; ask for shorter "
                f"samples (tensors.lags=1, a smaller tensors.seq_len), convert more, or into more sequences, or change "
                f"{name}.splits"
            )
    if section.val_examples is None:
        return len(val)
    return min(len(val), -(-section.val_examples // section.batch_size))


class _Run:
    """A model in training, and how far it is; saved and shown between steps."""

    def __init__(
        self,
        name: str,
        task: Task,
        section: TrainSection,
        epoch_steps: int,
        where: torch.device,
        saver: Saver,
        curves: Path,
    ) -> None:
        self.stop = StopBetweenSteps()
        self.samples, self.seconds, self.waited = 0, 0.0, 0.0  # of the steps in this process
        self._task, self._section, self.skip = task, section, Steps("train.skip", section.skip)
        self._where = where
        self._saver, self._ranks = saver, meet(where)
        self._optimizer = make_optimizer(
            task,
            section.optimizer,
            learning_rate=section.learning_rate,
            weight_decay=section.weight_decay,
            betas=section.betas,
        )
        self.progress = saver.resume(task, self._optimizer)
        self.steps = section.epochs * epoch_steps
        if section.max_steps >= 0:
            self.steps = min(self.steps, section.max_steps)
        self.curves = Curves(name, curves, self.steps)
        self._loss, self._validated = "", ""  # as they are shown
        data_parallel = partial(
            DistributedDataParallel, find_unused_parameters=task.partly_used, gradient_as_bucket_view=True
        )
        self._model = data_parallel(task) if self._ranks.world > 1 else task
        # Casts are not cached, so that the gradients of a weight that is used twice add up in 32 bits.
        self._precision = partial(
            torch.autocast, where.type, torch.bfloat16, enabled=section.precision == "bf16-mixed", cache_enabled=False
        )
        self._rate_changes = section.schedule != "constant" or section.warmup_steps > 0
        self._losses: list[Tensor] = []  # of the last steps, each with its count, on the device

    def train_epoch(self, train: Batches, val: Batches, val_batches: int) -> None:
        """Train to the end of the epoch, or of the run, with the validations that are due in between."""
        progress, every = self.progress, self._section.val_every
        epoch = progress.step // train.epoch_steps
        train.set_epoch(epoch)
        if progress.loader is not None:
            train.load_state_dict(progress.loader)
            self._move(train)  # on, where fewer samples are left than there are ranks now
        batches, begun = iter(train), time.perf_counter()
        while progress.step < min((epoch + 1) * train.epoch_steps, self.steps):
            asked = time.perf_counter()
            if every and progress.step // every > max(progress.validated, 0) // every:
                self.validate(val, val_batches)
                begun, asked = begun + time.perf_counter() - asked, time.perf_counter()
            batch = next(batches)
            if progress.step + 1 in self.skip:
                self._move(train)
                continue
            self.waited += time.perf_counter() - asked
            rate = self._step(batch)
            self._move(train)
            if progress.step % max(self.steps // ROWS, 1) == 0:
                mean = self.mean_loss()
                progress.loss_sum = progress.loss_count = 0.0
                self._record({"train/loss": mean} | ({"train/learning_rate": rate} if self._rate_changes else {}))
                self._loss = f"loss {mean:.4g}"
            speed = self._ranks.world * self.samples / (self.seconds + time.perf_counter() - begun)
            self.curves.show(
                progress.step, f"epoch {epoch + 1}", self._loss, f"{speed:,.0f} samples/s", self._validated
            )
            self._pause()
        if self._where.type == "cuda":
            torch.cuda.synchronize(self._where)
        self.seconds += time.perf_counter() - begun

    def _move(self, train: Batches) -> None:
        """Count the steps that the loader is past."""
        self.progress.step = train.step
        self.progress.loader = train.state_dict() if train.step % train.epoch_steps else None

    def _step(self, batch: Batch) -> float:
        """Make a step; returns its learning rate."""
        progress = self.progress
        rate = learning_rate(self._section, self.steps, progress.step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # Keyed by the step, so that random layers behave the same in a resumed run. A hash: the generator of the CPU
        # takes the low 32 bits of a seed only.
        torch.manual_seed(key(self._section.seed, progress.step, _LAYERS, self._ranks.rank))
        with self._precision():
            pieces = list(self._task.micro_batches(batch, progress.micro_batch()))
            totals = train_step(self._model, self._optimizer, pieces, self._ranks.world, self._section.clip_norm)
        self._losses.append(totals)
        self.samples += len(next(iter(batch.values())))
        return rate

    def validate(self, val: Batches, count: int) -> None:
        """Validate on so many batches, unless the weights of this step were validated before."""
        if self.progress.validated == self.progress.step:
            return
        sums: dict[str, Tensor] = {}
        modes = {module: module.training for module in self._task.modules()}
        self._task.eval()
        val.set_epoch(0)
        with torch.no_grad(), self._precision():
            for number, batch in enumerate(islice(val, count), 1):
                add_sums(sums, self._task, batch, self.progress.micro_batch())
                self.curves.show(self.progress.step, f"validation {number:,} of {count:,}")
                self._pause()
        for module, mode in modes.items():
            module.training = mode
        self.progress.sums, self.progress.validated = add_up_each(sums, self._where), self.progress.step
        figures = self._task.summarize(self.progress.sums)
        self._record({f"val/{key}": value for key, value in figures.items()})
        key, value = next(iter(figures.items()))
        self._validated = f"val {key} {value:.4g}"

    def _record(self, figures: dict[str, float]) -> None:
        self.progress.history.append((self.progress.step, figures))
        self.curves.draw(self.progress.step, figures)

    def mean_loss(self) -> float:
        """Since the last row of the curves; raises ParamsError, on all ranks alike, if it is not finite."""
        self._read_losses()
        mean = self.progress.loss_sum / max(self.progress.loss_count, 1)
        if not math.isfinite(mean):
            raise ParamsError(
                f"the loss is {mean} around step {self.progress.step}; lower train.learning_rate "
                f"(now {self._section.learning_rate:g}), or train with precision 32-true"
            )
        return mean

    def _read_losses(self) -> None:
        for loss, count in torch.stack(self._losses).tolist() if self._losses else ():
            self.progress.loss_sum += loss
            self.progress.loss_count += count
        self._losses.clear()

    def save(self) -> None:
        self._read_losses()
        self._saver.save(self._task, self._optimizer, self.progress)

    def _pause(self) -> None:
        """Save if it is time or the user asks to stop, and then stop."""
        stopped = self.stop.requested()
        if stopped or self._saver.due():
            self.save()
        if stopped:
            any_of(flag=False)  # waits until the first has saved: torchrun ends all ranks when one leaves
            raise KeyboardInterrupt


class StopBetweenSteps:
    """Handles signals: the first is a request, Ctrl-C after it stops at once.

    A second SIGTERM changes nothing: schedulers and torchrun may both send one to each rank.
    """

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            interrupt(number, frame)
        if not self.asked:
            self.asked = True
            sys.stderr.write("\nstopping after this step (Ctrl-C to stop at once)\n")

    def requested(self) -> bool:
        """Whether to stop here: the same on all ranks, whichever received the signal."""
        return any_of(self.asked)
