"""Trials by times where a bin is a frame."""

from __future__ import annotations

from datetime import UTC, datetime

import h5py
import numpy as np
import pynwb
import pytest

from tests.domains.neural.rig import convert, write_nwb


def test_times_of_trials_are_on_the_clock_of_the_frames(tmp_path):
    moments = np.arange(200) / 20 + 1.0
    moments[45] = np.nan
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    series = {"unit": "n/a", "timestamps": moments}
    file.add_stimulus(pynwb.TimeSeries(name="movie", data=np.arange(200, dtype=np.uint8)[:, None], **series))
    file.add_acquisition(pynwb.TimeSeries(name="dff", data=np.arange(200.0)[:, None], **series))
    # From a frame to a frame, between frames and at a missing one, from before the first, and behind the last.
    for start, stop in ((2.0, 3.0), (3.24, 4.01), (0.5, 1.2), (12.0, 13.0), (10.0, 99.0)):
        file.add_trial(start_time=start, stop_time=stop)
    names = {"stimulus": "stimulus/presentation/movie", "responses": "acquisition/dff", "trial": "intervals/trials"}
    result = convert(write_nwb(tmp_path, file), names=names)
    spans = [(each["trial"], each["offset"], each["offset"] + each["length"]) for each in result.only.sequences]
    assert spans == [(2, 0, 4), (0, 20, 40), (1, 46, 61), (4, 180, 200)]
    assert result.reasons == {"no_bin": 1}
    assert result.only.rows["robs"][:, 0].tolist() == [*range(4), *range(20, 40), *range(46, 61), *range(180, 200)]


def test_a_trial_that_stops_after_the_last_frame_holds_all_frames(tmp_path):
    moments = np.arange(44) / 20 + 1.0  # four of them without a frame
    with h5py.File(tmp_path / "a.nwb", "w") as file:
        for name, data in (("movie", np.arange(40, dtype=np.uint8)), ("dff", np.arange(40.0))):
            file[f"{name}/data"], file[f"{name}/timestamps"] = data[:, None], moments
        file["trials/start_time"], file["trials/stop_time"] = [1.0, 2.0], [2.0, 2.98]
    result = convert(tmp_path / "a.nwb", names={"stimulus": "movie", "responses": "dff", "trial": "trials"})
    assert [(each["offset"], each["length"]) for each in result.only.sequences] == [(0, 20), (20, 20)]
    assert result.only.rows["robs"][:, 0].tolist() == [*range(40)]


@pytest.mark.parametrize("clocked", [True, False])
def test_a_trial_that_ends_where_it_begins_has_no_time(frames, write_h5, clocked):
    edges = np.array([[10, 20], [20, 20], [30, 25], [40, 60]])
    arrays = {name: frames[name] for name in ("stim", "robs")} | {"trials": edges, "times": np.arange(600)}
    names = {"stimulus": "stim", "responses": "robs", "trial": "trials"}
    if clocked:
        names |= {"frame_times": "times", "sample_times": "times"}
    result = convert(write_h5(arrays), names=names, bin_width=1.0 if clocked else None)
    assert [(each["offset"], each["length"]) for each in result.only.sequences] == [(10, 10), (40, 20)]
    assert [(each.reason, each.offset) for each in result.rejects] == [("no_time", 1), ("no_time", 2)]
