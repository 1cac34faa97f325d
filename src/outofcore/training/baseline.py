"""Measure a training process without data or model.

The interpreter, torch, compiled code and its compiler take more than a small model does, depending on versions and
machine. So it is measured by training a model of one number on a store of 64.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import lru_cache

from outofcore.errors import OutOfCoreError, ParamsError


@lru_cache
def baseline_bytes(optimizer: str) -> int:
    """Resident bytes of a fresh process after minimal training, measured now; takes some seconds."""
    command = [sys.executable, "-m", "outofcore.training.nothing", optimizer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this interpreter itself
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        message = f"a training of nothing, which measures what a process holds, was ended by {name}; is memory short?"
        raise OutOfCoreError(message)
    if done.returncode:
        kind, _, what = (done.stderr.strip().splitlines() or [""])[-1].partition(": ")
        if kind.endswith(ParamsError.__name__):
            raise ParamsError(what)
        message = f"a training of nothing, which measures what a process holds, failed: {kind}: {what}"
        raise OutOfCoreError(message)
    return int(done.stdout.split()[-1])
