"""Measure a training process without data or model.

The interpreter, torch, compiled code and its compiler take more than a small model does, depending on versions and
machine. So it is measured by training a model of one number on a store of 64.
"""

from __future__ import annotations

import atexit
import signal
import subprocess
import sys
from functools import lru_cache

from outofcore.errors import OutOfCoreError, ParamsError

_PROGRAM = """import sys
from outofcore.importing import large_imports
with large_imports():
    from outofcore.training.nothing import main
main(sys.argv[1], int(sys.argv[2]))
"""
_BEGUN: dict[tuple[str, int], subprocess.Popen[str]] = {}


def begin_baseline(optimizer: str, ranks: int = 1) -> None:
    """Begin to measure what :func:`baseline_bytes` then waits for; the process ends with this one."""
    if (optimizer, ranks) in _BEGUN:
        return
    command = [sys.executable, "-c", _PROGRAM, optimizer, str(ranks)]
    process = _BEGUN[optimizer, ranks] = subprocess.Popen(  # noqa: S603 - this interpreter itself
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    atexit.register(_end, process)


def _end(process: subprocess.Popen[str]) -> None:
    if process.returncode is None:
        process.kill()
        process.communicate()


@lru_cache
def baseline_bytes(optimizer: str, ranks: int = 1) -> int:
    """Resident bytes of a fresh process after minimal training as one of ``ranks``, measured now; takes seconds."""
    begin_baseline(optimizer, ranks)
    process = _BEGUN.pop((optimizer, ranks))
    output, errors = process.communicate()
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        message = f"a training of nothing, which measures what a process holds, was ended by {name}; is memory short?"
        raise OutOfCoreError(message)
    if process.returncode:
        kind, _, what = (errors.strip().splitlines() or [""])[-1].partition(": ")
        if kind.endswith(ParamsError.__name__):
            raise ParamsError(what)
        message = f"a training of nothing, which measures what a process holds, failed: {kind}: {what}"
        raise OutOfCoreError(message)
    return int(output.split()[-1])
