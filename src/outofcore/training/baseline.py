"""What a training process holds beside its data and its model: ``python -m outofcore.training.baseline adamw``.

The interpreter, torch, the trainer, compiled code and its compiler take more than a small model does. What they take
depends on versions and on the machine, so it is measured, with a training of nothing: a model of one number on a store
of 64.
"""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache

from outofcore.errors import ParamsError


@lru_cache
def baseline_bytes(optimizer: str) -> int:
    """Resident bytes of a fresh process at the end of a training of nothing, measured now; takes some seconds.

    Parameters
    ----------
    optimizer
        ``adamw`` or ``adamw8bit``, whose library counts as well.

    Raises
    ------
    ParamsError
        If the optimizer's library is not installed.
    """
    command = [sys.executable, "-m", __name__, optimizer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this interpreter itself
    if done.returncode:
        message = done.stderr.strip().splitlines()[-1].partition(": ")[2]
        raise ParamsError(message)
    return int(done.stdout.split()[-1])


def _measure(optimizer: str) -> int:
    """Train on nothing, and look."""
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
