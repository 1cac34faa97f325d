from __future__ import annotations

from contextlib import ExitStack, closing

import h5py
import numpy as np
import pytest

from outofcore.domains.neural.recordings.arrays import SessionError, readable
from outofcore.domains.neural.recordings.hdf5 import Hdf5Recording
from outofcore.domains.neural.recordings.recording import find_array, find_vector


@pytest.fixture
def frames():
    return np.random.default_rng(0).integers(0, 256, (50, 4, 6)).astype(np.uint8)


@pytest.fixture
def opened(tmp_path):
    """Opens the file ``a.h5``, or another."""
    with ExitStack() as stack:
        yield lambda path=tmp_path / "a.h5": stack.enter_context(closing(Hdf5Recording(path)))


def test_slices_along_any_axis(opened, tmp_path, frames):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["stim"] = frames
        file["last"] = np.moveaxis(frames, 0, -1)
        file["big"] = np.arange(5, dtype=">f8")
        file["flags"] = np.array([True, False])
    recording = opened()
    assert recording.array("stim").shape == (50, 4, 6)
    assert np.array_equal(recording.array("stim").read(7, 19), frames[7:19])
    assert recording.array("last", 2).shape == (50, 4, 6)
    assert np.array_equal(recording.array("last", 2).read(7, 19), frames[7:19])
    assert recording.array("big").read(1, 3).dtype.isnative
    assert recording.array("flags").read(0, 2).tolist() == [1, 0]
    assert sorted(recording.names()) == ["big", "flags", "last", "stim"]


@pytest.mark.parametrize("locking", [None, "best-effort", True, False])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_that_is_open_in_the_program_is_read(opened, tmp_path, locking, mode):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["robs"] = np.arange(6.0)
    with h5py.File(tmp_path / "a.h5", mode, locking=locking):
        recording = opened()
        assert recording.array("robs").read(0, 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_matlab_axes_are_turned_back(opened, tmp_path, frames):
    path = tmp_path / "a.mat"
    references = h5py.special_dtype(ref=h5py.Reference)
    with h5py.File(path, "w", userblock_size=512) as file:
        stim = file.create_dataset("stim", data=frames.T)  # what MATLAB writes of a (50, 4, 6) array
        stim.attrs["MATLAB_class"] = np.bytes_("uint8")
        first = file.create_dataset("#refs#/a", data=np.array([[1.0, 2.5]]))
        second = file.create_dataset("#refs#/b", data=np.array([[4.0]]))
        for cell in (first, second):
            cell.attrs["MATLAB_class"] = np.bytes_("double")
        cells = file.create_dataset("spikes", (2, 1), dtype=references)
        cells[0, 0], cells[1, 0] = first.ref, second.ref
    recording = opened(path)
    assert recording.array("stim").shape == (50, 4, 6)
    assert np.array_equal(recording.array("stim").read(3, 9), frames[3:9])
    assert np.array_equal(recording.array("stim", 2).read(1, 3), np.moveaxis(frames, 2, 0)[1:3])
    trains = recording.trains("spikes")
    assert [train.read(0, 9).reshape(-1).tolist() for train in trains] == [[1.0, 2.5], [4.0]]
    assert sorted(recording.names()) == ["spikes", "stim"]
    with pytest.raises(SessionError, match="MATLAB cells"):
        recording.array("spikes")


def test_nothing_is_read_from_other_files(opened, tmp_path, frames):
    other, path = tmp_path / "other.h5", tmp_path / "a.h5"
    with h5py.File(other, "w") as file:
        file["secret/stim"] = frames
    raw = tmp_path / "raw.bin"
    raw.write_bytes(frames.tobytes())
    with h5py.File(path, "w") as file:
        file["inside/stim"] = frames
        file["link"] = h5py.ExternalLink("other.h5", "/secret/stim")
        file["group"] = h5py.ExternalLink("other.h5", "/secret")
        file["soft"] = h5py.SoftLink("/inside/stim")
        file["around"] = h5py.SoftLink("/group/stim")
        file["circle"] = h5py.SoftLink("/circle")
        file.create_dataset("outside", frames.shape, "u1", external=[(str(raw), 0, frames.nbytes)])
        layout = h5py.VirtualLayout(frames.shape, "u1")
        layout[:] = h5py.VirtualSource(str(other), "secret/stim", frames.shape)
        file.create_virtual_dataset("virtual", layout)
    recording = opened()
    assert np.array_equal(recording.array("soft").read(0, 50), frames)
    for name in ("link", "group/stim", "around", "outside", "virtual"):
        with pytest.raises(SessionError, match=r"another file|other files") as caught:
            recording.array(name)
        assert caught.value.reason == "external_link"
    with pytest.raises(KeyError):
        recording.array("circle")


def test_a_truncated_file_is_named_so(tmp_path, frames):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["stim"] = frames
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(SessionError, match=r"not a readable HDF5 file: .*truncated") as caught:
        Hdf5Recording(path)
    assert str(tmp_path) not in str(caught.value)


def test_a_missing_name_is_told_with_those_that_are_there(opened, tmp_path, frames):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["movie"] = frames
        file["t"] = np.arange(5.0)[:, None]
        file["note"] = 5
        file["type"] = np.dtype("f8")
    recording = opened()
    with pytest.raises(SessionError, match=r"names.stimulus = 'stim': no such array; there are movie, note, t"):
        find_array(recording, "stimulus", "stim")
    with pytest.raises(SessionError, match="expected an array of numbers, got a single value"):
        find_array(recording, "stimulus", "note")
    with pytest.raises(SessionError, match="'/type' is no array"):
        find_array(recording, "stimulus", "type")
    with pytest.raises(SessionError, match="expected a vector"):
        find_vector(recording, "trial", "movie")
    assert find_vector(recording, "frame_times", "t").read(1, 3).tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(0, 0), (0, 5)])
