"""Recordings that others published, against plain readers of their formats."""

from __future__ import annotations

import gzip
import warnings

import h5py
import numpy as np
import pytest

import outofcore
from outofcore.domains.neural.metrics import explainable
from tests.domains.neural.glm import bits_per_spike, fitted
from tests.domains.neural.repeats import repeat_sums
from tests.domains.neural.rig import convert
from tests.domains.neural.test_metrics import normalised_by_loops

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def neural(real_data):
    return real_data / "neural"


@pytest.fixture(scope="module")
def grasshopper(neural):
    """Folder, sound by sample of 50 microseconds, and times of spikes in microseconds."""
    folder = neural / "grasshopper"
    with gzip.open(folder / "stimulus1.txt.gz", "rt") as file:
        sound = np.array([float(line.split()[1]) for line in file])
    lines = (folder / "spike_times1.txt").read_text().split("\n")
    return folder, sound, np.array([int(line) for line in lines if line.strip().isdigit()])


@pytest.fixture(scope="module")
def pattern_images(neural):
    return convert(neural / "v1_pattern_images.h5", names={"trial": "trial"})


def test_pattern_images(neural, pattern_images):
    rows = pattern_images.only.rows
    with h5py.File(neural / "v1_pattern_images.h5") as file:
        assert np.array_equal(rows["stim"], file["stim"][:])
        assert np.array_equal(rows["robs"], file["robs"][:])
        assert [each["trial"] for each in pattern_images.only.sequences] == file["trial"][:].tolist()
    assert rows["dfs"].all()
    assert pattern_images.found == pattern_images.accepted == 9500


@pytest.mark.parametrize("order", ["together", "in_turn"])
def test_repeats_of_allen_images(neural, order):
    folder = neural / "allen_repeats"
    result = convert(
        folder,
        names={"stimulus": "Allen_test_input", "responses": "Allen_test_output_big"},
        frame_shape=[31, 31],
        repeats={"count": 50, "order": order},
        trial_bins=1,
    )
    rows = result.only.rows
    pictures, responses = np.load(folder / "Allen_test_input.npy"), np.load(folder / "Allen_test_output_big.npy")
    shown = np.arange(900) // 50 if order == "together" else np.arange(900) % 18
    assert np.array_equal(rows["stim"], pictures[shown].reshape(900, 31, 31))
    assert np.array_equal(rows["robs"], responses.astype(np.float32))
    assert len({each["key"] for each in result.only.sequences}) == 18
    assert result.counts["files_unused"] == 5

    sums = repeat_sums(rows["robs"], rows["dfs"], rows["condition"], 18)
    by_image = responses.astype(np.float32).astype(float).reshape(18, 50, 212)
    if order == "in_turn":
        by_image = responses.astype(np.float32).astype(float).reshape(50, 18, 212).transpose(1, 0, 2)
    prediction = by_image[:, ::2].mean(1)
    found = explainable(sums | {"rates": 50 * prediction})
    for neuron, (average, normalised) in enumerate(zip(found["average"], found["normalised"], strict=True)):
        means = by_image[:, :, neuron].mean(1)
        assert average == pytest.approx(np.corrcoef(means, prediction[:, neuron])[0, 1])
        expected = normalised_by_loops(by_image[:, :, neuron], prediction[:, neuron])
        assert normalised == pytest.approx(expected, rel=1e-4, nan_ok=True)
    noise = by_image.var(1, ddof=1).mean(0)
    variance = by_image.reshape(900, 212).var(0, ddof=1)
    np.testing.assert_allclose(found["share"], (variance - noise) / variance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found["noise"], noise, rtol=1e-9)
    # Neither order makes repeats of these rows: what they share is what 18 means of 50 share by chance.
    assert abs(found["share"].mean()) < 0.002


def test_patch_clamp_sweeps(neural):
    pynwb = pytest.importorskip("pynwb")
    result = convert(
        neural / "nwb",
        match="FergusonEtAl2015_PYR2.nwb",
        names={
            "stimulus": "stimulus/presentation/CurrentClampStimulusSeries_*",
            "responses": "acquisition/CurrentClampSeries_*",
        },
        stimulus_dtype="float32",
    )
    part = result.only
    assert [each["length"] for each in part.sequences] == [20_000] * 13
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pynwb.NWBHDF5IO(neural / "nwb" / "FergusonEtAl2015_PYR2.nwb", "r") as io:
            file = io.read()
            for number in range(13):
                name = f"{number + 1:02d}"
                shown = file.stimulus[f"CurrentClampStimulusSeries_{name}"].data[:]
                recorded = file.acquisition[f"CurrentClampSeries_{name}"].data[:]
                place = slice(number * 20_000, (number + 1) * 20_000)
                assert np.array_equal(part.rows["stim"][place, 0, 0], shown)
                assert np.array_equal(part.rows["robs"][place, 0], recorded)


