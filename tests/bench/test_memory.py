"""Both sides of the comparison of memory read the same windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import memory
import outofcore


def test_the_sides_read_the_same_windows(tmp_path: Path) -> None:
    memory.make(str(tmp_path), 3)
    batches = outofcore.loader(tmp_path / "frames.zarr", "train", memory.BATCH, window=memory.WINDOW, shuffle=False)
    stored = np.concatenate([batch["frames"].numpy() for batch in batches])
    for cache_bytes in (0, memory.BUDGET):
        windows = memory.Windows(str(tmp_path / "frames.h5"), cache_bytes)
        assert len(windows) == len(stored)
        assert all(np.array_equal(windows[index], stored[index]) for index in range(len(windows)))
