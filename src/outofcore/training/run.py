"""Run Lightning's trainer until a run is complete or the user stops it."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from dvclive.lightning import DVCLiveLogger
from dvclive.live import Live
from lightning.pytorch import Callback, LightningModule, Trainer

from outofcore.domains.sections import TrainSection
from outofcore.training.device import trainer_options
from outofcore.training.interruption import Interrupted, StopBetweenSteps
from outofcore.training.module import Training
from outofcore.training.ranks import Ranks


class Saver(Callback):
    """Saves a checkpoint between two steps, every ``seconds``, on the first rank: all have the same."""

    def __init__(self, path: Path, identity: str, seconds: float, ranks: Ranks) -> None:
        self.ranks = ranks
        self._path, self._identity, self._seconds = path, identity, seconds
        self._since = time.monotonic()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Save if it is time."""
        del trainer
        if isinstance(pl_module, Training) and time.monotonic() - self._since >= self._seconds:
            self.save(pl_module)

    def save(self, module: Training) -> None:
        """Save now."""
        if self.ranks.rank:
            return
        module.checkpoint(self._identity).save(self._path)
        self._since = time.monotonic()


def run(module: Training, section: TrainSection, device: torch.device, curves: Path, saver: Saver) -> None:
    """Train and validate until the run is complete; raises KeyboardInterrupt if the user stopped it.

    ``curves`` is the folder of DVCLive's curves, rewritten from the start of the run.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    progress = module.progress
    module.leave_finished_epoch()
    with (
        warnings.catch_warnings(),
        nullcontext() if saver.ranks.rank else Live(str(curves), dvcyaml=False, save_dvc_exp=False) as live,
        StopBetweenSteps() as stop,
    ):
        # Lightning 2.6 uses an API that torch 2.13 deprecates.
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        logger = DVCLiveLogger(experiment=live) if live else None
        for step, figures in progress.history:
            if logger:
                logger.log_metrics(figures, step=step, sync=True)

        def trainer() -> Trainer:
            return Trainer(
                **trainer_options(device, saver.ranks),
                precision=section.precision,
                max_epochs=section.epochs - progress.epoch,
                max_steps=section.max_steps - progress.step if section.max_steps >= 0 else -1,
                logger=logger or False,
                callbacks=[saver, stop],
                log_every_n_steps=1,
                reload_dataloaders_every_n_epochs=1,
                num_sanity_val_steps=0,
                enable_checkpointing=False,
                enable_model_summary=False,
                enable_progress_bar=sys.stderr.isatty() and not saver.ranks.rank,
                use_distributed_sampler=False,
            )

        at_epoch_end = progress.step > 0 and progress.batches == 0
        if at_epoch_end and progress.validated != progress.step:
            _stoppable(lambda: trainer().validate(module, verbose=False))
        steps_left = section.max_steps < 0 or progress.step < section.max_steps
        if steps_left and progress.epoch < section.epochs:
            _stoppable(lambda: trainer().fit(module), then=lambda: saver.save(module))
            if progress.validated != progress.step:
                saver.save(module)
        if progress.validated != progress.step:
            _stoppable(lambda: trainer().validate(module, verbose=False))


def _stoppable(work: Callable[[], Any], then: Callable[[], None] = lambda: None) -> None:
    """Run a function; if the user stops it between two steps, run the clean-up and raise KeyboardInterrupt."""
    try:
        work()
    except Interrupted:
        then()
        raise KeyboardInterrupt from None
    except SystemExit:  # Lightning's error for a Ctrl-C in the middle of a step
        raise KeyboardInterrupt from None
