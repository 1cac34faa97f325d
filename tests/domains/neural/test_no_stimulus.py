"""Recordings without a stimulus: bins from the clock of responses, behaviour or spikes, and what models learn there."""

from __future__ import annotations

import numpy as np
import pytest

import outofcore
from outofcore.domains.neural.draw import draw
from outofcore.domains.neural.gallery import pictures
from outofcore.errors import ParamsError, RawInputError
from tests.domains.neural.glm import bits_per_spike, fitted
from tests.domains.neural.rig import convert, save_session

SPIKES = {"stimulus": None, "responses": None, "spike_times": "spike_times", "spike_neurons": "spike_neurons"}
WIDTH = 0.02


@pytest.mark.parametrize("layout", ["group", "sorted", "mixed"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_choice_of_units_moves_no_bin(write_h5, layout, marked):
    trains = [np.array([1.05, 9.05]), np.array([3.15, 4.25]), np.array([2.5, 6.5])]
    arrays = {f"spk/n{number}": times for number, times in enumerate(trains)} | {"good": np.array([0, 1, 1])}
    names = {"stimulus": None, "responses": None, "spike_times": "spk"}
    condition = {"column": "good", "values": [1]}
    if layout != "group":
        times, owner = np.concatenate(trains), np.repeat([0, 1, 2], 2)
        order = np.argsort(times) if layout == "mixed" else np.arange(6)
        arrays = {"spk": times[order], "owner": owner[order]}
        names, condition = names | {"spike_neurons": "owner"}, {"column": "owner", "min": 1}
    arrays["trials"] = np.array([[0.0, 5.0], [5.0, 10.0]])
    names["trial"] = "trials" if marked else None
    path = write_h5(arrays)
    whole = convert(path, names=names, bin_width=0.1).only
    chosen = convert(path, names=names, bin_width=0.1, units=[condition]).only
    assert len(whole.rows["robs"]) == (100 if marked else 81)
    assert np.array_equal(chosen.rows["robs"], whole.rows["robs"][:, 1:])
    assert [each["offset"] for each in chosen.sequences] == [each["offset"] for each in whole.sequences]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": SPIKES | {"stimulus": "stimulus"}}, "no such array; .*; without a stimulus, set it to null"),
        ({"names": SPIKES | {"trial": "running"}}, r"expected \(trials, 2\) start and stop times, as spikes"),
        ({"names": SPIKES | {"repeat": "running"}}, "names.repeat: expected an entry for each of"),
        ({"names": SPIKES | {"valid": "running"}}, r"names.valid: .* \(0\), got 1300"),
        (
            {"names": SPIKES | {"trial": "late"}},
            r"trials run from 100 to 103\.98 s, spikes from 2\.5\d* to 1[34]\.?\d* s: they never",
        ),
        ({"names": SPIKES, "bin_width": 1e-9}, "nearly all without a spike"),
        ({"names": SPIKES, "scale": 1e6}, "spike times .* span .* source.time_unit is not the unit"),
        ({"names": SPIKES, "scale": np.nan}, "holds no bin|no spike has a time"),
    ],
)
def test_what_needs_a_stimulus_or_its_clock_is_refused_in_one_line(clocked, write_h5, settings, message):
    clocked["spike_times"] = clocked["spike_times"] * settings.pop("scale", 1)
    with pytest.raises(RawInputError, match=message):
        convert(write_h5(clocked | {"late": [[100.0, 102.0], [102.0, 104.0]]}), **{"bin_width": WIDTH} | settings)


@pytest.fixture(scope="module")
def population(tmp_path_factory):
    """A store of 8 neurons that share a state, of which the file says which two are held out; and their counts."""
    generator = np.random.default_rng(2)
    state = np.zeros((6000, 2))
    for now in range(1, len(state)):
        state[now] = 0.9 * state[now - 1] + 0.4 * generator.normal(size=2)
    counts = generator.poisson(np.logaddexp(0, state @ generator.normal(size=(2, 8)) - 0.5))
    heldout = np.zeros(8, bool)
    heldout[[2, 5]] = True
    raw = tmp_path_factory.mktemp("population")
    save_session("npz", raw, {"robs": counts, "heldout": heldout, "hand": state})
    source = {"names": {"stimulus": None, "behavior": None}, "units": [{"column": "heldout"}], "trial_bins": 100}
    outofcore.convert("neural", raw, raw / "a.zarr", source=source, splits={"val": 0.25, "test": 0.0})
    return raw, counts


