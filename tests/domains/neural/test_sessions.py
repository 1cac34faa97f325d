from __future__ import annotations

import numpy as np
import pytest
import zarr

from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NameSection, SourceSection
from outofcore.domains.neural.sessions import find_sessions
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files

NAMES = NameSection(stimulus="data/stim/*", responses="robs")


def found(root, names=NAMES):
    files = find_files(root, "**/*", DOMAIN.suffixes, section="neural")
    return files, find_sessions(files, SourceSection(names=names))


def test_files_are_grouped_into_sessions(tmp_path):
    for name in ("one.h5", "deep/two.nwb", "deep/three.npz", "four.MAT", "notes.txt", "archive.tar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for name in ("mouse/day1/data/stim/0.npy", "mouse/day1/data/stim/1.npy", "mouse/day1/robs.npy", "mouse/robs.npy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, np.zeros(2))
    zarr.open_group(tmp_path / "five.zarr", mode="w").create_array("a/b", data=np.ones((3, 4)), chunks=(2, 4))
    files, sessions = found(tmp_path)
    assert {(session.name, session.kind, session.members) for session in sessions if session.kind != "none"} == {
        ("one", "hdf5", ()),
        ("deep-two", "nwb", ()),
        ("deep-three", "npz", ()),
        ("four", "mat", ()),
        ("mouse-day1", "folder", ("data/stim/0.npy", "data/stim/1.npy", "robs.npy")),
        ("mouse", "folder", ("robs.npy",)),
        ("five", "zarr", ("a/b/c/0/0", "a/b/c/1/0", "a/b/zarr.json", "a/zarr.json", "zarr.json")),
    }
    assert {session.file for session in sessions if session.kind == "none"} == {"notes.txt", "archive.tar"}
    assert sum(session.bytes for session in sessions) == sum(file.bytes for file in files)
    assert all(files[session.source].name == session.file for session in sessions)
    assert sorted(number for session in sessions for number in (session.source, *session.others)) == [
        *range(len(files))
    ]


def test_a_folder_without_recordings_lists_kinds_that_users_know(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x")
    with pytest.raises(RawInputError) as told:
        found(tmp_path)
    kinds = str(told.value).split(" has no file of ")[1].split(" (")[0]
    assert {"*.h5", "*.nwb", "*.zarr", "*.npy", "*.txt"} <= {*kinds.split(", ")}
    assert all(kind.startswith("*.") for kind in kinds.split(", "))  # no part of a Zarr, such as zarr.json


def test_raw_may_be_a_session_itself(tmp_path):
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("stim", data=np.zeros((3, 4)))
    _, sessions = found(tmp_path / "a.zarr")
    assert [(session.kind, session.root, session.name) for session in sessions] == [
        ("zarr", tmp_path / "a.zarr", "session")
    ]
    (tmp_path / "b.h5").write_bytes(b"x")
    _, sessions = found(tmp_path / "b.h5")
    assert [(session.kind, session.name) for session in sessions] == [("hdf5", "b")]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.h5", "a.npz", "a.nwb"], {"a", "a-2", "a-3"}),
        (["train.h5", "sources.h5"], {"train-2", "sources-2"}),
        (["Maus 3, links (ä).h5", "..h5"], {"Maus_3_links_", "session"}),
    ],
)
def test_parts_have_names_of_their_own_that_any_system_takes(tmp_path, files, names):
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    assert {session.name for session in found(tmp_path)[1]} == names


def test_no_session_has_the_name_of_a_file_of_the_store(tmp_path):
    for name in ("seal.json.h5", "zarr.json.h5", "checksums.npz", "train.mat"):
        (tmp_path / name).write_bytes(b"x")
    assert sorted(each.name for each in found(tmp_path)[1]) == ["checksums-2", "seal.json-2", "train-2", "zarr.json-2"]
