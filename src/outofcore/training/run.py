"""A training from a store to the files of a model: what programs, the command line and the stages call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from outofcore.domains.domain import Domain
from outofcore.domains.own_network import allow_network
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError
from outofcore.loading.arguments import named_device
from outofcore.params import by_section, refuse_settings, section_of_store
from outofcore.project.code import training_code
from outofcore.settings.machine import Machine, load_machine
from outofcore.space.forecast import training_needs
from outofcore.space.guard import KEPT_CHECKPOINT, Guard
from outofcore.space.links import Commit
from outofcore.store.opening import open_data
from outofcore.store.reader import Store
from outofcore.system.durable import write_file, write_json
from outofcore.training.arithmetic import with_arithmetic
from outofcore.training.loaders import open_loaders, open_streams
from outofcore.training.loop import fit
from outofcore.training.ranks import choose_device, meet
from outofcore.training.results import identity_of, saved_bytes, split_digest

Tell = Callable[..., None]
"""Takes lines for the user."""
# Names the folder of a run as ours, so that its files may be replaced.
MARK = "outofcore-run"


def train(
    store: Store | str | Path,
    out: str | Path,
    /,
    *,
    params: str | Path | None = None,
    device: str | None = None,
    tell: Tell | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train the model of a store's domain, as a project's stage does, into a folder.

    ::

        outofcore.train("chess.zarr", "runs/first", preset="small", max_steps=1000)
        outofcore.load_model("runs/first/models/chess").predict("game.pgn")

    A run that was stopped resumes when it is called again with the same arguments. It may be started on several ranks
    by ``torchrun``.

    Parameters
    ----------
    store
        A sealed store of one of the domains, or its folder or address.
    out
        A new or empty folder for ``models/<domain>``, ``metrics/<domain>`` and ``plots/<domain>``, or that of an
        earlier run, whose files are replaced.
    params
        A params file whose section of the domain holds the settings; None for the defaults of the domain.
    device
        Where to train, such as ``"cuda"``; by default that of the machine's settings, or the best there is.
    tell
        Called with lines about the run, on the first rank, such as ``print``.
    **settings
        Settings under ``train`` or ``tensors`` of the domain by name, or these sections, each a mapping. ``network``
        may be a class: a ``torch.nn.Module`` of your own.

    Returns
    -------
    dict
        Steps, parameters, and the figures of the last validation, as in ``metrics/<domain>/train.json``.

    Raises
    ------
    ParamsError
        If the store has no domain with a model, a setting is unknown, out of range or refused by the data, or the
        folder has other files than those of a run.
    SpaceError
        If the disk has too little room.
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, once the current step is finished and saved.
    """
    source = open_data(store)
    if source.domain not in DOMAINS or not source.seal.files:
        came = repr(source.domain) if source.seal.files else "data without a seal"
        raise ParamsError(
            f"{source.root}: expected a sealed store of {', '.join(DOMAINS)}, got {came}; training needs one that "
            f"'outofcore convert' made; for a model of your own, outofcore.loader({str(source.root)!r}, ...) reads it "
            "in a program"
        )
    domain = get_domain(source.domain)
    if isinstance(settings.get("network"), type):
        settings["network"] = allow_network(settings["network"])
    refuse_settings("train()", settings, mode="for projects; outofcore.stream reads raw text")
    given = by_section(domain.name, ("train", "tensors"), settings)
    section, machine = section_of_store(source.attributes, domain.name, "train()", params, given), load_machine()
    if device is not None:
        machine = replace(machine, device=str(named_device(device)))
    domain.check_trainable(section, source)
    _mark(Path(out))
    return run(domain, section, source, with_arithmetic(machine, section.train.arithmetic), Path(out), tell)


def _mark(out: Path) -> None:
    """Make the folder of a run ours; raises ParamsError if it is somebody else's."""
    mark = out / MARK
    if mark.is_file():
        return
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise ParamsError(
            f"{out}: expected a new or empty folder, or that of an earlier run ({MARK} in it), got something else; "
            "nothing was touched: name another folder"
        )
    write_file(mark, b"models, metrics and plots of this folder are replaced by outofcore.train\n")


def run(
    domain: Domain,
    section: Any,
    store: Store,
    machine: Machine,
    out: Path,
    tell: Tell | None = None,
    commit: Commit | None = None,
    processes: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Train into ``models``, ``metrics`` and ``plots`` of a folder; ``commit`` says what DVC will do with the model.

    ``processes`` are those of an earlier run that is made again.
    """
    name, device = domain.name, choose_device(machine.device)
    ranks = meet(device)  # before the task is made, whose notes come from the first rank
    tell = (None if ranks.rank else tell) or (lambda *_: None)
    tell(f"{name}: device {device}")
    if section.train.arithmetic == "portable":
        tell(f"{name}: {name}.train.arithmetic is portable: one thread on the CPU; native uses the whole machine")
        torch.set_num_threads(1)
    torch.manual_seed(section.train.seed)
    task = domain.task(store, section)
    if section.train.arithmetic == "native" and device.type == "cpu":
        # Convolutions take half to nine tenths of the time. The types of torch lack this overload.
        task.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model, metrics = out / "models" / name, out / "metrics" / name
    identity, saved = identity_of(store, section), saved_bytes(task, section.train.optimizer)
    guard = Guard(name, machine.disk_margin, machine.disk_reserve, KEPT_CHECKPOINT)
    guard.require(training_needs(model, out / "plots" / name, *saved, commit))
    streamed = domain.streamed(section)
    if streamed:
        train, val = open_streams(domain, section, store, machine, device)
        task.tally = val.tally
    else:
        reading = domain.reading(store.attributes, section)
        train, val = open_loaders(store, task, reading, section.train, machine, device)
        tell(*train.notes, *val.notes)
    if not ranks.rank:
        (metrics / "test.json").unlink(missing_ok=True)  # of another model
    with guard.writing(model):
        figures = fit(
            task,
            train,
            val,
            section.train,
            name=name,
            out=out,
            identity=identity,
            code=training_code(domain, section),
            device=str(device),
            micro_batch=machine.micro_batch,
            threads=machine.workers,
            facts={"val_digest": split_digest(store, "val")},
            place=str(store.root),
            processes=processes,
        )
    if streamed and not ranks.rank:
        write_json(metrics / "stream_run.json", train.tally.figures())
    return figures
