"""The sample is converted and a model is fitted to it: what was put in must come out."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch

from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.encoder import SessionShape
from outofcore.domains.neural.model import NeuralTask
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.sample import BIN_WIDTH, LAGS, rates
from tests.domains.neural.rig import convert

NAMES = {
    "stimulus": "stim",
    "frame_times": "frame_times",
    "responses": None,
    "spike_times": "spike_times",
    "spike_neurons": "spike_neurons",
    "trial": "trials",
    "repeat": "film",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("sample")
    DOMAIN.sample(where, np.random.default_rng(1))
    return where


@pytest.fixture(scope="module")
def converted(folder):
    return convert(folder, names=NAMES, bin_width=BIN_WIDTH, response_dtype="uint8")


def test_it_is_the_same_every_time(folder, tmp_path):
    DOMAIN.sample(tmp_path, np.random.default_rng(1))
    for path in sorted(folder.iterdir()):
        again = (tmp_path / path.name).read_bytes()
        assert hashlib.sha256(again).digest() == hashlib.sha256(path.read_bytes()).digest(), path.name
        assert len(again) < 2_000_000


def test_alignment_finds_the_bins_in_which_spikes_were_drawn(folder, converted):
    truth = json.loads((folder / "truth.json").read_text())
    for name, part in converted.parts.items():
        model = truth[name]
        expected = rates(part.rows["stim"], np.array(model["filters"]), np.array(model["bias"]))
        at = np.concatenate([np.arange(each["length"]) for each in part.sequences]) >= LAGS - 1
        counts = part.rows["robs"][at]
        # Spikes drawn from these rates scatter around them as a Poisson count does; a bin off, they would not.
        score = ((counts - expected[at]) ** 2 / expected[at]).mean()
        assert score == pytest.approx(1, abs=0.05)
        shifted = ((counts[1:] - expected[at][:-1]) ** 2 / expected[at][:-1]).mean()
        assert shifted > 1.5
        assert part.rows["robs"].shape[1] == len(model["bias"])


def test_the_known_filters_are_recovered(folder, converted):
    part = converted.parts["monday"]
    model = json.loads((folder / "truth.json").read_text())["monday"]
    filters, bias = np.array(model["filters"]), np.array(model["bias"])
    windows, robs, held = [], [], []
    row = 0
    for each in part.sequences:
        frames = part.rows["stim"][row : row + each["length"]]
        view = np.lib.stride_tricks.sliding_window_view(frames, LAGS, axis=0)
        windows.append(np.moveaxis(view, -1, 1))
        robs.append(part.rows["robs"][row + LAGS - 1 : row + each["length"]])
        held += [each["key"][0] < 50] * len(view)
        row += each["length"]
    stim, robs, held = np.concatenate(windows), np.concatenate(robs), np.array(held)
    section = NeuralSection.model_validate({"raw": "x", "tensors": {"lags": LAGS}})
    shape = SessionShape("monday", stim.shape[2:], 5, 0, tuple(robs[~held].mean(0)), tuple(robs[~held].std(0)))
    torch.manual_seed(0)
    task = NeuralTask((shape,), section)
    optimizer = torch.optim.AdamW(task.parameters(), lr=0.01, weight_decay=0.01)
    generator = np.random.default_rng(0)
    train = np.flatnonzero(~held)

    def batch(index):
        return {
            "stim": torch.from_numpy(stim[index]),
            "robs": torch.from_numpy(robs[index]),
            "dfs": torch.ones(len(index), 5),
        }

    for _ in range(4):
        for index in np.array_split(generator.permutation(train), len(train) // 256):
            loss, count = task.loss(batch(index))
            optimizer.zero_grad()
            (loss / count).backward()
            optimizer.step()

    found = task.encoder.filters()["monday"].numpy()[:, :, 0]
    for recovered, true in zip(found, filters, strict=True):
        assert np.corrcoef(recovered.ravel(), true.ravel())[0, 1] > 0.9

    with torch.no_grad():
        mine = task.summarize(task.evaluate(batch(np.flatnonzero(held))))["bits_per_spike"]
    pixels = ((stim[held].astype(float) - 127) / 255).reshape(held.sum(), -1)
    true_rates = np.logaddexp(0, pixels @ filters.reshape(5, -1).T + bias)
    counts = robs[held]
    gain = (counts * np.log(true_rates) - true_rates).sum() - (counts * np.log(counts.mean(0)) - counts.mean(0)).sum()
    truth = gain / counts.sum() / np.log(2)
    assert truth > 0.4
    assert mine > 0.95 * truth
