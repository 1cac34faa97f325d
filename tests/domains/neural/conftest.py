"""Recordings with known content, written as users keep them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

BINS = 600


@pytest.fixture
def frames():
    """Frames of 6 x 7 pixels in bins, responses of 3 neurons, trials of 50 bins."""
    generator = np.random.default_rng(5)
    return {
        "stim": generator.integers(0, 256, (BINS, 6, 7)).astype(np.uint8),
        "robs": generator.poisson(0.8, (BINS, 3)).astype(np.float32),
        "trial": np.repeat(np.arange(BINS // 50), 50),
    }


@pytest.fixture
def clocked():
    """Frames at 60 Hz, traces at 31 Hz, behaviour at 100 Hz, spikes, and trials of 2 s with pauses of half a second."""
    generator = np.random.default_rng(6)
    frame_times = 3 + np.arange(BINS) / 60 + generator.uniform(-0.002, 0.002, BINS)
    spikes = np.sort(generator.uniform(2.5, 14, 4000))
    starts = 3.2 + np.arange(3) * 2.5
    return {
        "stim": generator.integers(0, 256, (BINS, 6, 7)).astype(np.uint8),
        "frame_times": frame_times,
        "traces": generator.normal(size=(400, 3)),
        "sample_times": 2.9 + np.arange(400) / 31,
        "running": generator.normal(size=1300),
        "running_times": 2.8 + np.arange(1300) / 100,
        "spike_times": spikes,
        "spike_neurons": generator.integers(0, 4, len(spikes)).astype(np.int16),
        "trials": np.stack([starts, starts + 2], 1),
    }


@pytest.fixture
def write_h5(tmp_path):
    """Write arrays into an HDF5 file and give its path."""

    def write(arrays, name="session.h5", **options):
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            for key, array in arrays.items():
                file.create_dataset(key, data=array, **options.get(key, {}))
        return path

    return write
