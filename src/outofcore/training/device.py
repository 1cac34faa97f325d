"""Choice of the training device."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy

from outofcore.errors import ParamsError
from outofcore.loading.arguments import named_device
from outofcore.training.ranks import Ranks, this_rank


def choose_device(name: str) -> torch.device:
    """The device of a machine setting: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``.

    With several ranks on a machine, each takes the GPU of its number. Raises ParamsError if torch has no such device.
    """
    ranks = this_rank()
    there_is = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(
            kind for kind in ("cuda", "mps", "cpu") if there_is[kind] and not (kind == "mps" and ranks.world > 1)
        )
    device = torch.device(f"cuda:{ranks.local_rank}" if ranks.world > 1 and name.startswith("cuda") else name)
    if not there_is.get(device.type) or (device.index or 0) >= _count(device.type):
        message = f"device is {device}, but torch {torch.__version__} finds no such device here; use cpu or auto"
        raise ParamsError(message)
    return named_device(device) or device


def trainer_options(device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """Device and distribution options of Lightning's trainer."""
    if ranks.world > 1:
        return {
            "accelerator": "gpu" if device.type == "cuda" else device.type,
            "devices": ranks.local_world,
            "num_nodes": ranks.world // ranks.local_world,
            # A batch of one recording does not use the readouts of the others.
            "strategy": DDPStrategy(find_unused_parameters=True),
        }
    if device.type == "cuda":
        return {"accelerator": "gpu", "devices": [device.index or 0]}
    return {"accelerator": device.type, "devices": 1}


def peak_device_bytes(device: torch.device) -> int:
    """Peak memory of tensors on an accelerator; 0 on the CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def _count(kind: str) -> int:
    return torch.cuda.device_count() if kind == "cuda" else 1