def test_a_sweep_on_a_clock_of_milliseconds(neural):
    settings = {
        "match": "Lantyer*",
        "names": {
            "stimulus": "stimulus/presentation/VoltageClampStimulusSeries_01",
            "responses": "acquisition/VoltageClampSeries_01",
        },
        "stimulus_dtype": "float32",
    }
    result = convert(neural / "nwb", bin_width=0.001, **settings)
    with h5py.File(neural / "nwb" / "LantyerEtAl2018_170328_AB_277_ST50_C.nwb") as file:
        current = file["acquisition/VoltageClampSeries_01/data"][:]
        voltage = file["stimulus/presentation/VoltageClampStimulusSeries_01/data"][:]
    assert len(result.only.rows["robs"]) == 29_750 // 50
    np.testing.assert_allclose(result.only.rows["robs"][:, 0], current.reshape(-1, 50).mean(1), rtol=1e-5)
    np.testing.assert_allclose(result.only.rows["stim"][:, 0, 0], voltage[25::50], rtol=1e-6)


def test_series_with_timestamps(neural):
    result = convert(
        neural / "nwb",
        match="time_series_data.nwb",
        names={"stimulus": "acquisition/test_sine_1", "responses": "acquisition/test_sine_2"},
        stimulus_dtype="float32",
    )
    with h5py.File(neural / "nwb" / "time_series_data.nwb") as file:
        np.testing.assert_allclose(
            result.only.rows["stim"][:, 0, 0], file["acquisition/test_sine_1/data"][:], rtol=1e-6
        )
        np.testing.assert_allclose(result.only.rows["robs"][:, 0], file["acquisition/test_sine_2/data"][:], rtol=1e-6)


