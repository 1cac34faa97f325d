"""The rank of this process, of those that read a split."""

from __future__ import annotations

import os

import torch.distributed

from outofcore.checks import whole
from outofcore.errors import ParamsError
from outofcore.order.batching import Batching, Last

# Number of ranks and own rank, as torchrun and accelerate, Open MPI, and SLURM's srun set them for each process.
_LAUNCHED = (
    ("WORLD_SIZE", "RANK"),
    ("WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)


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
