"""Through the driver, the store and the loader: what a user gets."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import torch

import outofcore
from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.schema import row_bytes
from outofcore.errors import ParamsError
from outofcore.raw.files import find_files
from tests.domains.neural.test_sample import NAMES

SETTINGS = {
    "source": {"names": NAMES, "bin_width": 1 / 60, "response_dtype": "uint8"},
    "splits": {"val": 0.2, "test": 0.1, "seed": 0},
    "store": {"codec": "lz4", "chunk_rows": 64, "shard_rows": 4096},
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """A folder with the sample and a broken session in ``raw``, and the store; and the figures of its conversion."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "raw").mkdir()
    DOMAIN.sample(folder / "raw", np.random.default_rng(1))
    (folder / "raw/broken.h5").write_bytes((folder / "raw/monday.h5").read_bytes()[:-1000])
    return folder, outofcore.convert("neural", folder / "raw", folder / "a.zarr", **SETTINGS)


def converted(folder, arrays, **settings):
    """A store of one session; without other splits than train by default."""
    (folder / "raw").mkdir()
    np.savez(folder / "raw" / "a.npz", **arrays)
    splits = {"val": 0, "test": 0}
    figures = outofcore.convert("neural", folder / "raw", folder / "a.zarr", **{"splits": splits} | settings)
    return outofcore.open_store(folder / "a.zarr"), figures


def task_of(store, **settings):
    return DOMAIN.task(store, NeuralSection.model_validate({"raw": "x", "source": {}, **settings}))


def test_bins_without_a_response_cost_no_window(tmp_path):
    generator = np.random.default_rng(4)
    stim, robs = generator.integers(0, 256, (400, 2, 3)).astype(np.uint8), generator.poisson(2, (400, 2)) + 1.0
    lost = np.arange(7, 400, 20)
    robs[lost] = np.nan
    store, _ = converted(tmp_path, {"stim": stim, "robs": robs})
    task = task_of(store)
    kept = np.setdiff1d(np.arange(400), lost)
    np.testing.assert_allclose(task.sessions[0].mean, robs[kept].mean(0))
    np.testing.assert_allclose(task.sessions[0].spread, robs[kept].std(0))
    batches = list(outofcore.loader(store, "train", 64, tensors=outofcore.reading(store, lags=32)))
    frames = [window[-1].numpy() for batch in batches for window in batch["stim"]]
    targets = np.array([int(np.flatnonzero((stim == frame).all((1, 2)))[0]) for frame in frames])
    assert sorted(targets) == list(range(31, 400))
    counts = np.concatenate([batch["dfs"] for batch in batches]).any(1)
    assert set(targets[~counts]) == set(lost[lost >= 31])
    with torch.no_grad():
        for batch in batches:
            noisy = {**batch, "robs": torch.where(batch["dfs"] > 0, batch["robs"], 1e6)}
            assert task.loss(batch) == task.loss(noisy)
            for name, value in task.evaluate(batch).items():
                assert torch.equal(value, task.evaluate(noisy)[name]), name


def test_a_store_in_which_no_response_counts_is_not_trained_on(tmp_path):
    arrays = {"stim": np.zeros((60, 2, 3), np.uint8), "robs": np.full((60, 2), np.nan)}
    store, figures = converted(tmp_path, arrays, source={"response_dtype": "uint8"})
    assert (figures["rejected"], figures["bins_without_response_not_finite"]) == ({}, 60)
    with pytest.raises(ParamsError, match="no response of the train split counts"):
        task_of(store)


def test_a_model_begins_at_the_statistics_of_the_train_split(tmp_path):
    generator = np.random.default_rng(5)
    arrays = {
        "stim": generator.integers(0, 256, (600, 2, 3)).astype(np.uint8),
        "robs": generator.poisson(2, (600, 2)) + 0.25,
        "running": generator.normal([850, -0.01, 7, 0], [50, 0.002, 0, 0], (600, 4)),
        "valid": generator.random((600, 2)) > 0.3,
    }
    arrays["robs"][::7], arrays["running"][::11, 0] = np.nan, np.nan
    names = {"stimulus": "stim", "responses": "robs", "behavior": "running", "valid": "valid"}
    store, _ = converted(tmp_path, arrays, source={"names": names, "trial_bins": 20}, splits={"val": 0.3, "test": 0})
    trials = store.sequences("train", "a")
    spans = zip(trials["offset"].read().tolist(), trials["length"].read().tolist(), strict=True)
    bins = np.concatenate([np.arange(first, first + length) for first, length in spans])
    robs, running = arrays["robs"][bins], arrays["running"][bins].astype(np.float32)
    counts = arrays["valid"][bins] & np.isfinite(robs) & np.isfinite(running).all(1)[:, None]
    (shape,) = task_of(store).sessions
    for neuron in range(2):
        seen = robs[counts[:, neuron], neuron]
        assert (shape.mean[neuron], shape.spread[neuron]) == (pytest.approx(seen.mean()), pytest.approx(seen.std()))
    seen = running[counts.any(1)].astype(np.float64)
    assert shape.covariate_mean == pytest.approx(seen.mean(0))
    assert shape.covariate_spread == pytest.approx([*seen.std(0)[:2], 1, 1])