def test_an_empty_matrix_is_no_vector(opened, tmp_path, shape):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["trial"] = np.empty(shape)
    recording = opened()
    with pytest.raises(SessionError, match="expected a vector, got shape") as refused:
        find_vector(recording, "trial", "trial")
    assert refused.value.reason == "wrong_shape"


def test_a_chunk_too_large_for_memory_is_damaged(opened, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["stim"] = np.arange(5)
    recording = opened()
    array = recording.array("stim")
    monkeypatch.setattr(h5py.Dataset, "__getitem__", fail)
    with pytest.raises(OSError, match="entries 0 to 5"):
        array.read(0, 5)


def matlab(file, name, data, kind="double", **attributes):
    found = file.create_dataset(name, data=data)
    found.attrs.update({"MATLAB_class": np.bytes_(kind)} | attributes)
    return found


def test_what_matlab_stores_as_its_shape_is_empty_and_its_text_is_words(opened, tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        matlab(file, "none", np.array([0, 0], np.uint64), MATLAB_empty=np.uint8(1))
        matlab(file, "flat", np.array([0, 5], np.uint64), MATLAB_empty=np.uint8(1))
        matlab(file, "word", np.array([list(map(ord, "film"))], np.uint16).T, "char")
        cells = [file[name].ref for name in ("none", "none")]
        matlab(file, "cells", np.array([cells], h5py.ref_dtype), "cell")
    recording = opened(tmp_path / "a.mat")
    assert [recording.array(name).shape for name in ("none", "flat")] == [(0, 0), (0, 5)]
    assert [train.shape for train in recording.trains("cells")] == [(0, 0), (0, 0)]
    assert recording.array("word").read(0, 1).tolist() == ["film"]


@pytest.mark.parametrize("kind", ["string", "categorical", "datetime", "function_handle"])
def test_objects_of_matlab_are_refused_by_name(opened, tmp_path, kind):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        for name in ("film", "inside"):
            handles = file.create_dataset(name, data=np.array([[3707764736], [2], [1], [1], [1], [5]], np.uint32))
            handles.attrs["MATLAB_class"] = np.bytes_(kind)
            handles.attrs["MATLAB_object_decode"] = np.int32(3)
        cells = file.create_dataset("cells", (1, 2), h5py.ref_dtype)
        cells[0, 0] = cells[0, 1] = file["inside"].ref
    recording = opened(tmp_path / "a.mat")
    with pytest.raises(SessionError, match=f"'/film' is a MATLAB {kind}, an object"):
        recording.array("film")
    with pytest.raises(SessionError, match=f"'/inside' is a MATLAB {kind}, an object"):
        recording.cells("cells")


def test_a_virtual_dataset_of_this_file_is_read_if_it_is_whole(opened, tmp_path, frames):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["first"], file["second"] = frames[:20], frames[20:]
        for name, source in (("whole", "second"), ("gone", "third")):
            layout = h5py.VirtualLayout(frames.shape, "u1")
            layout[:20] = h5py.VirtualSource(".", "first", (20, 4, 6))
            layout[20:] = h5py.VirtualSource(".", source, (30, 4, 6))
            file.create_virtual_dataset(name, layout)
        layout = h5py.VirtualLayout(frames.shape, "u1")
        layout[:20] = h5py.VirtualSource(".", "first", (20, 4, 6))
        file.create_virtual_dataset("half", layout)
    recording = opened()
    assert np.array_equal(recording.array("whole").read(10, 40), frames[10:40])
    for name in ("gone", "half"):
        with pytest.raises(SessionError):
            recording.array(name)


def test_a_missing_filter_is_named(opened, tmp_path, frames, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("stim", data=frames, compression="lzf")
    recording = opened()
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: code != h5py.h5z.FILTER_LZF)
    with pytest.raises(SessionError, match=r"compressed with filter 32000 \(lzf\); install hdf5plugin"):
        recording.array("stim")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_entries_of_chunks_that_were_never_written_are_not_read(opened, tmp_path, axis):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("stim", (30, 30, 30), "u1", chunks=(10, 10, 10))
        data[tuple(slice(10, 20) if place == axis else slice(None) for place in range(3))] = 7
        data[:10, :10, :10] = 7  # of other chunks, not all
        file.create_dataset("never", (30,), "f8")
    recording = opened()
    assert np.flatnonzero(readable(recording.array("stim", axis), 0, 30)[1]).tolist() == list(range(10, 20))
    assert not readable(recording.array("never"), 0, 30)[1].any()


def test_words_are_one_array_and_ragged_rows_several(opened, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["words"] = ["film", "grating", "film"]
        ragged = file.create_dataset("ragged", (2,), h5py.vlen_dtype(np.float64))
        ragged[0], ragged[1] = np.arange(3.0), np.arange(2.0)
    recording = opened()
    assert recording.cells("words") is None
    assert recording.array("words").read(1, 3).tolist() == ["grating", "film"]
    assert [row.read(0, row.shape[0]).tolist() for row in recording.cells("ragged")] == [[0, 1, 2], [0, 1]]
