"""The processes that train together, the device of each, and their collective operations.

``torchrun`` starts them and sets their ranks in the environment; without it there is one. They must connect before the
loaders are opened, as a loader asks ``torch.distributed`` for its share of each batch.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, distributed

from outofcore.errors import ParamsError, StateError
from outofcore.loading.arguments import named_device


@dataclass(frozen=True)
class Ranks:
    """Rank of this process, over all machines and locally."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


def this_rank() -> Ranks:
    """Rank of this process, from ``torchrun``'s environment."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Ranks()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return Ranks(*(int(os.environ[name]) for name in names))


def choose_device(name: str) -> torch.device:
    """The device of a machine setting; with several ranks on a machine, each takes the GPU of its number."""
    ranks = this_rank()
    there_is = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(
            kind for kind in ("cuda", "mps", "cpu") if there_is[kind] and not (kind == "mps" and ranks.world > 1)
        )
    device = torch.device(f"cuda:{ranks.local_rank}" if ranks.world > 1 and name.startswith("cuda") else name)
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if not there_is.get(device.type) or (device.index or 0) >= count:
        raise ParamsError(
            f"device is {device}, but torch {torch.__version__} finds no such device here; use cpu or auto"
        )
    return named_device(device) or device


def meet(device: torch.device) -> Ranks:
    """Connect to the other ranks, if any: by NCCL between GPUs, by gloo between CPUs."""
    ranks = this_rank()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if ranks.world > 1 and not distributed.is_initialized():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        atexit.register(_part)
    return ranks


def add_up(values: Tensor) -> Tensor:
    """Sum over all ranks, in place."""
    if _several_ranks():
        distributed.all_reduce(values)
    return values


def add_up_each(sums: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Sums over all ranks of tensors by name; all ranks have the same names and get the same sums."""
    if not _several_ranks():
        return sums
    return {name: add_up(sums[name].to(device)).cpu() for name in sorted(sums)}


def any_of(flag: bool) -> bool:  # noqa: FBT001 - the tested condition
    """Whether it holds on any rank; waits for all ranks, but not for an accelerator."""
    return bool(add_up(torch.tensor(int(flag)))) if _several_ranks() else flag


def refuse_other_steps(step: int, folder: Path) -> None:
    """Raise StateError, on all ranks, unless all of them resume at the same step."""
    if not _several_ranks():
        return
    steps = [torch.zeros((), dtype=torch.int64) for _ in range(distributed.get_world_size())]
    distributed.all_gather(steps, torch.tensor(step))
    if other := [(rank, int(other_step)) for rank, other_step in enumerate(steps) if int(other_step) != int(steps[0])]:
        raise StateError(
            f"{folder}: rank 0 resumes at step {int(steps[0])}, rank {other[0][0]} at step {other[0][1]}; expected a "
            "folder that all ranks share: put the project on a shared filesystem, or remove this folder on every host "
            "to train from the start"
        )


def _several_ranks() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _part() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
