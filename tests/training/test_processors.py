"""With portable arithmetic, a training gives the same bytes on other processors, which qemu emulates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from outofcore.training.arithmetic import PORTABLE

PROCESSORS = ("Haswell", "EPYC")
PROGRAM = """
import hashlib
import sys
import torch
from torch import nn
from torch.nn import functional
from outofcore.training.optimizers import make_optimizer

torch.manual_seed(0)
board = [nn.Conv2d(4, 16, 3, padding=1), nn.GroupNorm(8, 16), nn.ReLU(), nn.Flatten()]
model = nn.Sequential(*board, nn.Linear(1024, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))
if sys.argv[1] == "ours":
    optimizer = make_optimizer(model, "adamw", learning_rate=1e-3, weight_decay=0.01)
else:
    optimizer = torch.optim.AdamW(model.parameters())
for _ in range(10):
    loss = functional.cross_entropy(model(torch.randn(32, 4, 8, 8)), torch.randint(10, (32,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest())
"""


def trained(optimizer: str, *emulator: str) -> str:
    """Digest of the weights of a training on this processor, or on an emulated one."""
    environment = {**os.environ, **PORTABLE, "OMP_NUM_THREADS": "1"}
    command = [*emulator, sys.executable, "-c", PROGRAM, optimizer]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-x86_64, of Debian's package qemu-user")
def test_a_training_is_the_same_on_every_processor() -> None:
    emulators = [(), *(("qemu-x86_64", "-cpu", name) for name in PROCESSORS)]
    assert len({trained("ours", *emulator) for emulator in emulators}) == 1
    if len({trained("plain", *emulator) for emulator in emulators}) == 1:
        pytest.skip("this processor rounds square roots as the emulated ones do, so nothing is shown")
