"""Where models are trained."""

from __future__ import annotations

from typing import Any

import torch

from outofcore.errors import ParamsError


def choose_device(name: str) -> torch.device:
    """The device of a machine setting: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``.

    Raises
    ------
    ParamsError
        If torch has no such device.
    """
    there_is = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if there_is[kind]))
    device = torch.device(name)
    if not there_is.get(device.type) or (device.index or 0) >= _count(device.type):
        message = f"device is {name}, but torch {torch.__version__} finds no such device here; use cpu or auto"
        raise ParamsError(message)
    return device


def trainer_options(device: torch.device) -> dict[str, Any]:
    """How Lightning's trainer names a device."""
    if device.type == "cuda":
        return {"accelerator": "gpu", "devices": [device.index or 0]}
    return {"accelerator": device.type, "devices": 1}


def peak_device_bytes(device: torch.device) -> int:
    """The most memory that tensors took on an accelerator; 0 on the CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def _count(kind: str) -> int:
    return torch.cuda.device_count() if kind == "cuda" else 1