def test_a_batch_has_responses_and_those_before(population):
    raw, counts = population
    store = outofcore.open_store(raw / "a.zarr")
    lengths = store.sequences("train", "a")["length"].read()
    for history in (0, 7):
        reading = outofcore.reading(store, history=history)
        batches = list(outofcore.loader(store, "train", 512, tensors=reading, shuffle=False))
        assert sum(len(batch["robs"]) for batch in batches) == (lengths - history).sum()
        assert "stim" not in batches[0]
        first = store.sequences("train", "a")["offset"].read()[0]
        assert np.array_equal(batches[0]["robs"][:50].numpy(), counts[first + history :][:50])
    assert np.array_equal(batches[0]["history"][3].numpy(), counts[first + 3 :][:7])
    assert draw(store.rows("train", "a").read(0, 1)).startswith("responses: ")
    (picture, *_) = pictures(store)
    assert "frames" not in picture.title + picture.alt
    assert "<image" not in picture.svg


@pytest.mark.parametrize("history", [pytest.param(0, marks=pytest.mark.long), 2])
def test_co_bps_are_those_of_a_glm_from_held_in_to_held_out_neurons(population, tmp_path, history):
    raw, counts = population
    figures = outofcore.train(
        raw / "a.zarr",
        tmp_path / "run",
        tensors={"history": history},
        train={
            "held_out": {"column": "heldout", "values": [True]},
            "learning_rate": 0.03,
            "schedule": "cosine",
            "epochs": 20,
            "weight_decay": 0.0,
            "batch_size": 256,
        },
        device="cpu",
    )
    store = outofcore.open_store(raw / "a.zarr")
    held_in, held_out, parts = [0, 1, 3, 4, 6, 7], [2, 5], {}
    for split in ("train", "val"):
        first = store.sequences(split, "a")["offset"].read()
        bins = (first[:, None] + np.arange(history, 100)).ravel()
        lags = [counts[bins - lag][:, held_in] for lag in range(history + 1)]
        parts[split] = np.column_stack([np.ones(len(bins)), *lags]), counts[bins][:, held_out].astype(float)
    columns, spikes = parts["train"]
    weights = np.stack([fitted(columns, spikes[:, number]) for number in (0, 1)], 1)
    rates = np.logaddexp(0, parts["val"][0] @ weights)
    expected = bits_per_spike(rates, parts["val"][1])
    assert expected > 0.05
    assert figures["bits_per_spike"] == pytest.approx(expected, abs=0.003)
    assert figures["neurons"] == 2
    rows = list(outofcore.load_model(tmp_path / "run/models/neural").predict(raw / "a.npz"))
    assert {row["neuron"] for row in rows} == {2, 5}
    assert all(row["heldout"] for row in rows)
    assert [row["response"] for row in rows[:40]] == counts[history:][:20, held_out].ravel().tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set tensors.history or train.held_out"),
        (
            {"train": {"preset": "small", "held_out": 0.5}},
            "small is of frames, and there is no stimulus: set preset to test",
        ),
        ({"network": "mine:Net", "held_out": 0.5}, "mine:Net is of frames, and there is no stimulus"),
        ({"train": {"held_out": {"column": "area", "values": ["V1"]}}}, "keeps heldout of the units, not 'area': list"),
        ({"train": {"held_out": {"column": "heldout"}}}, "expected some of 8 neurons, got 8"),
        ({"train": {"held_out": 0.1}}, "expected some of 8 neurons, got 0"),
    ],
)
def test_a_model_without_an_input_or_a_target_is_refused(population, tmp_path, settings, message):
    with pytest.raises(ParamsError, match=message):
        outofcore.train(population[0] / "a.zarr", tmp_path / "run", **settings)
