"""MATLAB files before version 7.3, as their owners save them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from outofcore.domains.neural.recordings import mat
from outofcore.domains.neural.recordings.mat import MatRecording
from outofcore.errors import RawInputError
from tests.domains.neural.rig import NAMES, convert, save_session


@pytest.mark.parametrize(("version", "compressed"), [("5", False), ("5", True), ("4", False)])
def test_versions(tmp_path, frames, version, compressed):
    flat = frames | {"stim": frames["stim"].reshape(-1, 42)}  # version 4 has no more axes
    scipy.io.savemat(tmp_path / "a.mat", flat, format=version, do_compression=compressed)
    result = convert(tmp_path, names=NAMES, frame_shape=[6, 7])
    assert np.array_equal(result.only.rows["stim"], frames["stim"])
    assert np.array_equal(result.only.rows["robs"], frames["robs"])


def test_whole_numbers_that_matlab_packs_into_bytes_are_the_doubles_that_they_were(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"stim": np.arange(12, dtype=np.uint8).reshape(3, 4)})
    content = bytearray((tmp_path / "a.mat").read_bytes())
    header, tags, double = 128, 16, 6
    content[header + tags] = double  # the class of the array; its data stay bytes
    (tmp_path / "a.mat").write_bytes(content)
    stored = MatRecording(tmp_path / "a.mat").value("stim")
    assert stored.dtype == np.float64
    assert np.array_equal(stored, np.arange(12.0).reshape(3, 4))


def test_too_little_memory_is_no_damaged_file(tmp_path, frames, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    save_session("mat", tmp_path, frames)
    monkeypatch.setattr(mat, "loadmat", fail)
    with pytest.raises(MemoryError):
        convert(tmp_path, names=NAMES)


def test_names_are_told_without_reading_arrays(tmp_path, frames, monkeypatch):
    save_session("mat", tmp_path, frames)
    (file,) = tmp_path.glob("*.mat")
    monkeypatch.setattr(mat, "loadmat", None)
    assert "robs" in MatRecording(file).names()


def test_time_may_be_last_and_arrays_fields_of_structs(tmp_path, frames):
    session = {"stim": np.moveaxis(frames["stim"], 0, 2), "spikes": {"robs": frames["robs"], "trial": frames["trial"]}}
    scipy.io.savemat(tmp_path / "a.mat", {"session": session})
    names = {"stimulus": "session/stim", "responses": "session/spikes/robs", "trial": "session/spikes/trial"}
    result = convert(tmp_path, names=names, time_axis={"stimulus": 2})
    assert np.array_equal(result.only.rows["stim"], frames["stim"])
    assert np.array_equal(result.only.rows["robs"], frames["robs"])
    there = "there are session/stim, session/spikes/robs, session/spikes/trial"
    with pytest.raises(RawInputError, match=f"names.responses = 'session/robs': no such array; {there}"):
        convert(tmp_path, names=names | {"responses": "session/robs"}, time_axis={"stimulus": 2})


def test_cells_are_the_spike_times_of_neurons(tmp_path, clocked):
    trains = [clocked["spike_times"][clocked["spike_neurons"] == neuron] for neuron in range(4)]
    trains[2] = np.empty((0, 0))
    cells = np.empty((2, 2), object)
    for number, train in enumerate(trains):
        cells[number % 2, number // 2] = train  # MATLAB numbers cells column by column
    arrays = {"stim": clocked["stim"], "frame_times": clocked["frame_times"], "trials": clocked["trials"]}
    scipy.io.savemat(tmp_path / "a.mat", arrays | {"spikes": cells})
    names = {"stimulus": "stim", "frame_times": "frame_times", "responses": None, "spike_times": "spikes"}
    result = convert(tmp_path, names=names | {"trial": "trials"}, bin_width=1 / 60)
    robs = result.only.rows["robs"]
    assert robs.shape[1] == 4
    assert robs[:, 2].sum() == 0
    ends = np.cumsum([trial["length"] for trial in result.only.sequences])
    assert len(ends) == 3
    for trial, end in zip(result.only.sequences, ends, strict=True):
        rows = robs[end - trial["length"] : end]
        start, stop = clocked["trials"][trial["trial"]]
        for neuron in (0, 1, 3):
            inside = ((trains[neuron] >= start) & (trains[neuron] < stop)).sum()
            assert abs(rows[:, neuron].sum() - inside) <= 4  # the trial begins and ends inside of a bin


def test_what_is_no_plain_array_is_refused_in_words(tmp_path, frames):
    scipy.io.savemat(tmp_path / "a.mat", frames | {"robs": scipy.sparse.csc_matrix(np.eye(600, 3))})
    with pytest.raises(RawInputError, match=r"robs: expected numbers, got csc_.*; .* a sparse array must be full"):
        convert(tmp_path, names=NAMES)


def test_another_file_of_that_name_is_refused_in_words(tmp_path, frames):
    save_session("mat", tmp_path, frames)
    (tmp_path / "b.mat").write_bytes(b"no MATLAB" * 100)
    result = convert(tmp_path, names=NAMES)
    (reject,) = result.rejects
    assert reject.reason == "unreadable_file"
    assert reject.detail.startswith("b.mat: not a readable MATLAB file: ")
