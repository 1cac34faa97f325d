"""The sample input: simulated linear-nonlinear-Poisson sessions, with the ground-truth model.

The stimulus is binary white noise. Each neuron filters it in space and time (a Gabor patch in space, two humps of
opposite sign in time), a softplus turns the sum into a rate, and spikes are drawn from it. Spikes fall anywhere in
their bin; the frame clock has a jitter of a millisecond.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes, Doubles

BIN_WIDTH = 1 / 60
LAGS = 5
FRAMES = 18_360
TRIAL_FRAMES = 330
# Frames between trials belong to no trial.
PAUSE_FRAMES = 10
# One trial in this many repeats one of two films.
FILM_EVERY = 4


@dataclass(frozen=True)
class Design:
    """One session."""

    name: str
    height: int
    width: int
    neurons: int
    start: float  # seconds at which its clock starts


DESIGNS = (
    Design("monday.h5", 6, 8, 5, 3.2),
    Design("tuesday.h5", 8, 6, 4, 71.05),
    Design("wednesday.npz", 7, 7, 4, 0.4),
)


def _write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Like ``np.savez_compressed``, whose headers differ between Python releases."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy")  # a fixed date in 1980
            archive.writestr(member, content.getvalue(), zipfile.ZIP_DEFLATED)


def write_sample(folder: Path, generator: np.random.Generator) -> None:
    """Write two HDF5 sessions, a compressed .npz, and ``truth.json`` with the model of each session."""
    truth = {}
    for design in DESIGNS:
        filters, bias = make_filters(design, generator)
        session = simulate(design, filters, bias, generator)
        path = folder / design.name
        if path.suffix == ".h5":
            with h5py.File(path, "w") as file:
                for name, array in session.items():
                    file.create_dataset(name, data=array, compression="gzip" if name == "stim" else None)
        else:
            _write_npz(path, session)
        truth[path.stem] = {"bin_width": BIN_WIDTH, "filters": filters.round(6).tolist(), "bias": bias.tolist()}
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")


def make_filters(design: Design, generator: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Filters (neurons, lags, height, width), lags in order of time, for pixels (x - 127) / 255; and biases."""
    y, x = np.mgrid[: design.height, : design.width].astype(np.float64)
    filters = np.empty((design.neurons, LAGS, design.height, design.width))
    for neuron in range(design.neurons):
        top, left = (generator.uniform(0.3, 0.7) * (size - 1) for size in (design.height, design.width))
        angle, phase = generator.uniform(0, np.pi), generator.uniform(0, 2 * np.pi)
        along = (x - left) * np.cos(angle) + (y - top) * np.sin(angle)
        space = np.exp(-((x - left) ** 2 + (y - top) ** 2) / (2 * 1.5**2)) * np.cos(2 * np.pi * along / 5 + phase)
        lag = np.arange(LAGS)[::-1]
        time = np.exp(-((lag - 1) ** 2) / 0.8) - 0.6 * np.exp(-((lag - 3) ** 2) / 0.8)
        whole = time[:, None, None] * space
        # Pixels are 127 / 255 or more apart from 0 by turns: this norm gives the sum a standard deviation of 1.8.
        filters[neuron] = whole * 3.6 / np.linalg.norm(whole)
    return filters.round(6), generator.uniform(-0.6, 0.2, design.neurons).round(6)


def rates(frames: Bytes, filters: Doubles, bias: Doubles) -> Doubles:
    """Expected spikes per bin, (bins, neurons); black frames precede the first."""
    pixels = (frames.astype(np.float64) - 127) / 255
    lags = filters.shape[1]
    padded = np.concatenate([np.full((lags - 1, *pixels.shape[1:]), -127 / 255), pixels]).reshape(
        len(pixels) + lags - 1, -1
    )
    drive = np.zeros((len(pixels), len(filters))) + bias
    for lag in range(lags):
        drive += padded[lag : lag + len(pixels)] @ filters[:, lag].reshape(len(filters), -1).T
    return np.logaddexp(0, drive)


def simulate(
    design: Design, filters: Doubles, bias: Doubles, generator: np.random.Generator
) -> dict[str, npt.NDArray[Any]]:
    """A recorded session: frames and spikes with their times, trials, and which of them show a film."""
    frames = generator.integers(0, 2, (FRAMES, design.height, design.width), np.uint8) * np.uint8(255)
    starts = np.arange(0, FRAMES, TRIAL_FRAMES + PAUSE_FRAMES)
    starts = starts[starts + TRIAL_FRAMES <= FRAMES]
    shown = np.full(len(starts), -1)
    shown[FILM_EVERY - 1 :: FILM_EVERY] = np.arange(len(shown[FILM_EVERY - 1 :: FILM_EVERY])) % 2
    films = generator.integers(0, 2, (2, TRIAL_FRAMES, design.height, design.width), np.uint8) * np.uint8(255)
    for start, film in zip(starts.tolist(), shown.tolist(), strict=True):
        if film >= 0:
            frames[start : start + TRIAL_FRAMES] = films[film]
    counts = generator.poisson(rates(frames, filters, bias))
    bins, neurons = np.nonzero(counts)
    repeats = counts[bins, neurons]
    bins, neurons = bins.repeat(repeats), neurons.repeat(repeats)
    times = design.start + (bins + generator.uniform(0.02, 0.98, len(bins))) * BIN_WIDTH
    order = np.argsort(times, kind="stable")
    tremble = generator.uniform(-0.001, 0.001, FRAMES)
    tremble[0] = 0
    edges = design.start + np.stack([starts, starts + TRIAL_FRAMES], axis=1) * BIN_WIDTH
    return {
        "stim": frames,
        "frame_times": design.start + np.arange(FRAMES) * BIN_WIDTH + tremble,
        "spike_times": times[order],
        "spike_neurons": neurons[order].astype(np.int32),
        "trials": edges,
        "film": shown.astype(np.int32),
    }
