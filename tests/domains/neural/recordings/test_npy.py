from __future__ import annotations

import zipfile
from contextlib import closing

import numpy as np
import pytest

from outofcore.domains.neural.recordings import npy
from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.domains.neural.recordings.npy import NpzRecording, npy_array

FRAMES = np.random.default_rng(0).integers(0, 256, (700, 40, 60)).astype(np.uint8)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_members_are_read_in_slices(tmp_path, save):
    path = tmp_path / "a.npz"
    save(path, stim=FRAMES, robs=np.arange(1400.0).reshape(700, 2))
    recording = NpzRecording(path)
    assert recording.one_reader == (save is np.savez_compressed)
    assert recording.names() == ["stim", "robs"]
    stim = recording.array("stim")
    for start, stop in [(0, 5), (3, 400), (380, 700), (10, 12), (699, 700), (5, 5)]:
        assert np.array_equal(stim.read(start, stop), FRAMES[start:stop])
    assert recording.array("robs.npy").read(690, 700)[-1].tolist() == [1398, 1399]
    with pytest.raises(KeyError):
        recording.array("behavior")
    recording.close()


def test_time_may_be_last_and_columns_first(tmp_path):
    np.savez(tmp_path / "a.npz", stim=np.moveaxis(FRAMES, 0, 2), turned=np.asfortranarray(FRAMES))
    with closing(NpzRecording(tmp_path / "a.npz")) as recording:
        assert np.array_equal(recording.array("stim", 2).read(100, 110), FRAMES[100:110])
        assert np.array_equal(recording.array("turned").read(100, 110), FRAMES[100:110])
    np.savez_compressed(tmp_path / "b.npz", stim=np.moveaxis(FRAMES, 0, 2))
    with closing(NpzRecording(tmp_path / "b.npz")) as recording:
        assert np.array_equal(recording.array("stim", 2).read(100, 110), FRAMES[100:110])


def test_pickles_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", stim=np.array([{}, []], object))
    np.save(tmp_path / "a.npy", np.array([{}, []], object))
    with closing(NpzRecording(tmp_path / "a.npz")) as recording, pytest.raises(SessionError, match="never loaded"):
        recording.array("stim")
    with pytest.raises(SessionError, match="never loaded"):
        npy_array(tmp_path / "a.npy", "a", 0)


def test_truncated_files_are_told(tmp_path):
    np.save(tmp_path / "a.npy", FRAMES)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-1000])
    with pytest.raises(
        SessionError, match="truncated: its header tells 1680000 bytes of values, the file holds 1679000"
    ):
        npy_array(tmp_path / "a.npy", "a", 0)
    np.savez(tmp_path / "a.npz", stim=FRAMES)
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-1000])
    with pytest.raises(SessionError, match=r"not a readable \.npz archive"):
        NpzRecording(tmp_path / "a.npz")


def test_a_damaged_or_large_compressed_member_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, stim=FRAMES)
    monkeypatch.setattr(npy, "WHOLE_BYTES", FRAMES.nbytes)
    large = pytest.raises(SessionError, match=r"compressed as one stream, .*; save it as \.npy")
    with closing(NpzRecording(path)) as recording, large as refused:
        recording.array("stim")
    assert refused.value.reason == "too_large"
    monkeypatch.undo()
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3 : len(content) * 2 // 3 + 50] = bytes(50)
    path.write_bytes(content)
    damaged = pytest.raises(SessionError, match="stim: cannot be read, the archive is damaged")
    with closing(NpzRecording(path)) as recording, damaged:
        recording.array("stim")


def test_an_archive_of_an_absurd_version_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", stim=FRAMES)
    content = (tmp_path / "a.npz").read_bytes()
    entry = content.index(b"PK\x01\x02")
    (tmp_path / "a.npz").write_bytes(content[: entry + 6] + b"\xad" + content[entry + 7 :])
    with pytest.raises(SessionError, match=r"not a readable \.npz archive: zip file version 17\.3"):
        NpzRecording(tmp_path / "a.npz")


def test_the_directory_of_an_archive_is_read_once_for_all_members(tmp_path, monkeypatch):
    """With one train of spikes per member, an archive has thousands."""
    np.savez(tmp_path / "a.npz", **{f"train_{number}": np.arange(number) for number in range(30)})
    with closing(NpzRecording(tmp_path / "a.npz")) as archive:
        monkeypatch.setattr(zipfile, "ZipFile", None)
        assert [archive.array(name).shape[0] for name in archive.names()] == list(range(30))
