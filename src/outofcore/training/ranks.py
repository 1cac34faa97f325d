"""The processes that train together: which one this is, and what they agree on.

``torchrun`` starts them and says in the environment who each is; without it there is one. They meet before the loaders
are opened, for a loader asks ``torch.distributed`` which share of each batch is its own.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class Ranks:
    """Who this process is.

    Attributes
    ----------
    rank, world
        Which process of how many, over all machines.
    local_rank, local_world
        Which of how many on this machine.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


def this_rank() -> Ranks:
    """Who this process is, by the environment that ``torchrun`` gives it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Ranks()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return Ranks(*(int(os.environ[name]) for name in names))


def meet(device: torch.device) -> Ranks:
    """Connect to the other ranks, if there are any: by NCCL between GPUs, by gloo between processors."""
    ranks = this_rank()
    if ranks.world > 1 and not distributed.is_initialized():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        atexit.register(_part)
    return ranks


def add_up(values: Tensor) -> Tensor:
    """The sum over all ranks, in place."""
    if _together():
        distributed.all_reduce(values)
    return values


def add_up_each(sums: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """The sums over all ranks of tensors by name; every rank has the same names, and gets the same sums."""
    if not _together():
        return sums
    return {name: add_up(sums[name].to(device)).cpu() for name in sorted(sums)}


def any_of(flag: bool) -> bool:  # noqa: FBT001 - it is what is asked
    """Whether it holds on some rank; waits for all of them, but for no accelerator."""
    return bool(add_up(torch.tensor(int(flag)))) if _together() else flag


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _part() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
