"""Portable arithmetic: set by the process that trains, whatever the machine's settings are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from outofcore.errors import ParamsError
from outofcore.settings.machine import Machine
from outofcore.training.arithmetic import PORTABLE, with_arithmetic

PROGRAM = """
from outofcore.settings.machine import Machine
from outofcore.training.arithmetic import with_arithmetic
machine = with_arithmetic(Machine(workers=2, device="cuda"), "portable")
import torch
print(machine.workers, machine.device, torch.backends.cpu.get_cpu_capability())
"""


def test_the_process_sets_what_makes_a_model_portable() -> None:
    clean = {name: value for name, value in os.environ.items() if name not in PORTABLE}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=clean, capture_output=True, text=True, check=True)
    assert ended.stdout == "1 cpu DEFAULT\n"


def test_once_torch_is_imported_it_must_have_been_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(workers=2, device="cuda")
    assert with_arithmetic(machine, "native") == machine
    for name in PORTABLE:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ParamsError, match="has to be chosen before torch is imported; set native, train with"):
        with_arithmetic(machine, "portable")
    for name, value in PORTABLE.items():
        monkeypatch.setenv(name, value)
    assert with_arithmetic(machine, "portable") == Machine(workers=1, device="cpu")
