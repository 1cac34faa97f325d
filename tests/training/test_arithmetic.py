"""Portable arithmetic: set by the process that trains, whatever the machine's settings are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from outofcore.training.arithmetic import PORTABLE

PROGRAM = """
import sys
from outofcore.machine import Machine
from outofcore.training.arithmetic import with_arithmetic
{before}
machine = with_arithmetic(Machine(workers=2, device="cuda"), "{arithmetic}")
import torch
torch.set_num_threads(machine.workers)
x = torch.randn(64, 3000, generator=torch.Generator().manual_seed(0))
sums = (x @ x.T).numpy().tobytes()
print(machine.workers, machine.device, torch.backends.cpu.get_cpu_capability(), hash(sums))
"""


def run(arithmetic: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in PORTABLE}
    command = [sys.executable, "-c", PROGRAM.format(arithmetic=arithmetic, before=before)]
    setting = {**clean, "PYTHONHASHSEED": "0", **environment}
    return subprocess.run(command, env=setting, capture_output=True, text=True, check=False)


def test_the_process_sets_what_makes_a_model_portable() -> None:
    plain, prepared = run("portable").stdout, run("portable", "import torch", **PORTABLE).stdout
    assert plain.startswith("1 cpu DEFAULT ")
    assert plain == prepared
    assert run("native").stdout.startswith("2 cuda ")


def test_it_is_refused_in_one_line_once_torch_is_imported() -> None:
    ended = run("portable", "import torch")
    assert "has to be chosen before torch is imported; set native, train with" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("script", ["train", "evaluate"])
def test_stages_import_torch_after_it_is_chosen(script: str) -> None:
    code = f"import runpy, sys; runpy.run_path('stages/{script}.py'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
