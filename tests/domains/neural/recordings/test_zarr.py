from __future__ import annotations

import numpy as np
import pytest
import zarr

from outofcore.domains.neural.recordings.arrays import SessionError, readable
from outofcore.domains.neural.recordings.zarr import ZarrRecording

FRAMES = np.random.default_rng(0).integers(0, 256, (60, 4, 6)).astype(np.uint8)


@pytest.mark.parametrize("version", [2, 3])
def test_groups_of_both_versions(tmp_path, version):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    group.create_array("stim", data=FRAMES, chunks=(8, 4, 6))
    group.create_array("late", data=np.moveaxis(FRAMES, 0, 1), chunks=(4, 8, 6))
    trains = group.create_group("spikes")
    for name, times in {"10": [3.0], "2": [1.0, 2.0]}.items():
        trains.create_array(name, data=np.array(times))
    recording = ZarrRecording(tmp_path / "a.zarr")
    assert recording.names() == ["late", "spikes/2", "spikes/10", "stim"]
    assert np.array_equal(recording.array("stim").read(5, 30), FRAMES[5:30])
    assert np.array_equal(recording.array("late", 1).read(5, 30), FRAMES[5:30])
    assert [train.read(0, train.shape[0]).tolist() for train in recording.trains("spikes")] == [[1.0, 2.0], [3.0]]
    with pytest.raises(KeyError):
        recording.array("nothing")
    with pytest.raises(SessionError, match="is a group"):
        recording.array("spikes")


def test_a_damaged_chunk_costs_its_own_entries(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("stim", data=FRAMES, chunks=(10, 4, 6))
    chunk = tmp_path / "a.zarr" / "stim" / "c" / "2" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-40])
    values, fine = readable(ZarrRecording(tmp_path / "a.zarr").array("stim"), 0, 60)
    assert np.flatnonzero(~fine).tolist() == list(range(20, 30))
    assert np.array_equal(values[fine], FRAMES[fine])


def test_what_is_no_group_is_told(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(SessionError, match="not a readable Zarr group"):
        ZarrRecording(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("version", "shards"), [(2, None), (3, None), (3, (40, 40)), (3, {"shape": (40, 40), "index_location": "start"})]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_entries_of_chunks_that_were_never_written_are_not_read(tmp_path, version, shards, axis):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    array = group.create_array("in/robs", shape=(60, 60), dtype="f4", chunks=(10, 20), shards=shards)
    array[(slice(20, 40), slice(None)) if axis == 0 else (slice(None), slice(20, 40))] = 1
    array[:10, :20] = 1  # of other chunks, not all
    found = ZarrRecording(tmp_path / "a.zarr").array("in/robs", axis)
    assert np.flatnonzero(readable(found, 0, 60)[1]).tolist() == list(range(20, 40))


def test_a_shape_that_was_never_written_is_refused(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("stim", shape=(10**12, 4), dtype="f4", chunks=(10**6, 4))
    with pytest.raises(
        SessionError, match="has 16000000000000 bytes of values, of which 0 bytes are stored"
    ) as refused:
        ZarrRecording(tmp_path / "a.zarr").array("stim")
    assert refused.value.reason == "too_large"


@pytest.mark.parametrize("version", [2, 3])
def test_a_single_value_has_no_chunk_along_time(tmp_path, version):
    zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version).create_array("rate", data=np.float32(3))
    assert ZarrRecording(tmp_path / "a.zarr").array("rate").shape == ()
