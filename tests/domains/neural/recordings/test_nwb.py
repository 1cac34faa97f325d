"""Against pynwb, which writes the files and reads them too."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import h5py
import numpy as np
import pytest

pynwb = pytest.importorskip("pynwb")

from outofcore.domains.neural.recordings.arrays import SessionError  # noqa: E402 - pynwb may be absent
from outofcore.domains.neural.recordings.nwb import NwbRecording  # noqa: E402 - pynwb may be absent

pytestmark = pytest.mark.filterwarnings("ignore")  # pynwb warns of its own ways


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    generator = np.random.default_rng(0)
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    file.add_stimulus(
        pynwb.image.ImageSeries(
            name="movie",
            data=generator.integers(0, 256, (40, 5, 6)).astype(np.uint8),
            unit="n/a",
            rate=50.0,
            starting_time=1.5,
        )
    )
    file.add_acquisition(
        pynwb.TimeSeries(
            name="trace",
            data=generator.normal(size=(100, 3)),
            unit="V",
            conversion=0.001,
            offset=2.0,
            timestamps=np.arange(100) * 0.01 + 1.5,
        )
    )
    file.add_acquisition(
        pynwb.image.ImageSeries(
            name="outside",
            external_file=["a.png", "b.png"],
            starting_frame=[0, 1],
            format="external",
            timestamps=[0.0, 1.0],
            unit="n/a",
        )
    )
    for spikes in ([1.6, 1.7, 2.0], [], [1.55]):
        file.add_unit(spike_times=spikes)
    file.add_trial_column("image", "what was shown")
    for number in range(4):
        file.add_trial(start_time=1.5 + number * 0.2, stop_time=1.65 + number * 0.2, image=f"picture {number % 2}")
    where = tmp_path_factory.mktemp("nwb") / "a.nwb"
    with pynwb.NWBHDF5IO(where, "w") as io:
        io.write(file)
    return where


@pytest.fixture
def recording(path):
    opened = NwbRecording(path)
    yield opened
    opened.close()


def test_series_are_those_of_pynwb(path):
    with pynwb.NWBHDF5IO(path, "r") as io:
        file = io.read()
        movie, trace = file.stimulus["movie"].data[:], file.acquisition["trace"].get_data_in_units()
        timestamps = file.acquisition["trace"].timestamps[:]
    recording = NwbRecording(path)
    assert np.array_equal(recording.array("stimulus/presentation/movie").read(3, 9), movie[3:9])
    np.testing.assert_array_equal(recording.array("acquisition/trace").read(10, 20), trace[10:20])
    clock = recording.clock("acquisition/trace", 100)
    np.testing.assert_allclose(clock.read(0, 100) / 1e9, timestamps, atol=1e-9)
    regular = recording.clock("stimulus/presentation/movie", 50)
    assert regular.read(0, 3).tolist() == [1_500_000_000, 1_520_000_000, 1_540_000_000]
    recording.close()


def test_trials_and_their_columns(recording):
    table = recording.array("intervals/trials").read(0, 4)
    np.testing.assert_allclose(table[:, 1] - table[:, 0], 0.15)
    assert recording.array("intervals/trials/image").read(1, 3).tolist() == ["picture 1", "picture 0"]
    assert {"units", "intervals/trials", "acquisition/trace", "stimulus/presentation/movie"} <= set(recording.names())


def test_frames_in_other_files_are_refused(recording):
    with pytest.raises(SessionError, match="keeps its frames in 2 other files"):
        recording.array("acquisition/outside")


def _replaced(file, name, **made):
    attributes = dict(file[name].attrs)
    del file[name]
    file.create_dataset(name, **made).attrs.update(attributes)


@pytest.mark.parametrize("shape", [(-1, 1), (1, -1)], ids=["columns", "rows"])
def test_vectors_may_be_stored_as_columns_or_rows(path, tmp_path, shape):
    with h5py.File(shutil.copy(path, tmp_path / "b.nwb"), "r+") as file:
        for name in (
            "acquisition/trace/timestamps",
            "stimulus/presentation/movie/starting_time",
            "units/spike_times",
            "units/spike_times_index",
        ):
            _replaced(file, name, data=file[name][()].reshape(shape))
    plain, reshaped = NwbRecording(path), NwbRecording(tmp_path / "b.nwb")
    for series in ("acquisition/trace", "stimulus/presentation/movie"):
        clocks = [recording.clock(series, 40).read(3, 40).tolist() for recording in (plain, reshaped)]
        assert clocks[0] == clocks[1]
    trains = [[train.read(0, 9).tolist() for train in recording.trains("units")] for recording in (plain, reshaped)]
    assert trains[0] == trains[1]
    plain.close()
    reshaped.close()


def _started(file, **attributes):
    """Exchange the timestamps of the trace for a start."""
    del file["acquisition/trace/timestamps"]
    file["acquisition/trace"].create_dataset("starting_time", data=0.0).attrs.update(attributes)


def _moved(file, name, target):
    del file[name]
    file[name] = target


TRACE = r"acquisition/trace|timestamps"
ENDS = "spike_times_index"
CHANGES = {
    "a group for the data": (lambda file: _moved(file, "acquisition/trace/data", file["units"]), TRACE),
    "timestamps that lead nowhere": (
        lambda file: _moved(file, "acquisition/trace/timestamps", h5py.SoftLink("timestamps")),
        TRACE,
    ),
    "a conversion that is a word": (
        lambda file: file["acquisition/trace/data"].attrs.create("conversion", "?"),
        TRACE,
    ),
    "timestamps in a table": (
        lambda file: _replaced(file, "acquisition/trace/timestamps", data=np.zeros((100, 2))),
        TRACE,
    ),
    "a start without a rate": (_started, TRACE),
    "a rate of 0": (lambda file: _started(file, rate=0.0), TRACE),
    "channels of terabytes": (
        lambda file: file.create_dataset("acquisition/trace/channel_conversion", (1 << 40,), "f8", chunks=(16,)),
        TRACE,
    ),
    "one spike time": (lambda file: _replaced(file, "units/spike_times", data=3.0), "a time for each spike, got shape"),
    "a table of spike times": (
        lambda file: _replaced(file, "units/spike_times", data=np.zeros((5, 2))),
        "a time for each spike, got shape",
    ),
    "no spike times": (lambda file: file.pop("units/spike_times"), "units/spike_times leads to nothing"),
} | {
    f"ends of units {ends}": (lambda file, ends=ends: _replaced(file, "units/spike_times_index", data=ends), ENDS)
    for ends in ([9, 1, 4], [3, 3, 5], [-1, 3, 4], [3.0, np.nan, 4.0])
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_makes_no_sense_costs_its_session_and_says_why(path, tmp_path, change):
    make, words = CHANGES[change]
    with h5py.File(shutil.copy(path, tmp_path / "b.nwb"), "r+") as file:
        make(file)
    recording = NwbRecording(tmp_path / "b.nwb")
    with pytest.raises(SessionError, match=words):  # noqa: PT012 - one of them refuses
        recording.array("acquisition/trace")
        recording.clock("acquisition/trace", 100)
        recording.trains("units")
    recording.close()


def test_a_start_without_a_stop_makes_no_intervals(path, tmp_path):
    with h5py.File(shutil.copy(path, tmp_path / "b.nwb"), "r+") as file:
        file.create_group("acquisition/trace/start_time")
    recording = NwbRecording(tmp_path / "b.nwb")
    assert recording.array("acquisition/trace").shape == (100, 3)
    recording.close()
