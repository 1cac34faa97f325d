from __future__ import annotations

import numpy as np
import pytest
import torch

from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection, TensorSection
from outofcore.domains.neural.tensors import cast_frames, prepare
from outofcore.domains.neural.transforms import encode


def attributes(dtype="uint8", behavior=None, responses="float32"):
    source = {"stimulus_dtype": dtype, "response_dtype": responses, "names": {"stimulus": "stim", "behavior": behavior}}
    return {"params": {"source": source}}


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    return {
        "stim": generator.integers(0, 256, (8, 5, 6, 7)).astype(np.uint8),
        "robs": generator.poisson(1, (8, 5, 3)).astype(np.float32),
        "dfs": generator.integers(0, 2, (8, 5, 3)).astype(np.uint8),
        "condition": generator.integers(-1, 9, (8, 5)).astype(np.int32),
        "behavior": generator.normal(size=(8, 5, 2)).astype(np.float32),
    }


def test_frames_stay_narrow_and_responses_are_of_the_last_bin(rows):
    reading = DOMAIN.reading(attributes(behavior="running"), NeuralSection(raw="x"))
    batch = reading({name: rows[name] for name in reading.fields}, np.zeros(8, np.uint64))
    assert batch["stim"].dtype == torch.uint8
    assert batch["stim"].data_ptr() == rows["stim"].ctypes.data
    for name in ("robs", "dfs", "condition", "behavior"):
        assert np.array_equal(batch[name].numpy(), rows[name][:, -1])
    assert "behavior" not in DOMAIN.reading(attributes(), NeuralSection(raw="x")).fields


def test_history_is_the_responses_before_the_predicted_bin(rows):
    for lags, history, window in ((2, 4, 5), (5, 3, 5), (1, 4, 5)):
        section = TensorSection(lags=lags, history=history)
        assert section.window == window
        reading = DOMAIN.reading(attributes(), NeuralSection(raw="x", tensors=section))
        batch = reading({name: rows[name] for name in reading.fields}, np.zeros(8, np.uint64))
        assert np.array_equal(batch["history"].numpy(), rows["robs"][:, 4 - history : 4])
        assert np.array_equal(batch["stim"].numpy(), rows["stim"][:, 5 - lags :])
        assert np.array_equal(batch["robs"].numpy(), rows["robs"][:, 4])


def test_a_window_of_one_bin_comes_without_an_axis_and_gets_one(rows):
    section = NeuralSection(raw="x", tensors=TensorSection(lags=1))
    reading = DOMAIN.reading(attributes(), section)
    batch = reading({name: rows[name][:, 2] for name in reading.fields}, np.zeros(8, np.uint64))
    assert np.array_equal(batch["stim"].numpy(), rows["stim"][:, 2:3])
    assert np.array_equal(batch["robs"].numpy(), rows["robs"][:, 2])


def test_bfloat16_comes_as_it_was_stored(rows):
    values = rows["stim"].astype(np.float32) / 7
    stored, _ = encode(values, "bfloat16")
    reading = DOMAIN.reading(attributes("bfloat16"), NeuralSection(raw="x"))
    batch = reading(rows | {"stim": stored}, np.zeros(8, np.uint64))
    assert torch.equal(batch["stim"], torch.from_numpy(values).to(torch.bfloat16))


def test_counts_above_32767_are_positive(rows):
    counts = np.array([0, 1, 32_767, 32_768, 50_000, 65_535] * 20, np.uint16).reshape(8, 5, 3)
    reading = DOMAIN.reading(attributes(responses="uint16"), NeuralSection(raw="x"))
    batch = reading(rows | {"robs": counts}, np.zeros(8, np.uint64))
    assert batch["robs"].dtype == torch.uint16
    assert np.array_equal(batch["robs"].float().numpy(), counts[:, -1])


@pytest.mark.parametrize(
    ("cast", "expected"), [("centred", lambda x: (x - 127) / 255), ("unit", lambda x: x / 255), ("none", lambda x: x)]
)
def test_cast(cast, expected):
    pixels = torch.arange(256, dtype=torch.uint8)
    result = cast_frames(pixels, TensorSection(cast=cast))
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, expected(torch.arange(256.0)), rtol=1e-6, atol=0)


def test_transforms_at_read_are_those_of_a_conversion(rows):
    section = TensorSection(
        lags=4, cast="unit", transforms=[{"name": "downsample", "factor": 2}, {"name": "difference"}]
    )
    assert section.window == 5
    prepared = prepare(torch.from_numpy(rows["stim"]), section)
    assert prepared.shape == (8, 4, 3, 3)
    small = (rows["stim"][:, :, :6, :6].reshape(8, 5, 3, 2, 3, 2).astype(int).sum((3, 5)) + 2) // 4
    assert np.array_equal(prepared.numpy(), small[:, 1:] - small[:, :-1])