@pytest.mark.parametrize(("width", "samples"), [(0.001, 20), pytest.param(0.00005, 1, marks=pytest.mark.long)])
def test_grasshopper_sound_and_spikes_on_one_clock(grasshopper, width, samples):
    folder, sound, spikes = grasshopper
    result = convert(
        folder,
        names={
            "stimulus": "stimulus1.txt.gz[1]",
            "frame_times": "stimulus1.txt.gz[0]",
            "responses": None,
            "spike_times": "spike_times1.txt",
        },
        bin_width=width,
        time_unit="us",
        stimulus_dtype="float32",
        response_dtype="uint8",
    )
    counts = np.bincount(spikes // (50 * samples), minlength=len(sound) // samples)
    rows = result.only.rows
    assert len(spikes) == 929
    assert rows["robs"][:, 0].tolist() == counts.tolist()
    np.testing.assert_allclose(rows["stim"][:, 0, 0], sound[samples // 2 :: samples], rtol=1e-6)
    assert result.counts["spikes_stored"] == 929


def design(sound, spikes, offsets, lengths, history):
    """Columns 1, 20 lags of the sound and of the spikes before, by bin; and the spikes of these bins."""
    first = max(19, history)
    bins = np.concatenate([np.arange(at + first, at + length) for at, length in zip(offsets, lengths, strict=True)])
    lags = [sound[bins - lag] for lag in range(20)]
    return np.column_stack([np.ones(len(bins)), *lags, *(spikes[bins - lag] for lag in range(1, history + 1))]), spikes[
        bins
    ]


@pytest.mark.long
@pytest.mark.parametrize(("history", "epochs", "close"), [(0, 600, 0.002), (20, 150, 0.02)], ids=["sound", "and past"])
def test_bits_per_spike_are_those_of_an_independent_glm(grasshopper, tmp_path, history, epochs, close):
    names = {"stimulus": "stimulus1.txt.gz[1]", "frame_times": "stimulus1.txt.gz[0]", "responses": None}
    source = {"names": names | {"spike_times": "spike_times1.txt"}, "bin_width": 0.001, "time_unit": "us"}
    source |= {"stimulus_dtype": "float32", "trial_bins": 500}
    store = tmp_path / "grasshopper.zarr"
    outofcore.convert("neural", grasshopper[0], store, source=source, splits={"val": 0.25, "test": 0.0})
    figures = outofcore.train(
        store,
        tmp_path / "run",
        tensors={"lags": 20, "history": history, "transforms": [{"name": "normalise", "mean": 0.16, "std": 0.125}]},
        train={"learning_rate": 0.03, "schedule": "cosine", "epochs": epochs, "weight_decay": 0.0, "batch_size": 1024},
        device="cpu",
    )
    sound, spikes = grasshopper[1][10::20], np.bincount(grasshopper[2] // 1000, minlength=10_000).astype(float)
    opened = outofcore.open_store(store)
    parts = {}
    for split in ("train", "val"):
        trials = opened.sequences(split, opened.parts[0])
        parts[split] = design(sound, spikes, trials["offset"].read(), trials["length"].read(), history)
    columns, counts = parts["val"]
    rate = np.logaddexp(0, columns @ fitted(*parts["train"]))
    assert figures["bits_per_spike"] == pytest.approx(bits_per_spike(rate, counts), abs=close)


@pytest.mark.long
def test_spikes_without_a_stimulus_are_predicted_from_their_past_as_by_a_glm(grasshopper, tmp_path):
    names = {"stimulus": None, "responses": None, "spike_times": "spike_times1.txt"}
    source = {"names": names, "bin_width": 0.001, "time_unit": "us", "trial_bins": 500}
    store = tmp_path / "grasshopper.zarr"
    outofcore.convert("neural", grasshopper[0], store, source=source, splits={"val": 0.25, "test": 0.0})
    figures = outofcore.train(
        store,
        tmp_path / "run",
        tensors={"history": 20},
        train={"learning_rate": 0.03, "schedule": "cosine", "epochs": 150, "weight_decay": 0.0, "batch_size": 1024},
        device="cpu",
    )
    numbers = grasshopper[2] // 1000
    spikes = np.bincount(numbers - numbers[0]).astype(float)
    opened = outofcore.open_store(store)
    parts = {}
    for split in ("train", "val"):
        trials = opened.sequences(split, opened.parts[0])
        ranges = zip(trials["offset"].read().tolist(), trials["length"].read().tolist(), strict=True)
        bins = np.concatenate([np.arange(first + 20, first + length) for first, length in ranges])
        parts[split] = np.stack([np.ones(len(bins)), *(spikes[bins - lag] for lag in range(1, 21))], 1), spikes[bins]
    columns, counts = parts["val"]
    expected = bits_per_spike(np.logaddexp(0, columns @ fitted(*parts["train"])), counts)
    assert expected > 0.3
    assert figures["bits_per_spike"] == pytest.approx(expected, abs=0.02)


@pytest.mark.long
def test_a_held_out_cell_is_predicted_from_the_others_as_by_regression(neural, tmp_path):
    store = tmp_path / "v1.zarr"
    source = {"names": {"stimulus": None, "trial": "trial"}}
    outofcore.convert("neural", neural / "v1_pattern_images.h5", store, source=source, splits={"val": 0.2, "test": 0.0})
    train = {"loss": "squared", "held_out": 0.25, "learning_rate": 0.01, "schedule": "cosine", "epochs": 20}
    figures = outofcore.train(store, tmp_path / "run", train=train | {"weight_decay": 0.0}, device="cpu")
    opened = outofcore.open_store(store)
    robs = {split: opened.rows(split, opened.parts[0])["robs"].read().astype(float) for split in ("train", "val")}
    columns = {split: np.column_stack([np.ones(len(each)), each[:, :3]]) for split, each in robs.items()}
    weights = np.linalg.lstsq(columns["train"], robs["train"][:, 3], rcond=None)[0]
    expected = np.corrcoef(columns["val"] @ weights, robs["val"][:, 3])[0, 1]
    assert figures["neurons"] == 1
    assert figures["correlation"] == pytest.approx(expected, abs=0.005)


def test_series_of_nwb_without_a_stimulus(neural):
    names = {"stimulus": None, "responses": "acquisition/test_sine_1", "behavior": "acquisition/test_sine_2"}
    rows = convert(neural / "nwb" / "time_series_data.nwb", names=names).only.rows
    with h5py.File(neural / "nwb" / "time_series_data.nwb") as file:
        assert np.array_equal(rows["robs"][:, 0], file["acquisition/test_sine_1/data"][:].astype(np.float32))
        assert np.array_equal(rows["behavior"][:, 0], file["acquisition/test_sine_2/data"][:].astype(np.float32))
    assert rows.keys() == {"robs", "dfs", "behavior", "condition"}
