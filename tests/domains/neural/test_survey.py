"""What a survey refuses and what it allows; sessions are surveyed again when a file changes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from outofcore.domains.neural import DOMAIN, streams, survey
from outofcore.domains.neural.params import NeuralSection
from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile, find_files
from tests.domains.neural.rig import convert, section_of


def test_a_file_whose_modification_time_was_put_back_is_surveyed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(b"before")
    facts = path.stat()
    section = NeuralSection.model_validate({"raw": str(tmp_path)})
    files = [RawFile("a.h5", str(path), facts.st_size)]
    surveyed: list[bytes] = []
    monkeypatch.setattr(survey, "find_sessions", lambda *_: surveyed.append(path.read_bytes()) or [])
    assert survey.survey_sessions(files, section) == survey.survey_sessions(files, section) == ()
    assert surveyed == [b"before"]
    path.write_bytes(b"behind")
    while path.stat().st_ctime_ns == facts.st_ctime_ns:  # until the clock of the filesystem has ticked
        os.utime(path)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    survey.survey_sessions(files, section)
    assert surveyed == [b"before", b"behind"]


STIM, ROBS, TIMES = np.zeros((600, 4, 4), np.uint8), np.zeros((600, 3)), np.arange(600) / 60
SPIKES = np.sort(np.random.default_rng(0).uniform(0, 10, 500))
BY_TIME = {"names": {"stimulus": "stim", "frame_times": "times", "responses": None, "spike_times": "spikes"}}
BY_TIME["bin_width"] = 1 / 60
BY_BIN = {"names": {"stimulus": "stim", "responses": "robs"}}


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        (
            {"robs": np.zeros((3, 600))},
            BY_BIN,
            "names.responses has 3 entries along time, the stimulus 600: .*time_axis",
        ),
        ({"robs": np.zeros((500, 600))}, BY_BIN, "if its axis 1 is time, set source.time_axis"),
        ({"robs": np.zeros((200, 5))}, BY_BIN, "one array has 200 entries along time, another 600"),
        ({"robs": np.zeros((600, 3)), "trial": np.array([0, 600])}, BY_BIN, "one array has 2 entries along time"),
        ({"robs": np.zeros((3, 600)), "at": TIMES}, "traces", "has 3 entries along time, its clock 600: .*time_axis"),
        ({"spikes/times": SPIKES, "spikes/clusters": np.arange(500)}, BY_TIME, "a group must have a vector of times"),
        (
            {"spikes/times": (SPIKES * 1e6).astype(np.uint64), "spikes/clusters": np.arange(500)},
            BY_TIME | {"time_unit": "us"},
            "name it as names.spike_neurons",
        ),
        ({"spikes/times": SPIKES, "spikes/labels": np.arange(500.0)}, BY_TIME, "name it as names.spike_neurons"),
        ({"robs": np.zeros((100, 5)), "at": TIMES}, "traces", "its clock 600: they are not of one recording"),
        ({"robs": ROBS, "valid": ROBS[:, :2]}, BY_BIN, "expected a column for all or for each of 3 neurons, got 2"),
        ({"robs": ROBS}, BY_BIN | {"bin_width": 1.0}, "with source.bin_width set, 'stim' must have a clock"),
        ({"robs": ROBS}, BY_BIN | {"frame_shape": [3, 3]}, r"does not fit frames of shape \(4, 4\)"),
        ({"robs": ROBS}, BY_BIN | {"transforms": [{"name": "downsample", "factor": 5}]}, "leaves nothing of a frame"),
        ({"robs": ROBS[..., None]}, BY_BIN, r"names.responses: expected numbers of shape \(samples, columns\)"),
        ({"robs": ROBS, "stim": np.full(600, b"a")}, BY_BIN, "names.stimulus: expected numbers, got"),
        ({"robs": ROBS[:0], "stim": STIM[:0]}, BY_BIN, "holds no bin: the stimulus or the responses are empty"),
        ({"robs": ROBS, "trial": np.full((3, 2), b"a")}, BY_BIN, "expected the first bin of each trial .*, got words"),
        ({"robs": ROBS, "repeat": np.arange(5)}, BY_BIN | {"trial_bins": 100}, "an entry for each of 6 trials or for"),
        ({"spikes": SPIKES, "spike_neurons": np.full(500, -1)}, BY_TIME, "no spike belongs to a neuron"),
        ({"others": SPIKES}, BY_TIME, "names.spike_times = 'spikes': no such array; there are others, stim, times"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(write_h5, arrays, settings, message):
    if settings == "traces":
        settings = {"names": {"stimulus": "stim", "frame_times": "times", "responses": "robs", "sample_times": "at"}}
        settings["bin_width"] = 1 / 60
    for name in {"trial", "repeat", "valid", "spike_neurons"} & arrays.keys():
        settings = settings | {"names": settings["names"] | {name: name}}
    with pytest.raises(RawInputError, match=message):
        convert(write_h5({"stim": STIM, "times": TIMES} | arrays), **settings)


def test_a_frame_that_no_memory_holds_is_refused(write_h5, monkeypatch):
    monkeypatch.setattr(streams, "MOST_ENTRY_BYTES", 15)
    with pytest.raises(RawInputError, match=r"names.stimulus: one entry of shape \(4, 4\) has 16 bytes, more than 15"):
        convert(write_h5({"stim": STIM, "robs": ROBS}), **BY_BIN)


@pytest.mark.parametrize("trials", [[[0, 600]], [[100, 200]], [[0, 300], [300, 600]]])
def test_a_table_of_two_columns_has_intervals_however_few(write_h5, trials):
    arrays = {"stim": STIM, "robs": np.arange(1200.0).reshape(600, 2), "trial": np.array(trials)}
    result = convert(write_h5(arrays), names=BY_BIN["names"] | {"trial": "trial"})
    assert [(each["offset"], each["offset"] + each["length"]) for each in result.only.sequences] == [
        *map(tuple, trials)
    ]
    assert np.array_equal(result.only.rows["robs"], np.concatenate([arrays["robs"][slice(*each)] for each in trials]))


def test_times_may_be_dates(write_h5):
    start = np.datetime64("2024-05-01T10:00")
    shown, taken = (start + ((TIMES + late) * 1e9).astype("timedelta64[ns]") for late in (0, 0.008))
    arrays = {"stim": STIM, "robs": np.arange(600.0)[:, None]}
    arrays |= {name: np.datetime_as_string(each).astype("S") for name, each in {"times": shown, "at": taken}.items()}
    names = {"stimulus": "stim", "frame_times": "times", "responses": "robs", "sample_times": "at"}
    result = convert(write_h5(arrays), names=names, bin_width=1 / 60)
    assert np.array_equal(result.only.rows["robs"], arrays["robs"])


@pytest.mark.parametrize(("rate", "neurons", "refused"), [(700, 2, False), (1500, 2, True), (150_000, 1, True)])
def test_neurons_that_fire_faster_than_any_are_in_a_wrong_unit(write_h5, rate, neurons, refused):
    arrays = {f"units/{unit}": 1000 + np.arange(0, 2, 1 / rate) for unit in range(neurons)}
    arrays |= {"stim": STIM, "times": 999 + TIMES}
    settings = BY_TIME | {"names": BY_TIME["names"] | {"spike_times": "units"}}
    if refused:
        with pytest.raises(RawInputError, match=r"source\.spike_unit or source\.time_unit is not the unit of the file"):
            convert(write_h5(arrays), **settings)
    else:
        assert convert(write_h5(arrays), **settings).only.rows["robs"].sum() == 2 * rate * neurons


def test_arrays_that_nothing_reads_are_listed_once_with_the_setting_that_may_be_meant(write_h5, capsys):
    arrays = {"stim": STIM, "robs": ROBS, "trial": np.repeat(np.arange(6), 100), "extra/eye": TIMES, "my_mask": ROBS}
    raw = write_h5(arrays)
    convert(raw, **BY_BIN)
    listed = "not read: extra/eye, my_mask, trial; perhaps source.names.trial: trial, source.names.valid: my_mask"
    assert capsys.readouterr().err.count(listed) == 1
    convert(raw, names=BY_BIN["names"] | {"trial": "trial", "valid": "my_mask", "behavior": "extra/eye"})
    assert "not read" not in capsys.readouterr().err


@pytest.mark.parametrize("kept", ["combined", "plane0"])
def test_sessions_that_share_neurons_are_one_recording_and_stored_once(tmp_path, kept):
    draw = np.random.default_rng(0)
    planes = {"plane0": draw.normal(size=(1000, 5)), "plane1": draw.normal(size=(999, 4))}
    planes["combined"] = np.concatenate([planes["plane0"][:999], planes["plane1"]], axis=1)
    last = "z" if kept == "plane0" else ""  # sessions are in order of their names
    for name, responses in planes.items():
        folder = tmp_path / f"{last if name == 'combined' else ''}{name}"
        folder.mkdir()
        np.save(folder / "F.npy", responses)
    result = convert(tmp_path, names={"stimulus": None, "responses": "F", "trial": None}, trial_bins=100)
    if kept == "combined":
        assert set(result.parts) == {"combined"}
        assert result.reasons == {"same_recording": 2}
    else:
        assert set(result.parts) == {"plane0", "plane1"}
        assert result.reasons == {"same_recording": 1}
        assert "5 of its neurons are those of plane0/F.npy" in result.rejects[0].detail


def test_sessions_of_equal_spikes_are_one_recording(tmp_path, write_h5):
    trains = {f"units/{number}": np.sort(np.random.default_rng(number).uniform(0, 9, 50)) for number in range(3)}
    write_h5({"trials": [[0.0, 5.0], [5.0, 9.0]], **trains}, "a.h5")
    write_h5({"trials": [[0.0, 9.0]], "units/9": trains["units/1"], "units/10": np.array([1.0, 2.0])}, "b.h5")
    names = {"stimulus": None, "responses": None, "spike_times": "units", "trial": "trials"}
    result = convert(tmp_path, names=names, bin_width=0.1)
    assert set(result.parts) == {"a"}
    assert "1 of its neurons are those of a.h5" in result.rejects[0].detail


@pytest.mark.parametrize(("shift", "outside"), [(0.0, 0), (41.7, 4), (-41.7, 4)], ids=["none", "later", "earlier"])
def test_trials_that_begin_when_all_spikes_are_over_are_counted_and_noted(tmp_path, write_h5, capsys, shift, outside):
    draw, starts = np.random.default_rng(2), np.arange(0, 100, 10.0)
    spikes, trials = np.sort(draw.uniform(0, 100, 2000)), np.stack([starts, starts + 9], 1) + shift
    write_h5({"spikes": spikes, "neuron": draw.integers(0, 4, 2000), "trials": trials})
    names = {"stimulus": None, "responses": None, "spike_times": "spikes", "spike_neurons": "neuron", "trial": "trials"}
    result = convert(tmp_path, names=names, bin_width=0.1)
    silent = (trials[:, 0] > spikes[-1]) | (trials[:, 1] <= spikes[0])
    assert result.counts["trials_outside_spikes"] == silent.sum() == outside
    assert (f"{outside} of 10 trials end before the first spike" in capsys.readouterr().err) == (outside > 0)
    assert result.accepted == 10


def test_trials_repeat_each_other_if_they_show_the_same_pictures_in_the_same_order(tmp_path, write_h5):
    shown = [[5, 5], [5, 5], [-1, -1], [6, 5], [5, 6], [5, 6], [-1, -1], [5, -1], [6, 6]]
    pictures = np.random.default_rng(0).integers(0, 256, (8, 2, 2)).astype(np.uint8)
    start = np.arange(0, 3 * len(shown), 3)  # the third bin is between trials
    numbers = np.concatenate([[*each, 7] for each in shown])
    arrays = {"scenes": pictures, "shown": numbers, "robs": np.ones((len(numbers), 1))}
    write_h5(arrays | {"trial": np.stack([start, start + 2], 1)})
    names = {"stimulus": "scenes", "frame": "shown", "responses": "robs", "trial": "trial"}
    files = find_files(tmp_path, "**/*", DOMAIN.suffixes, section="neural")
    ((_, session),) = survey.survey_sessions(files, section_of(tmp_path, names=names))
    repeat = session.trials.repeat.tolist()
    assert [repeat[place] for place in (0, 1, 2, 6, 7, 8)] == [5, 5, -1, -1, 5, 6]
    assert repeat[4] == repeat[5] != repeat[3]
    assert session.trials.condition.tolist() == [0, 0, -1, -1, 2, 2, -1, 0, -1]
