"""The two loaders of a training run, and what training asks of a loader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch

from outofcore.domains.domain import Domain
from outofcore.domains.reading import Reading
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.errors import BudgetError, ParamsError, RawInputError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.plain import InOrder, Shuffle
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import format_bytes
from outofcore.store.reader import Store
from outofcore.training.ranks import meet, this_rank

LOADERS = 2
"""Of a training run, for training and validation; each may hold an equal share of the memory."""
BALANCED = "a task that compares all samples of a batch"


class Batches(Protocol):
    """Interface of a loader for training; one iteration is one epoch."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...

    @property
    def step(self) -> int:
        """The last step of which all samples were delivered, from epoch 0 on."""
        ...

    @property
    def epoch_steps(self) -> int:
        """Steps of an epoch; a batch may be several of them."""
        ...

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The loader's position after the last batch that it delivered."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume at that position with the next iteration."""
        ...


def open_loaders(
    store: Store,
    task: Task,
    reading: Reading,
    section: TrainSection,
    machine: Machine,
    device: torch.device,
) -> tuple[Loader, Loader]:
    """Shuffled batches of the train split, and those of the val split.

    Validation is in store order if all of it is used, otherwise shuffled, so that a subset covers the whole store. Each
    rank gets its share of every batch. Memory and workers of the machine are for all of its ranks, and memory for both
    loaders.

    Raises ParamsError if a task of balanced batches has several ranks.
    """
    ranks = meet(device)
    if "shuffle" in task.loader_options():
        refuse_ranks(ranks.world, BALANCED)
    share, workers = machine.memory // ranks.local_world, max(1, machine.workers // ranks.local_world)
    of_rank = replace(machine, memory=share // LOADERS, workers=workers)
    opened = partial(open_split, store, task, reading, section, of_rank, device)
    try:
        return opened("train", shuffle=True), opened("val", shuffle=section.val_examples is not None)
    except BudgetError as error:
        raise BudgetError(
            f"{error}; this is half of {format_bytes(share)}: training and validation share what 'memory' in "
            "machine.yaml, or OUTOFCORE_MEMORY, allows"
        ) from error


def open_split(
    store: Store,
    task: Task,
    reading: Reading,
    section: TrainSection,
    machine: Machine,
    device: torch.device,
    split: str,
    *,
    shuffle: bool,
    columns: tuple[str, ...] = (),
    ranks: int | None = None,
) -> Loader:
    """Batches of a split; those not for training have each sample once, with no shifted windows or groups.

    ``ranks`` names the batches of so many ranks, of which this is the first; by default those of torch.
    """
    sampling = Shuffle(pool_blocks=section.pool_blocks) if shuffle else InOrder(pool_blocks=section.pool_blocks)
    options = {"shuffle": sampling, **task.loader_options()}
    if split != "train":
        options["shuffle"] = sampling
        known = store.sequences(split, store.parts[0]).fields
        columns = (*columns, *(name for name in task.columns if name in known))
    return loader(
        store,
        split,
        section.batch_size,
        seed=section.seed,
        tensors=task.reading_for(device, reading),
        columns=columns,
        memory=machine.memory,
        residency=machine.residency,
        device=device,
        threads=machine.workers,
        rank=None if ranks is None else 0,
        world_size=ranks,
        **options,
    )


def training_batches(domain: Domain, section: Any, store: Store, memory: int, ranks: int | None = None) -> Loader:
    """Batches of the train split as a training on a store with these settings has them, on the CPU."""
    task, reading = domain.task(store, section), domain.reading(store.attributes, section)
    machine, cpu = Machine(memory=memory), torch.device("cpu")
    return open_split(store, task, reading, section.train, machine, cpu, "train", shuffle=True, ranks=ranks)


def refuse_ranks(world: int, what: str, cure: str = "run it on one") -> None:
    """Raise ParamsError for several ranks, which ``what`` cannot use."""
    if world > 1:
        raise ParamsError(f"{what}: expected one rank, got {world}; {cure}")


def open_streams(
    domain: Any,
    section: Any,
    catalogue: Store,
    machine: Machine,
    device: torch.device,
    splits: Sequence[str] = ("train", "val"),
) -> tuple[Any, ...]:
    """The loaders of a training run directly from raw files, or of other splits, each with half of the memory.

    ``catalogue`` is the store without rows that :func:`outofcore.pipeline.write_catalogue` writes.

    Raises RawInputError if the raw files differ from the catalogue in name or size, ParamsError with several ranks.
    """
    refuse_ranks(this_rank().world, f"{domain.name}.mode: stream", "use one, or mode store")
    files = domain.raw_files(section)
    listed = catalogue.sources.read()
    known = list(zip(listed["name"].tolist(), listed["bytes"].tolist(), strict=True))
    if [(file.name, file.bytes) for file in files] != known:
        raise RawInputError(f"{section.raw}: other files than those that {catalogue.root} lists; run 'dvc repro'")

    def opened(split: str) -> Any:
        return domain.stream(
            files,
            section,
            split,
            shuffle=split == "train",
            memory=machine.memory // LOADERS,
            threads=machine.workers,
            device=device,
        )

    return tuple(map(opened, splits))
