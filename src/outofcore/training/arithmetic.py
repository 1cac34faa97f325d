"""Arithmetic that gives the same model on every x86-64 processor: one thread, no extensions of the processor."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from outofcore.errors import ParamsError
from outofcore.settings.machine import Machine

# Read by torch, MKL and oneDNN when they are loaded.
PORTABLE = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def with_arithmetic(machine: Machine, arithmetic: str) -> Machine:
    """Apply ``train.arithmetic`` to this process, before torch is imported; returns the machine's settings for it."""
    if arithmetic == "native":
        return machine
    if "torch" in sys.modules and not PORTABLE.items() <= os.environ.items():
        stated = " ".join(f"{name}={value}" for name, value in PORTABLE.items())
        raise ParamsError(
            "train.arithmetic: portable has to be chosen before torch is imported; set native, train with "
            f"'python stages/train.py', or start Python with {stated}"
        )
    os.environ.update(PORTABLE)
    return replace(machine, device="cpu", workers=1)
