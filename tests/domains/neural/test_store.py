"""Through the driver, the store and the loader: what a user gets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from outofcore.conversion.estimate import estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection, NeuralTrainSection
from outofcore.domains.neural.schema import row_bytes
from outofcore.errors import ParamsError
from outofcore.loading.loader import loader
from outofcore.raw.files import find_files
from outofcore.store.reader import open_store
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit
from tests.domains.neural.test_sample import NAMES


@pytest.fixture(scope="module")
def section(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    DOMAIN.sample(folder, np.random.default_rng(1))
    (folder / "broken.h5").write_bytes((folder / "monday.h5").read_bytes()[:-1000])
    return NeuralSection.model_validate(
        {
            "raw": str(folder),
            "source": {"names": NAMES, "bin_width": 1 / 60, "response_dtype": "uint8"},
            "splits": {"val": 0.2, "test": 0.1, "seed": 0},
            "store": {"codec": "lz4", "chunk_rows": 64, "shard_rows": 4096},
            "tensors": {"lags": 5},
        }
    )


def run(section, where: Path, *, workers=1, engine="threads"):
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="neural")
    with open_executor(engine, workers) as executor:
        forecast = estimate(DOMAIN, section, files, executor)
    conversion = Conversion(DOMAIN, section, files, where / "neural.zarr", where / "rejects.csv")
    executor = open_executor(engine, workers)
    return conversion.run(forecast, executor=executor, workers=workers, watch=lambda *_: None), forecast


def test_bins_without_a_response_cost_no_window(tmp_path):
    generator = np.random.default_rng(4)
    stim, robs = generator.integers(0, 256, (400, 2, 3)).astype(np.uint8), generator.poisson(2, (400, 2)) + 1.0
    lost = np.arange(7, 400, 20)
    robs[lost] = np.nan
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "a.npz", stim=stim, robs=robs)
    section = NeuralSection.model_validate(
        {"raw": str(tmp_path / "raw"), "splits": {"val": 0, "test": 0}, "tensors": {"lags": 32}}
    )
    run(section, tmp_path)
    store = open_store(tmp_path / "neural.zarr")
    task = DOMAIN.task(store, section)
    kept = np.setdiff1d(np.arange(400), lost)
    np.testing.assert_allclose(task.sessions[0].mean, robs[kept].mean(0))
    np.testing.assert_allclose(task.sessions[0].spread, robs[kept].std(0))
    reading = DOMAIN.reading(store.attributes, section)
    batches = list(loader(store, "train", 64, tensors=reading, memory="64MiB", **task.loader_options()))
    targets = [
        int(np.flatnonzero((stim == window[-1].numpy()).all((1, 2)))[0]) for b in batches for window in b["stim"]
    ]
    assert sorted(targets) == list(range(31, 400))
    masked = {
        target
        for target, dfs in zip(targets, np.concatenate([b["dfs"] for b in batches]), strict=True)
        if not dfs.any()
    }
    assert masked == set(lost[lost >= 31].tolist())
    with torch.no_grad():
        noisy = [{**b, "robs": torch.where(b["dfs"] > 0, b["robs"], 1e6)} for b in batches]
        for plain, other in zip(batches, noisy, strict=True):
            assert task.loss(plain) == task.loss(other)
            for name, value in task.evaluate(plain).items():
                assert torch.equal(value, task.evaluate(other)[name]), name


def test_a_store_in_which_no_response_counts_is_not_trained_on(tmp_path):
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "a.npz", stim=np.zeros((60, 2, 3), np.uint8), robs=np.full((60, 2), np.nan))
    content = {"raw": str(tmp_path / "raw"), "source": {"response_dtype": "uint8"}, "splits": {"val": 0, "test": 0}}
    section = NeuralSection.model_validate(content)
    figures = run(section, tmp_path)[0].figures
    assert (figures["rejected"], figures["bins_without_response_not_finite"]) == ({}, 60)
    with pytest.raises(ParamsError, match="no response of the train split counts"):
        DOMAIN.task(open_store(tmp_path / "neural.zarr"), section)


def test_a_model_begins_at_the_statistics_of_the_train_split(tmp_path):
    generator = np.random.default_rng(5)
    arrays = {
        "stim": generator.integers(0, 256, (600, 2, 3)).astype(np.uint8),
        "robs": generator.poisson(2, (600, 2)) + 0.25,
        "running": generator.normal([850, -0.01, 7, 0], [50, 0.002, 0, 0], (600, 4)),
        "valid": generator.random((600, 2)) > 0.3,
    }
    arrays["robs"][::7], arrays["running"][::11, 0] = np.nan, np.nan
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "a.npz", **arrays)
    names = {"stimulus": "stim", "responses": "robs", "behavior": "running", "valid": "valid"}
    content = {"raw": str(tmp_path / "raw"), "source": {"names": names, "trial_bins": 20}}
    section = NeuralSection.model_validate(content)
    run(section, tmp_path)
    store = open_store(tmp_path / "neural.zarr")
    trials = store.sequences("train", "a")
    spans = zip(trials["offset"].read().tolist(), trials["length"].read().tolist(), strict=True)
    bins = np.concatenate([np.arange(first, first + length) for first, length in spans])
    robs, running = arrays["robs"][bins], arrays["running"][bins].astype(np.float32)
    counts = arrays["valid"][bins] & np.isfinite(robs) & np.isfinite(running).all(1)[:, None]
    (shape,) = DOMAIN.task(store, section).sessions
    for neuron in range(2):
        seen = robs[counts[:, neuron], neuron]
        assert (shape.mean[neuron], shape.spread[neuron]) == (pytest.approx(seen.mean()), pytest.approx(seen.std()))
    seen = running[counts.any(1)].astype(np.float64)
    assert shape.covariate_mean == pytest.approx(seen.mean(0))
    assert shape.covariate_spread == pytest.approx([*seen.std(0)[:2], 1, 1])


@pytest.fixture(scope="module")
def outcome(section, tmp_path_factory):
    where = tmp_path_factory.mktemp("store")
    return where, *run(section, where)


def test_any_number_of_workers_makes_the_same_bytes(section, outcome, tmp_path):
    assert run(section, tmp_path, workers=3)[0].figures == outcome[1].figures


def test_everything_is_counted_and_sizes_are_known_before(section, outcome):
    where, made, forecast = outcome
    figures = made.figures
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values())
    assert figures["rejected"] == {"unreadable_file": 1}
    assert 'broken.h5,0,unreadable_file,"not a readable HDF5 file' in (where / "rejects.csv").read_text()
    assert figures["spikes"] >= figures["spikes_stored"] > 0
    assert forecast.store_bytes == pytest.approx(figures["bytes_store"], rel=0.01)
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="neural")
    store = open_store(where / "neural.zarr")
    decoded = sum(
        array.row_bytes * len(array)
        for part in store.parts
        for split in store.splits
        for array in store.rows(split, part).fields.values()
    )
    schemas = DOMAIN.schemas(section, files).values()
    assert sum(schema.attributes["bins_in_trials"] * row_bytes(schema) for schema in schemas) == decoded


def test_batches_are_windows_of_one_session_each(section, outcome):
    store = open_store(outcome[0] / "neural.zarr")
    reading = DOMAIN.reading(store.attributes, section)
    options = DOMAIN.task(store, section).loader_options()
    batches = loader(store, "train", 100, tensors=reading, memory="64MiB", seed=3, **options)
    expected, seen = Counter(), Counter()
    for number, part in enumerate(store.parts):
        table, sequences = store.rows("train", part).read(), store.sequences("train", part).read()
        for start, length in zip(sequences["start"], sequences["length"], strict=True):
            for last in range(start + 4, start + length):
                stim = table["stim"][last - 4 : last + 1]
                expected[number, stim.tobytes(), table["robs"][last].tobytes()] += 1
    for batch in batches:
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
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "a.npz", hand=hand, spikes=spikes)
    section = NeuralSection.model_validate(
        {
            "raw": str(tmp_path / "raw"),
            "source": {
                "names": {"stimulus": "hand", "responses": "spikes"},
                "stimulus_dtype": "float32",
                "response_dtype": "uint8",
                "trial_bins": 100,
            },
            "splits": {"val": 0.3, "test": 0.1},
            "tensors": {"lags": 3},
            "train": {"epochs": 4, "batch_size": 64, "learning_rate": 0.01},
        }
    )
    run(section, tmp_path)
    store = open_store(tmp_path / "neural.zarr")
    assert store.rows("train", "a")["stim"].shape[1:] == (1, 3)
    torch.manual_seed(0)
    task, cpu = DOMAIN.task(store, section), torch.device("cpu")
    reading = DOMAIN.reading(store.attributes, section)
    loaders = open_loaders(store, task, reading, section.train, memory=2**27, residency="auto", device=cpu)
    figures = fit(task, *loaders, section.train, name="neural", out=tmp_path, identity={}, device="cpu", threads=1)
    assert figures["bits_per_spike"] > 0.2
    assert figures["squared_error"] < figures["squared_error_mean_response"]


@pytest.mark.parametrize(("largest", "cast", "said"), [(1, "centred", 1), (1, "none", 0), (2, "unit", 0)])
def test_a_stimulus_of_two_values_is_not_divided_without_a_word(tmp_path, capsys, largest, cast, said):
    generator = np.random.default_rng(4)
    (tmp_path / "raw").mkdir()
    for name in ("a", "b"):
        stim = generator.integers(0, largest + 1, (400, 2, 3)).astype(np.uint8)
        np.savez(tmp_path / "raw" / f"{name}.npz", stim=stim, robs=generator.poisson(2, (400, 2)))
    section = NeuralSection.model_validate(
        {
            "raw": str(tmp_path / "raw"),
            "source": {"trial_bins": 40},
            "splits": {"val": 0.2, "test": 0.1},
            "tensors": {"cast": cast},
        }
    )
    run(section, tmp_path)
    DOMAIN.task(open_store(tmp_path / "neural.zarr"), section)
    notes = [line for line in capsys.readouterr().err.splitlines() if "cast" in line]
    assert len(notes) == said
    assert all("frames of a hold only 0 and 1; cast: none keeps them" in note for note in notes)


def test_training_finds_what_drives_the_neurons(section, outcome, tmp_path):
    store = open_store(outcome[0] / "neural.zarr")
    train = {"batch_size": 256, "learning_rate": 0.01, "epochs": 3}
    section = section.model_copy(update={"train": NeuralTrainSection(**train)})
    torch.manual_seed(0)
    task = DOMAIN.task(store, section)
    reading = DOMAIN.reading(store.attributes, section)
    cpu = torch.device("cpu")
    loaders = open_loaders(store, task, reading, section.train, memory=2**27, residency="auto", device=cpu)
    figures = fit(
        task, *loaders, section.train, name="neural", out=tmp_path, identity={}, device="cpu", micro_batch=0, threads=1
    )
    assert figures["bits_per_spike"] > 0.4
    assert figures["squared_error"] < figures["squared_error_mean_response"]
    assert 0.15 < figures["explainable_variance"] < 1
    assert figures["fraction_explained"] > 0.7
    assert figures["correlation"] < figures["correlation_to_average"] < figures["normalised_correlation"] < 1
    truth = json.loads((Path(section.raw) / "truth.json").read_text())
    for name, filters in task.encoder.filters().items():
        for found, true in zip(filters.numpy(), np.array(truth[name]["filters"]), strict=True):
            assert np.corrcoef(found.ravel(), true.ravel())[0, 1] > 0.9
    plots = {file.name for file in (tmp_path / "plots" / "neural").iterdir() if file.is_file()}
    sheets = {f"filters_{name}.png" for name in store.parts}
    assert plots == {"responses.csv", "neurons.csv", *sheets}
