"""A trained model on a split that it was not chosen by: what programs, the command line and the stages call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from outofcore.checks import one_of
from outofcore.domains.domain import Domain
from outofcore.domains.splits import SPLITS
from outofcore.errors import ParamsError, StoreError
from outofcore.loading.arguments import named_device
from outofcore.models import load_model
from outofcore.settings.machine import Machine, load_machine
from outofcore.settings.yaml_text import parse_json
from outofcore.store.connection import is_address
from outofcore.store.joined import check_stores
from outofcore.store.opening import open_data
from outofcore.store.reader import Store
from outofcore.training import evaluation
from outofcore.training.loaders import open_split, open_streams
from outofcore.training.ranks import choose_device
from outofcore.training.results import load_weights, model_digest, model_file, read_model, split_digest


def evaluate(
    model: str | Path,
    store: Store | str | Path,
    other: Store | str | Path | None = None,
    /,
    *,
    split: str = "test",
    device: str | None = None,
    network: type[torch.nn.Module] | None = None,
) -> dict[str, Any]:
    """Read a split once with a trained model, as a project's stage does; nothing is written.

    ::

        outofcore.train("chess.zarr", "runs/first")
        outofcore.evaluate("runs/first", "chess.zarr")["top1"]

    Parameters
    ----------
    model
        The folder of a run or a model, as for :func:`outofcore.load_model`.
    store
        The store that it was trained on.
    other
        Another store with the same fields, whose split is read instead.
    split
        ``"test"``, or another one.
    device
        Where the model computes; by default that of the machine's settings, or the best there is.
    network
        The class of the network, if it is one of your own, as for :func:`outofcore.load_model`.

    Returns
    -------
    dict
        The figures of ``train.json`` for this split; ``low`` and ``high``, the ends of their 95 % confidence intervals
        by name; ``sequences`` read; digests of the split and the model.

    Raises
    ------
    ParamsError
        If the store is not that of the model's training, or the split has no sample.
    StateError
        If there is no model, or a damaged one.
    StoreError
        If there is no store, or the other one has other fields.
    """
    one_of("split", split, SPLITS)
    trained, file, trained_on = load_model(model, network=network), model_file(Path(model)), open_data(store)
    domain, section = trained.domain, trained.section.model_copy(update={"evaluate": other})
    if trained_on.digest != parse_json(read_model(file)["identity"])["store"]:
        raise ParamsError(
            f"{trained_on.root}: expected the store that {file} was trained on, got another; name that one first, and "
            "then the store to read"
        )
    machine = load_machine()
    if device is not None:
        machine = replace(machine, device=str(named_device(device)))
    read = open_evaluated(domain, section, trained_on)
    figures = evaluate_split(domain, section, trained_on, read, file.parent, machine, split)
    if "model" not in figures:
        raise ParamsError(f"{read.root}: expected a sample in the {split} split, got none; {more_of(domain, split)}")
    return figures


def more_of(domain: Domain, split: str) -> str:
    """What to do where a split has no sample."""
    return f"convert it with a larger {domain.name}.splits.{split}"


def evaluate_split(
    domain: Domain, section: Any, store: Store, read: Store, folder: Path, machine: Machine, split: str
) -> dict[str, Any]:
    """The figures of the model in a folder, which was trained on ``store``, on a split of ``read``; few if it is empty.

    A stream is read from the raw files that ``store`` lists.
    """
    device, streamed = choose_device(machine.device), domain.streamed(section)
    torch.set_num_threads(machine.workers)
    sequences = [len(read.sequences(split, part)) for part in read.parts]
    counts = {} if streamed else {"sequences": sum(sequences)}
    if not streamed and not sum(sequences):
        return counts
    task = domain.task(store, section, read, split)
    load_weights(task, folder)
    batches: Any
    if streamed:
        (batches,) = open_streams(domain, section, store, machine, device, (split,))
        task.tally = batches.tally
        sequences = [len(batches)]
    else:
        reading = domain.reading(store.attributes, section)
        of_split: dict[str, Any] = {"shuffle": False, "columns": ("sequence",)}
        batches = open_split(read, task, reading, section.train, machine, device, split, **of_split)
    mixed = section.train.precision == "bf16-mixed"
    figures = evaluation.evaluate(task.to(device), batches, sequences, micro_batch=machine.micro_batch, mixed=mixed)
    if not figures:
        return counts
    return {**figures, **counts, f"{split}_digest": split_digest(read, split), "model": model_digest(task.state_dict())}


def open_evaluated(domain: Domain, section: Any, store: Store) -> Store:
    """The store whose test split evaluates a model that was trained on ``store``: itself, or that of ``evaluate``."""
    fixed = store if section.evaluate is None else open_data(section.evaluate)
    if fixed.digest == store.digest:
        return store
    if domain.streamed(section):
        raise ParamsError(
            f"{domain.name}.evaluate: expected {store.root} in mode stream, which evaluates on the raw files"
        )
    check_stores([store, fixed])
    needed = domain.reading(store.attributes, section).fields
    stored = [set(fixed.rows("test", part).fields) for part in fixed.parts]
    lacking = sorted({name for name in needed for fields in stored if name not in fields})
    if lacking:
        raise ParamsError(
            f"{domain.name}.evaluate: {section.evaluate} holds no {lacking[0]}, which {domain.name}.tensors reads; "
            "convert it again with the settings of source that the model was trained with"
        )
    return fixed


def check_evaluated(domain: Domain, section: Any, store: Store) -> None:
    """Raise what :func:`open_evaluated` would, unless the store of ``evaluate`` is not here, as before 'dvc pull'."""
    try:
        open_evaluated(domain, section, store)
    except StoreError:
        if is_address(section.evaluate) or Path(section.evaluate).exists():
            raise
