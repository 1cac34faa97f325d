"""The two loaders of a training run."""

from __future__ import annotations

import torch

from outofcore.domains.reading import Reading
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Task
from outofcore.errors import BudgetError
from outofcore.loading.epochs import Loader
from outofcore.loading.loader import loader
from outofcore.loading.residency.choose import Kind
from outofcore.loading.windows import Window
from outofcore.sizes import format_bytes
from outofcore.store.reader import Store
from outofcore.training.ranks import meet


def open_loaders(
    store: Store,
    task: Task,
    reading: Reading,
    section: TrainSection,
    *,
    memory: int,
    residency: Kind,
    device: torch.device,
) -> tuple[Loader, Loader]:
    """Shuffled batches of the train split, and those of the val split in the order of the store.

    Of several ranks, each gets its share of every batch.

    Parameters
    ----------
    store
        What to read.
    task
        Says which windows it reads, and how in training and in validation.
    reading
        The domain's reading.
    section
        The training settings.
    memory
        Bytes that both loaders together may hold, over all ranks of this machine.
    residency
        Where rows are kept.
    device
        Where batches go.
    """
    share = memory // meet(device).local_world
    training, validation = task.readings(reading, device)
    options = task.loader_options()
    if "window" in options:
        options["window"] = Window(**options["window"])

    # Validation sees every sample once, where it stands: neither moved windows nor batches of groups.
    plain = {**{name: value for name, value in options.items() if name != "balanced"}, "phase": False}

    def open_split(split: str, tensors: Reading, *, shuffle: bool) -> Loader:
        return loader(
            store,
            split,
            section.batch_size,
            shuffle=shuffle,
            seed=section.seed,
            pool_blocks=section.pool_blocks,
            tensors=tensors,
            memory=share // 2,
            residency=residency,
            device=device,
            **(options if shuffle else plain),
        )

    try:
        return open_split("train", training, shuffle=True), open_split("val", validation, shuffle=False)
    except BudgetError as error:
        message = (
            f"{error}; this is half of {format_bytes(share)}: training and validation share what 'memory' in "
            "machine.yaml, or OUTOFCORE_MEMORY, allows"
        )
        raise BudgetError(message) from error
