"""The sample is converted and a model is fitted to it: what was put in must come out."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from outofcore.domains.neural import DOMAIN
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
