"""How much memory does an epoch of frames take: the loader in a budget, and a DataLoader with eight workers?

    python bench/memory.py --gigabytes 4

Frames of trials are made up and written as one HDF5 file, uncompressed, and as a store. Each side reads an epoch of
shuffled windows of 32 frames in batches of 64, in a process of its own. At every hundredth of the epoch, the memory of
the process and its children is read: their anonymous and shared pages, each counted once, beyond those after a first
batch that was thrown away. The ``DataLoader`` reads the HDF5 file with ``h5py``, opened in each worker: either the 32
frames of a window alone, or the whole trial, and a worker then keeps 256 MiB of the trials it used last.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from harness.results import Row, arguments, save
from harness.sessions import HEIGHT, TRIAL, WIDTH, gabor_noise, natural_texture, show_trial
from harness.sides import memory_used, once, tell
from outofcore.arrays import write_store
from outofcore.loading.loader import loader

LENGTH, BATCH, WORKERS, BUDGET = 32, 64, 8, 256 << 20
WINDOWS = TRIAL // LENGTH  # of a trial; the rest of its frames is left out
WINDOW = {"length": LENGTH, "stride": LENGTH, "mode": "never"}
POINTS = 100
CACHES = "DataLoader, 8 workers, a cache of 256 MiB each"
Batches = Callable[[], Iterator[Any]]


class Windows(Dataset[torch.Tensor]):
    """Windows of an HDF5 file, whose trials a worker keeps within a number of bytes."""

    def __init__(self, path: str, cache_bytes: int) -> None:
        self.path, self.cache_bytes = path, cache_bytes
        with h5py.File(path) as file:
            self.trials = len(file["frames"]) // TRIAL
        self.frames: Any = None

    def __len__(self) -> int:
        return self.trials * WINDOWS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.frames is None:  # in the worker: HDF5 files cannot be shared by processes
            self.frames = h5py.File(self.path)["frames"]
            self.trial = lru_cache(self.cache_bytes // (TRIAL * HEIGHT * WIDTH))(self._trial)
        trial, window = divmod(index, WINDOWS)
        start = window * LENGTH
        if not self.cache_bytes:
            return torch.from_numpy(self.frames[trial * TRIAL + start : trial * TRIAL + start + LENGTH])
        return torch.from_numpy(self.trial(trial)[start : start + LENGTH])

    def _trial(self, number: int) -> np.ndarray[Any, Any]:
        frames: np.ndarray[Any, Any] = self.frames[number * TRIAL : (number + 1) * TRIAL]
        return frames


def streamed(path: str) -> list[tuple[float, float]]:
    """The loader."""

    def batches() -> Any:
        return loader(path, "train", BATCH, window=WINDOW, memory=BUDGET)

    return measured(lambda: iter(batches()), len(batches()))


def loaded(path: str, cache_bytes: int) -> list[tuple[float, float]]:
    """A DataLoader of torch."""
    batches = DataLoader(Windows(path, cache_bytes), BATCH, shuffle=True, num_workers=WORKERS)
    return measured(lambda: iter(batches), len(batches))


def measured(batches: Batches, count: int) -> list[tuple[float, float]]:
    """Memory over an epoch: the share of it that was read, and MB."""
    torch.set_num_threads(1)
    next(batches())  # what is imported and compiled does not count
    gc.collect()
    before, _ = memory_used()
    steps = {round(count * point / POINTS) for point in range(1, POINTS + 1)}
    curve = [(0.0, 0.0)]
    for step, _ in enumerate(batches(), start=1):
        if step in steps:
            curve.append((round(step / count, 4), round((memory_used()[0] - before) / 1e6, 1)))
    return curve


def make(folder: str, trials: int) -> None:
    """The frames as HDF5 and as a store."""
    generator = np.random.default_rng(0)
    texture, gabors = natural_texture(generator), gabor_noise(generator)
    with h5py.File(f"{folder}/frames.h5", "w") as file:
        frames = file.create_dataset("frames", (trials * TRIAL, HEIGHT, WIDTH), "u1")
        for trial in range(trials):
            frames[trial * TRIAL : (trial + 1) * TRIAL] = show_trial(trial % 3, texture, gabors, generator)
        write_store(f"{folder}/frames.zarr", {"frames": frames}, lengths=[TRIAL] * trials)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--gigabytes", type=float, default=4, help="of frames")
    given = parser.parse_args()
    trials = round(given.gigabytes * 1e9 / (TRIAL * HEIGHT * WIDTH))
    with tempfile.TemporaryDirectory() as folder:
        tell("making frames")
        once(make, folder=folder, trials=trials)
        curves = {}
        for name, function, options in (
            ('outofcore, memory="256MiB"', streamed, {"path": f"{folder}/frames.zarr"}),
            ("DataLoader, 8 workers, no cache", loaded, {"path": f"{folder}/frames.h5", "cache_bytes": 0}),
            (CACHES, loaded, {"path": f"{folder}/frames.h5", "cache_bytes": BUDGET}),
        ):
            tell(name)
            curves[name] = once(function, **options)
    rows = []
    for name, curve in curves.items():
        held = [size for _, size in curve]
        rows += [
            Row(label=name, value=round(max(held)), of="at most", unit="MB held", table="memory"),
            Row(label=name, value=round(held[-1]), of="at the end", unit="MB held", table="memory"),
        ]
    facts = [
        f"{trials * TRIAL:,} frames of {HEIGHT} x {WIDTH}, {trials * TRIAL * HEIGHT * WIDTH / 1e9:.1f} GB",
        f"an epoch of {trials * WINDOWS:,} shuffled windows of {LENGTH} frames, in batches of {BATCH}",
        f"read {POINTS} times",
    ]
    versions = {"h5py": h5py.__version__}
    save(given.out, "memory", "memory over an epoch", rows, facts=facts, details={"curves": curves}, versions=versions)


if __name__ == "__main__":
    main()
