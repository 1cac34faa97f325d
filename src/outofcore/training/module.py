"""Optimizer steps and validation, run by Lightning's trainer."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext

import torch
from dvclive.lightning import DVCLiveLogger
from lightning.pytorch import LightningModule
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.training.checkpoint import Checkpoint, Progress
from outofcore.training.feed import Feed, Loader, LoaderState
from outofcore.training.optimizers import make_optimizer
from outofcore.training.ranks import Ranks, add_up, add_up_each


class Training(LightningModule):
    """Trains a task; a batch of the loader is one optimizer step, cut into micro-batches that fit the device.

    Gradients are those of the summed loss, divided by the count of the whole batch: equal up to rounding for any
    micro-batch and number of ranks, even if their pieces count unequal numbers of tokens or bins. ``begin`` is the
    checkpoint to resume from. ``progress`` is valid after every step; ``samples`` and ``seconds`` are those of this
    process, including waiting for data but not validation.
    """

    def __init__(
        self,
        task: Task,
        train: Loader,
        val: Loader,
        section: TrainSection,
        *,
        micro_batch: int,
        ranks: Ranks,
        begin: Checkpoint | None,
        steps_per_row: int,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.task = task
        self.progress = begin.progress if begin else Progress()
        self.samples = 0
        self._optimizer_state = begin.optimizer if begin else None
        if begin:
            task.load_state_dict(begin.model)
        self._train, self._val = train, val
        self._section = section
        self._micro_batch = micro_batch
        self._ranks = ranks
        self._steps_per_row = steps_per_row
        self._feeds: list[Feed] = []
        self._pending: list[tuple[Tensor, Tensor]] = []
        self._running_since: float | None = None
        self.seconds = 0.0

    @property
    def waited(self) -> float:
        """Seconds spent waiting for data."""
        return sum(feed.waited for feed in self._feeds)

    def checkpoint(self, identity: str) -> Checkpoint:
        """The run's state between two steps."""
        self._add_up_loss()
        optimizer = self._optimizer().optimizer
        return Checkpoint(identity, self.task.state_dict(), optimizer.state_dict(), self.progress)

    def leave_finished_epoch(self) -> None:
        """Go to the start of the next epoch if this one is over."""
        progress = self.progress
        self._train.set_epoch(progress.epoch)
        if progress.batches >= len(self._train):
            progress.epoch, progress.batches, progress.loader = progress.epoch + 1, 0, None

    def train_dataloader(self) -> Feed:
        """The remaining batches of the epoch; Lightning requests them at the start of each."""
        self.leave_finished_epoch()
        feed = Feed(self._train, self.progress.epoch, self.progress.batches, self.progress.loader)
        self._feeds.append(feed)
        return feed

    def val_dataloader(self) -> Feed:
        """The validation split, or as many batches of it as configured: the same each time."""
        examples = self._section.val_examples
        return Feed(self._val, epoch=0, most=None if examples is None else -(-examples // self._section.batch_size))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer, restored if the run resumes."""
        optimizer = make_optimizer(
            self.task,
            self._section.optimizer,
            learning_rate=self._section.learning_rate,
            weight_decay=self._section.weight_decay,
        )
        if self._optimizer_state is not None:
            optimizer.load_state_dict(self._optimizer_state)
            self._optimizer_state = None
        return optimizer

    def on_train_start(self) -> None:
        """Start the clock."""
        self._running_since = time.perf_counter()

    def on_train_end(self) -> None:
        """Stop the clock."""
        self._stop_clock()

    def training_step(self, item: tuple[Batch, LoaderState], _: int) -> None:
        """Make one optimizer step of one batch."""
        batch, loader_state = item
        progress = self.progress
        # Keyed by the step, so that random layers behave the same in a resumed run.
        torch.manual_seed((self._ranks.rank << 56 | self._section.seed << 32 | progress.step) % 2**63)
        optimizer = self._optimizer()
        optimizer.zero_grad()
        loss, count = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        pieces = list(self.task.micro_batches(batch, self._micro_batch))
        for number, piece in enumerate(pieces, 1):
            with self._alone(number < len(pieces)):
                piece_loss, piece_count = self.task.loss(piece)
                self.manual_backward(piece_loss)
            loss, count = loss + piece_loss.detach(), count + piece_count.detach()
        loss, count = add_up(torch.stack([loss, count.to(loss.dtype)]))
        for parameter in self.task.parameters():
            if parameter.grad is not None:  # DDP averages over ranks, but the sum is needed
                parameter.grad /= count.clamp(min=1) / self._ranks.world
        optimizer.step()
        progress.step += 1
        progress.batches += 1
        progress.loader = loader_state
        self.samples += len(next(iter(batch.values())))
        self._pending.append((loss, count))
        if progress.step % self._steps_per_row == 0:
            self._write_loss()

    def on_validation_start(self) -> None:
        """Begin new sums and pause the training clock."""
        self._stop_clock()
        self.progress.sums = {}

    def validation_step(self, item: tuple[Batch, LoaderState], _: int) -> None:
        """Add the sums of a batch."""
        batch, sums = item[0], self.progress.sums
        for piece in self.task.micro_batches(batch, self._micro_batch):
            for name, value in self.task.evaluate(piece).items():
                exact = value.detach().cpu().double()
                sums[name] = sums[name] + exact if name in sums else exact

    def on_validation_end(self) -> None:
        """Add the validation metrics to the curves."""
        self.progress.validated = self.progress.step
        self.progress.sums = add_up_each(self.progress.sums, self.device)
        figures = self.task.summarize(self.progress.sums)
        self._write({f"val/{name}": value for name, value in figures.items()})
        self._running_since = time.perf_counter()

    def _alone(self, alone: bool) -> AbstractContextManager[None]:  # noqa: FBT001 - self-explanatory
        """Accumulate gradients on this rank only, for all pieces of a batch but the last."""
        wrapper = self.trainer.strategy.model
        return wrapper.no_sync() if alone and isinstance(wrapper, DistributedDataParallel) else nullcontext()

    def _optimizer(self) -> LightningOptimizer:
        optimizer = self.optimizers()
        assert isinstance(optimizer, LightningOptimizer)
        return optimizer

    def _stop_clock(self) -> None:
        if self._running_since is not None:
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self.seconds += time.perf_counter() - self._running_since
        self._running_since = None

    def _add_up_loss(self) -> None:
        for loss, count in self._pending:
            self.progress.loss_sum += float(loss)
            self.progress.loss_count += float(count)
        self._pending = []

    def _write_loss(self) -> None:
        self._add_up_loss()
        mean = self.progress.loss_sum / max(self.progress.loss_count, 1)
        if not math.isfinite(mean):
            message = (
                f"the loss is {mean} around step {self.progress.step}; lower train.learning_rate "
                f"(now {self._section.learning_rate:g}), or train with precision 32-true"
            )
            raise ParamsError(message)
        self.progress.loss_sum = self.progress.loss_count = 0.0
        self._write({"train/loss": mean})
        self.log("loss", mean, prog_bar=True, logger=False, batch_size=1)

    def _write(self, figures: dict[str, float]) -> None:
        self.progress.history.append((self.progress.step, figures))
        if isinstance(self.logger, DVCLiveLogger):  # of the first rank
            self.logger.log_metrics(figures, step=self.progress.step, sync=True)