def test_any_number_of_workers_makes_the_same_bytes(outcome, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTOFCORE_WORKERS", "3")
    figures = outofcore.convert("neural", outcome[0] / "raw", tmp_path / "a.zarr", **SETTINGS)
    assert figures["digest"] == outcome[1]["digest"]


def test_everything_is_counted_and_sizes_are_known_before(outcome):
    folder, figures = outcome
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values())
    assert figures["rejected"] == {"unreadable_file": 1}
    assert 'broken.h5,0,unreadable_file,"not a readable HDF5 file' in (folder / "a.zarr.rejects.csv").read_text()
    assert figures["spikes"] >= figures["spikes_stored"] > 0
    section = NeuralSection.model_validate({"raw": str(folder / "raw"), **SETTINGS})
    schemas = DOMAIN.schemas(section, find_files(section.raw, section.match, DOMAIN.suffixes, section="neural"))
    store = outofcore.open_store(folder / "a.zarr")
    tables = [store.rows(split, part) for part in store.parts for split in store.splits]
    decoded = sum(array.row_bytes * len(array) for table in tables for array in table.fields.values())
    assert sum(schema.attributes["bins_in_trials"] * row_bytes(schema) for schema in schemas.values()) == decoded


def test_batches_are_windows_of_one_session_each(outcome):
    store = outofcore.open_store(outcome[0] / "a.zarr")
    expected, seen = Counter(), Counter()
    for number, part in enumerate(store.parts):
        table, sequences = store.rows("train", part).read(), store.sequences("train", part).read()
        for start, length in zip(sequences["start"], sequences["length"], strict=True):
            for last in range(start + 4, start + length):
                stim = table["stim"][last - 4 : last + 1]
                expected[number, stim.tobytes(), table["robs"][last].tobytes()] += 1
    for batch in outofcore.loader(store, "train", 100, tensors=outofcore.reading(store, lags=5), seed=3):
        (part,) = set(batch["part"].tolist())
        assert batch["stim"].dtype == torch.uint8
        pairs = zip(batch["stim"].numpy(), batch["robs"].numpy(), strict=True)
        seen.update((part, stim.tobytes(), robs.tobytes()) for stim, robs in pairs)
    assert seen == expected


def test_behaviour_may_take_the_place_of_a_stimulus(tmp_path):
    """Rates that follow a movement of three variables are found from it."""
    generator = np.random.default_rng(0)
    hand = np.cumsum(generator.normal(size=(4000, 3)), 0).astype(np.float32) * 0.1
    hand -= hand.mean(0)
    spikes = generator.poisson(np.exp(np.clip(hand @ generator.normal(size=(3, 8)), -3, 2)))
    source = {"names": {"stimulus": "hand", "responses": "spikes"}, "stimulus_dtype": "float32", "trial_bins": 100}
    store, _ = converted(tmp_path, {"hand": hand, "spikes": spikes}, source=source, splits={"val": 0.3, "test": 0.1})
    assert store.rows("train", "a")["stim"].shape[1:] == (1, 3)
    train = {"epochs": 4, "batch_size": 64, "learning_rate": 0.01}
    figures = outofcore.train(store, tmp_path / "run", tensors={"lags": 3}, train=train, device="cpu")
    assert figures["bits_per_spike"] > 0.2
    assert figures["squared_error"] < figures["squared_error_mean_response"]


@pytest.mark.parametrize(("largest", "cast", "said"), [(1, "centred", 1), (1, "none", 0), (2, "unit", 0)])
def test_a_stimulus_of_two_values_is_not_divided_without_a_word(tmp_path, capsys, largest, cast, said):
    generator = np.random.default_rng(4)
    stim = generator.integers(0, largest + 1, (400, 2, 3)).astype(np.uint8)
    store, _ = converted(tmp_path, {"stim": stim, "robs": generator.poisson(2, (400, 2))})
    task_of(store, tensors={"cast": cast})
    notes = [line for line in capsys.readouterr().err.splitlines() if "cast" in line]
    assert len(notes) == said
    assert all("frames of a hold only 0 and 1; cast: none keeps them" in note for note in notes)


def test_training_finds_what_drives_the_neurons(outcome, tmp_path):
    store = outofcore.open_store(outcome[0] / "a.zarr")
    train = {"batch_size": 256, "learning_rate": 0.01, "epochs": 3}
    figures = outofcore.train(store, tmp_path, tensors={"lags": 5}, train=train, device="cpu")
    assert figures["bits_per_spike"] > 0.4
    assert figures["squared_error"] < figures["squared_error_mean_response"]
    assert 0.15 < figures["explainable_variance"] < 1
    assert figures["fraction_explained"] > 0.7
    assert figures["correlation"] < figures["correlation_to_average"] < figures["normalised_correlation"] < 1
    truth = json.loads((outcome[0] / "raw/truth.json").read_text())
    for name, filters in outofcore.load_model(tmp_path).task.encoder.filters().items():
        for found, true in zip(filters.numpy(), np.array(truth[name]["filters"]), strict=True):
            assert np.corrcoef(found.ravel(), true.ravel())[0, 1] > 0.9
    plots = {file.name for file in (tmp_path / "plots" / "neural").iterdir() if file.is_file()}
    assert plots == {"responses.csv", "neurons.csv", *(f"filters_{name}.png" for name in store.parts)}
