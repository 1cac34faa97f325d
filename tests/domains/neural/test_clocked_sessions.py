"""Sessions whose streams have clocks of their own, against loops over bins in plain Python."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from outofcore.domains.neural import DOMAIN, source
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files
from outofcore.raw.unit import NO_AUDIT
from tests.domains.neural.rig import convert, save_session, section_of

WIDTH = 1 / 50
TRACES = {
    "stimulus": "stim",
    "frame_times": "frame_times",
    "responses": "traces",
    "sample_times": "sample_times",
    "behavior": "running",
    "behavior_times": "running_times",
    "trial": "trials",
}
SPIKES = {
    "stimulus": "stim",
    "frame_times": "frame_times",
    "responses": None,
    "spike_times": "spike_times",
    "spike_neurons": "spike_neurons",
    "trial": "trials",
}
RESAMPLE = {"responses": "linear", "behavior": "mean"}


@pytest.mark.parametrize("names", [TRACES, SPIKES])
def test_a_unit_that_was_sent_to_another_process_is_converted_as_here(clocked, write_h5, names, monkeypatch):
    monkeypatch.setattr(source, "UNIT_BYTES", 3000)
    section = section_of(write_h5(clocked), names=names, bin_width=WIDTH, response_dtype="float32")
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="neural")
    converter, units = DOMAIN.converter(section, NO_AUDIT), 0
    for unit in DOMAIN.units(files, section):
        here, there = converter(unit), converter(pickle.loads(pickle.dumps(unit)))
        assert here.rows.keys() == there.rows.keys()
        assert all(np.array_equal(here.rows[name], there.rows[name]) for name in here.rows)
        units += 1
    assert units > 3


@pytest.mark.parametrize("dtype", ["datetime64[s]", "complex128"])
def test_intervals_of_which_one_side_is_no_number_are_refused(clocked, tmp_path, dtype):
    starts, ends = clocked["trials"].T
    arrays = {name: each for name, each in clocked.items() if name != "trials"}
    others = starts.round().astype("int64").astype(dtype)
    save_session("zarr", tmp_path, arrays | {"trials/start": others, "trials/end": ends})
    with pytest.raises(RawInputError, match=r"trials: expected start and end of one type, got .* and float64"):
        convert(tmp_path, names=SPIKES, bin_width=WIDTH, response_dtype="uint16")


def test_what_has_no_time_or_no_neuron_is_counted_and_listed(clocked, write_h5):
    clocked["spike_times"][[7, 9, 40]] = np.nan
    clocked["frame_times"][[10, 300]] = np.nan
    clocked["sample_times"][50] = np.inf
    clocked["running_times"][1250:] = np.nan
    clocked["spike_neurons"][[3, 5]] = -1
    both = convert(write_h5(clocked), names=SPIKES, bin_width=WIDTH)
    assert both.counts["spikes"] == 4000
    assert both.counts["spikes_without_time"] == 3
    assert both.counts["spikes_without_neuron"] == 2
    assert both.counts["frames_without_time"] == 2
    assert [(each.reason, each.offset, each.detail) for each in both.rejects] == [
        ("no_time", 10, "2 of 600 frame entries have no time, the first is entry 10"),
        ("no_time", 7, "3 of 4000 spikes have no time, the first is entry 7"),
        (
            "no_neuron",
            0,
            "2 of 4000 spikes belong to no neuron (negative or fractional label)",
        ),
    ]
    traces = convert(write_h5(clocked), names=TRACES, bin_width=WIDTH, resample=RESAMPLE)
    assert traces.counts["samples_without_time"] == 1
    assert [each.detail for each in traces.rejects] == [
        "2 of 600 frame entries have no time, the first is entry 10",
        "1 of 400 sample entries have no time, the first is entry 50",
        "50 of 1300 behavior entries have no time, the first is entry 1250",
    ]


def test_spikes_sorted_by_neuron_are_counted_as_well(clocked, write_h5):
    clocked["spike_neurons"][:9] = -1
    place = np.lexsort((clocked["spike_times"], clocked["spike_neurons"]))
    clocked |= {name: clocked[name][place] for name in ("spike_times", "spike_neurons")}
    clocked["spike_times"][-1] = np.nan
    result = convert(write_h5(clocked), names=SPIKES, bin_width=WIDTH)
    assert (result.counts["spikes"], result.counts["spikes_without_neuron"]) == (4000, 9)
    last = int((clocked["spike_neurons"] == 3).sum()) - 1
    assert result.rejects[0].detail == f"1 of 3991 spikes have no time, the first is entry {last} of neuron 3"


def test_lists_of_times_that_are_too_short_are_counted(clocked, write_h5):
    clocked["frame_times"] = clocked["frame_times"][:590]
    result = convert(write_h5(clocked), names=SPIKES, bin_width=WIDTH)
    assert result.counts["frames_without_time"] == 10
    assert [(each.offset, each.detail) for each in result.rejects] == [
        (590, "10 of 600 frame entries have no time, the first is entry 590")
    ]
    clocked["stim"] = clocked["stim"][:580]
    result = convert(write_h5(clocked), names=SPIKES, bin_width=WIDTH)
    assert result.counts["frame_times_without_frame"] == 10
    assert [(each.reason, each.detail) for each in result.rejects] == [
        ("unequal_length", "10 of 590 frame times have no frame, from entry 580 on")
    ]


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        (lambda _: None, {"time_unit": "ms"}, "would show one of 1200 frames"),
        (lambda clocked: clocked.update(frame_times=clocked["frame_times"] * 1e3), {}, "unit of the file"),
        (lambda clocked: clocked.update(spike_times=clocked["spike_times"] * 1e3), {}, "spikes end at 1[34]"),
        (
            lambda clocked: clocked.update(spike_times=clocked["spike_times"] * 1e3),
            {"spike_unit": "us"},
            "spikes end at 0.01",
        ),
        (lambda clocked: clocked["spike_times"].__setitem__(7, 13.0), {}, "do not ascend"),
        (lambda clocked: clocked["frame_times"].__setitem__(7, 13.0), {}, "frame times do not ascend"),
        (lambda clocked: clocked["frame_times"].fill(np.nan), {}, "hold no time: none is finite"),
        (lambda clocked: clocked["frame_times"].__setitem__(7, -1.0), {}, "missing times must be NaN"),
        (lambda clocked: clocked["spike_times"].__setitem__(7, -1.0), {}, "missing times must be NaN"),
        (lambda clocked: clocked["spike_times"].fill(np.nan), {}, "no spike has a time"),
        (
            lambda clocked: clocked.update(spike_neurons=clocked["spike_neurons"][:-1]),
            {},
            "has 4000 entries, spike_neurons 3999",
        ),
        (
            lambda clocked: clocked.update(valid=np.ones(595)),
            {"names": SPIKES | {"valid": "valid"}},
            "expected one entry a sample or a frame",
        ),
        (
            lambda clocked: clocked["frame_times"].__setitem__(-1, 20 * 86_400.0),
            {},
            "nearly all without a frame",
        ),
    ],
)
def test_clocks_that_cannot_be_are_told(clocked, write_h5, change, settings, words):
    change(clocked)
    with pytest.raises(RawInputError, match=words):
        convert(write_h5(clocked), **{"names": SPIKES, "bin_width": WIDTH} | settings)


def test_trials_that_hold_nothing_are_rejected(clocked, write_h5):
    clocked["trials"] = np.array(
        [[3.2, 4.2], [4.0, 5.0], [6.0, 5.5], [np.nan, 7.0], [7.0, 7.001], [900.0, 901.0], [8.0, 9.0]]
    )
    result = convert(write_h5(clocked), names=SPIKES, bin_width=WIDTH)
    assert result.reasons == {"no_time": 2, "no_bin": 2, "overlapping_trial": 1}
    assert {each.offset for each in result.rejects if each.reason == "overlapping_trial"} == {1}
    assert [each["trial"] for each in result.only.sequences] == [0, 6]
    assert result.found == 7


def test_labels_by_frame_on_a_clock(clocked, write_h5):
    labels = np.repeat([5, -1, 7], 200)
    film = np.repeat(["sea", "", "sea"], 200).astype("S")
    path = write_h5(clocked | {"labels": labels, "film": film})
    result = convert(path, names=SPIKES | {"trial": "labels", "repeat": "film"}, bin_width=WIDTH)
    first, second = result.only.sequences
    assert (first["trial"], second["trial"]) == (5, 7)
    assert first["repeat"] == second["repeat"] > 0
    assert first["length"] == pytest.approx((clocked["frame_times"][200] - clocked["frame_times"][0]) / WIDTH, abs=1)
    assert result.only.rows["condition"][: first["length"]].tolist() == list(range(first["length"]))
