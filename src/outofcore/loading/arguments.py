"""Stores, readings, budgets, devices and ranks as arguments name them; a wrong one is named in a one-line error."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from inspect import signature

import torch
import torch.distributed

from outofcore.checks import refuse, shown, whole, word
from outofcore.errors import ParamsError
from outofcore.order.batching import Batching, Last
from outofcore.order.plain import Shuffle
from outofcore.params import settings_named
from outofcore.settings.sizes import parse_bytes
from outofcore.store.opening import open_data
from outofcore.store.reader import Store
from outofcore.store.token_files import open_tokens

# What other libraries call it, and what it is here.
_ELSEWHERE = {
    "balanced": "write shuffle=outofcore.Balanced(...)",
    "collate_fn": "map= is a function of each batch",
    "drop_last": "write last='drop'",
    "fields": "write tensors={value}",
    "generator": "write seed=",
    "label": "loader(...).mixing(column) measures how well labels mix",
    "num_workers": "a loader has threads of its own, of which threads= sets the number",
    "persistent_workers": "a loader keeps its threads",
    "phase": "write window={{'length': ..., 'phase': {value}}}",
    "pin_memory": "write device='cuda', and batches arrive there",
    "prefetch_factor": "memory= decides how much is read ahead",
    "sampler": "write shuffle=, such as outofcore.Weighted(column); ZarrDataset in a DataLoader takes any sampler",
    "seq_len": "write window={{'length': ..., 'stride': ...}}",
    "stop": "write shuffle=outofcore.Mixture(weights, stop={value})",
    "transform": "map= is a function of each batch",
    "weighted": "write shuffle=outofcore.Weighted(column)",
    "weights": "write shuffle=outofcore.Mixture({value})",
    "workers": "a loader has threads of its own, of which threads= sets the number",
}

# Number of ranks and own rank, as torchrun and accelerate, Open MPI, and SLURM's srun set them for each process.
_LAUNCHED = (
    ("WORLD_SIZE", "RANK"),
    ("WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)


def refuse_unknown(where: str, known: Sequence[str], arguments: Mapping[str, object], domains: Sequence[str]) -> None:
    """Raise ParamsError for the first argument that there is not, with what may be meant.

    ``domains`` are those of the stores, whose settings some look for here.
    """
    for name, value in arguments.items():
        sections = {section for domain in domains for section in settings_named(name, domain)}
        close = difflib.get_close_matches(name, known, n=1)
        hint = ""
        if "tensors" in sections:
            hint = f"write tensors=outofcore.reading(store, {name}={shown(value, 40)})"
        elif name in _ELSEWHERE:
            hint = _ELSEWHERE[name].format(value=shown(value, 40))
        elif taker := _taker_of(name):
            hint = taker.format(f"{name}={shown(value, 40)}")
        elif "filters" in sections:
            hint = "a conversion filters, outofcore.convert(..., filters={...}); where= selects from a store"
        elif close:
            hint = f"did you mean {close[0]!r}?"
        if (written := re.match(r"write (\w+)=", hint)) and written[1] not in known:
            hint += " in outofcore.loader(...)"
        raise ParamsError(f"{where}: unknown argument {name!r}{f'; {hint}' if hint else ''}")


def _taker_of(name: str) -> str:
    """What to write where another function or object has a parameter of this name; "" if none has."""
    from outofcore.store.foreign import open_zarr  # late: sealed stores are read without zarr

    if name in {field.name for field in fields(Shuffle)}:
        return "write shuffle=outofcore.Shuffle({})"
    openers = [opener.__name__ for opener in (open_zarr, open_tokens) if name in [*signature(opener).parameters][1:]]
    others = "".join(f" or {opener}(...)" for opener in openers[1:])
    return f"write outofcore.{openers[0]}(path, {{}}){others} for the path" if openers else ""


def opened_all(value: object, fields: Sequence[str] | None = None) -> tuple[Store, ...]:
    """One store or several, as :func:`open_data` opens them."""
    if not isinstance(value, list | tuple):
        return open_data(value, fields).stores
    if not value:
        refuse("data", "at least one store", value)
    return tuple(open_data(source, fields) for source in value)


def opened_sources(value: object, fields: Sequence[str] | None = None) -> dict[str, tuple[Store, ...]]:
    """Stores by the source of a mixture; those of a single one, without a name, unless a mapping is given."""
    sources = value if isinstance(value, Mapping) else {"": value}
    if not sources:
        refuse("data", "at least one source", value)
    return {word("data, the name of a source", name): opened_all(source, fields) for name, source in sources.items()}


def budget_bytes(memory: str | int) -> int:
    """Bytes of a budget such as ``"256MiB"``; raises ParamsError if invalid."""
    try:
        return parse_bytes(memory)
    except ValueError as error:
        raise ParamsError(f"memory: {error}") from error


def named_device(device: object) -> torch.device | None:
    """A device with its index: ``cuda`` becomes ``cuda:0``, as in tensors; raises ParamsError if it is not here."""
    if device is None:
        return None
    expected = "a device of this machine, such as cpu, cuda:0 or mps"
    if not isinstance(device, str | torch.device):
        refuse("device", expected, device)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch: one per kind of device
        refuse("device", expected, str(device), error)


def batching_of(size: int, last: Last, rank: int | None, world: int | None) -> Batching:
    """The batches of a rank; by default of this process among those of ``torch.distributed``."""
    if (rank is None) != (world is None):
        raise ParamsError(f"rank and world_size go together, got rank {rank} of {world}")
    if rank is None or world is None:
        here = torch.distributed.is_available() and torch.distributed.is_initialized()
        started = next((os.environ[size] for size, own in _LAUNCHED if {size, own} <= os.environ.keys()), "1")
        if not here and started != "1":
            raise ParamsError(
                f"expected torch.distributed to be initialised before the loader is opened, got one of {started} ranks "
                "without it, and each would read all samples; initialise it first, or give rank and world_size"
            )
        rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if here else (0, 1)
    rank, world = whole("rank", rank, 0), whole("world_size", world, 1)
    if rank >= world:
        raise ParamsError(f"ranks count from 0 and are fewer than world_size, got rank {rank} of {world}")
    if size < world:
        raise ParamsError(
            f"batch_size counts over all ranks and must be at least one sample for each, got {size} on {world} ranks"
        )
    return Batching(size=size, last=last, rank=rank, world=world)
