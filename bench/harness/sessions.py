"""Made recordings: six sessions of unequal size, with frames of 36 x 64 uint8, spikes and trials.

Neurons count spikes by how bright the picture is at one place each. A third of the trials shows a natural texture under
a moving eye, a third Gabor noise, a third flickering checks: what compresses little, well, and very well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from outofcore.domains.neural.params import NeuralSection

HEIGHT, WIDTH, LAGS, BATCH = 36, 64, 32, 256
RATE = 60
TRIAL = 600
SHARES = (0.30, 0.24, 0.18, 0.13, 0.09, 0.06)
NEURONS = (24, 40, 12, 18, 30, 8)
POOL_BLOCKS = 16


def make_sessions(folder: str, size: int) -> None:
    """Write the sessions, ``size`` bytes of frames in all."""
    generator = np.random.default_rng(0)
    texture = natural_texture(generator)
    gabors = gabor_noise(generator)
    for number, (share, neurons) in enumerate(zip(SHARES, NEURONS, strict=True)):
        trials = max(3, round(size * share / (HEIGHT * WIDTH * TRIAL)))
        write_session(Path(folder) / f"session_{number}.h5", trials, neurons, texture, gabors, generator)


def make_frames(folder: Path, rows: int, cells: int) -> dict[str, np.ndarray]:
    """Write frames of trials and responses that are noise, as ``.npy`` files."""
    generator = np.random.default_rng(0)
    texture, gabors = natural_texture(generator), gabor_noise(generator)
    folder.mkdir()
    frames = np.lib.format.open_memmap(folder / "frame.npy", "w+", np.uint8, (rows, HEIGHT, WIDTH))
    for trial, start in enumerate(range(0, rows, TRIAL)):
        frames[start : start + TRIAL] = show_trial(trial % 3, texture, gabors, generator)[: rows - start]
    responses = generator.normal(size=(rows, cells)).astype(np.float32)
    np.save(folder / "response.npy", responses)
    return {"frame": frames, "response": responses}


def natural_texture(generator: np.random.Generator) -> np.ndarray:
    """All windows of a picture whose amplitudes fall as 1 / frequency, as those of natural scenes do."""
    side = 512
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij"))
    frequency[0, 0] = np.inf
    phases = generator.normal(size=frequency.shape) + 1j * generator.normal(size=frequency.shape)
    picture = np.fft.irfft2(phases / frequency)
    grey = np.clip(127 + 45 * picture / picture.std(), 0, 255).astype(np.uint8)
    return np.lib.stride_tricks.sliding_window_view(grey, (HEIGHT, WIDTH))


def gabor_noise(generator: np.random.Generator) -> np.ndarray:
    """Frames of eight Gabor patches on grey."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    frames = np.full((1024, HEIGHT, WIDTH), 127.0)
    for frame in frames:
        for top, left, angle, phase in zip(*generator.uniform(size=(4, 8)), strict=True):
            across, down = x - left * WIDTH, y - top * HEIGHT
            wave = np.cos((across * np.cos(angle * np.pi) + down * np.sin(angle * np.pi)) * 0.8 + phase * 2 * np.pi)
            frame += 100 * np.exp(-(across**2 + down**2) / 18) * wave
    return np.clip(frames, 0, 255).astype(np.uint8)


def show_trial(kind: int, texture: np.ndarray, gabors: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The frames of a trial."""
    if kind == 0:
        fixations = generator.integers(0, np.array(texture.shape[:2]) - 12, (TRIAL // 15, 2)).repeat(15, axis=0)
        drift = np.clip(np.cumsum(generator.integers(-1, 2, (TRIAL, 2)), axis=0), 0, 11)
        return texture[tuple((fixations + drift).T)]
    if kind == 1:
        return gabors[generator.integers(0, len(gabors), TRIAL)]
    checks = generator.integers(0, 2, (TRIAL, HEIGHT // 4, WIDTH // 4), np.uint8) * np.uint8(255)
    return checks.repeat(4, axis=1).repeat(4, axis=2)


def write_session(
    path: Path, trials: int, neurons: int, texture: np.ndarray, gabors: np.ndarray, generator: np.random.Generator
) -> None:
    """Frames, spikes of neurons that look at one place each, and the times of all, a trial at a time."""
    top, left = generator.integers(0, HEIGHT - 8, neurons), generator.integers(0, WIDTH - 8, neurons)
    with h5py.File(path, "w") as file:
        stim = file.create_dataset("stim", (trials * TRIAL, HEIGHT, WIDTH), "u1", chunks=(128, HEIGHT, WIDTH))
        times, owners = [], []
        for trial in range(trials):
            frames = show_trial(trial % 3, texture, gabors, generator)
            stim[trial * TRIAL : (trial + 1) * TRIAL] = frames
            bright = np.stack([frames[:, y : y + 8, x : x + 8].mean((1, 2)) for y, x in zip(top, left, strict=True)], 1)
            counts = generator.poisson(0.1 + 0.4 * np.clip((bright - 127) / 60, 0, 2))
            bins, whose = np.nonzero(counts)
            repeats = counts[bins, whose]
            bins, whose = bins.repeat(repeats), whose.repeat(repeats)
            moments = (trial * TRIAL + bins + generator.uniform(0.02, 0.98, len(bins))) / RATE
            order = np.argsort(moments)
            times.append(moments[order])
            owners.append(whose[order].astype(np.int16))
        file["spike_times"], file["spike_neurons"] = np.concatenate(times), np.concatenate(owners)
        file["frame_times"] = np.arange(trials * TRIAL) / RATE
        edges = np.arange(trials + 1) * TRIAL / RATE
        file["trials"] = np.stack([edges[:-1], edges[1:]], 1)


def sessions_section(
    raw: str | Path, codec: str, dtype: str = "uint8", transforms: tuple[Any, ...] = ()
) -> NeuralSection:
    """Params of the made sessions."""
    names = {
        "stimulus": "stim",
        "responses": None,
        "spike_times": "spike_times",
        "spike_neurons": "spike_neurons",
        "frame_times": "frame_times",
        "trial": "trials",
    }
    return NeuralSection.model_validate(
        {
            "raw": str(raw),
            "source": {"names": names, "bin_width": 1 / RATE, "stimulus_dtype": dtype, "response_dtype": "uint8"},
            "splits": {"val": 0.05, "test": 0.02, "seed": 0},
            "store": {"codec": codec},
            "tensors": {"lags": LAGS, "transforms": list(transforms)},
            "train": {"batch_size": BATCH, "max_steps": 60, "pool_blocks": POOL_BLOCKS},
        }
    )
