"""Measure a training process without data or model: ``python -m outofcore.training.baseline adamw``.

The interpreter, torch, the trainer, compiled code and its compiler take more than a small model does, depending on
versions and machine. So it is measured by training a model of one number on a store of 64.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import lru_cache

from outofcore.errors import OutOfCoreError, ParamsError


@lru_cache
def baseline_bytes(optimizer: str) -> int:
    """Resident bytes of a fresh process after minimal training, measured now; takes some seconds.

    ``adamw8bit`` includes its library. Raises ParamsError if that is not installed, OutOfCoreError if the process
    fails.
    """
    command = [sys.executable, "-m", __name__, optimizer]
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


def _measure(optimizer: str) -> int:
    """Run minimal training and measure it."""
    import tempfile
    from pathlib import Path

    import psutil
    import torch

    from outofcore.domains.sections import TrainSection
    from outofcore.store.reader import open_store
    from outofcore.training.fit import fit
    from outofcore.training.loaders import open_loaders
    from outofcore.training.nothing import NothingReading, NothingTask, write_store

    section = TrainSection.model_validate({"batch_size": 32, "optimizer": optimizer})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_store(folder / "store.zarr")
        task = NothingTask()
        loaders = open_loaders(
            open_store(folder / "store.zarr"),
            task,
            NothingReading(),
            section,
            memory=1 << 30,
            residency="streamed",
            device=torch.device("cpu"),
        )
        fit(task, *loaders, section, name="nothing", out=folder, identity={}, device="cpu", threads=1)
        return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    print(_measure(sys.argv[1]))
