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


def test_fields_of_structs_are_told(tmp_path, frames):
    scipy.io.savemat(tmp_path / "a.mat", {"session": {"stim": frames["stim"], "spikes": {"robs": frames["robs"]}}})
    names = {"stimulus": "session/stim", "responses": "session/robs"}
    there = "there are session/stim, session/spikes/robs"
    with pytest.raises(RawInputError, match=f"names.responses = 'session/robs': no such array; {there}"):
        convert(tmp_path, names=names)


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


def test_arrays_in_a_file_each_are_to_be_saved_together(tmp_path, frames):
    for name, values in frames.items():
        scipy.io.savemat(tmp_path / f"{name}.mat", {name: values})
    told = r"there are \w+; a session is one file, or one folder of .npy: save its arrays together"
    with pytest.raises(RawInputError, match=told):
        convert(tmp_path, names=NAMES)
