"""Sessions of NWB files, which pynwb writes."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pynwb
import pytest

from outofcore.errors import RawInputError
from tests.domains.neural.rig import convert, write_nwb

pytestmark = pytest.mark.filterwarnings("ignore")  # pynwb warns of its own ways


def test_neurons_may_be_named_by_words(clocked, write_h5):
    words = np.array([b"CA1-a", b"CA1-b", b"CA3", b"DG"])[clocked["spike_neurons"]]
    names = {"stimulus": "stim", "frame_times": "frame_times", "responses": None, "trial": "trials"}
    names |= {"spike_times": "spike_times", "spike_neurons": "spike_neurons"}
    by_number = convert(write_h5(clocked), names=names, bin_width=0.02)
    by_word = convert(write_h5(clocked | {"spike_neurons": words}), names=names, bin_width=0.02)
    assert sorted(by_word.only.rows["robs"].T.tolist()) == sorted(by_number.only.rows["robs"].T.tolist())


@pytest.mark.parametrize("clocked", [True, False])
def test_what_was_not_observed_does_not_count(tmp_path, clocked, capsys):
    draw, rate = np.random.default_rng(7), 20.0
    intervals = [[[0.0, 10.0]], [[0.0, 3.01], [3.01, 5.0], [8.0, 9.0]], [[2.0, 4.0]]]
    invalid = [(2.0, 3.0), (2.5, 3.5), (9.52, 9.53)]
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    movie = draw.integers(0, 256, (200, 3, 4)).astype(np.uint8)
    file.add_stimulus(pynwb.image.ImageSeries(name="movie", data=movie, unit="n/a", rate=rate, starting_time=0.0))
    file.add_acquisition(pynwb.TimeSeries(name="dff", data=np.ones((200, 3)), unit="n/a", rate=rate, starting_time=0.0))
    for each in intervals:
        file.add_unit(spike_times=np.arange(0.0125, 10, 0.025), obs_intervals=each)
    for start, stop in invalid:
        file.add_invalid_time_interval(start_time=start, stop_time=stop)
    names = {"stimulus": "stimulus/presentation/movie", "responses": "acquisition/dff"}
    if clocked:
        names |= {"responses": None, "spike_times": "units"}
    result = convert(write_nwb(tmp_path, file), names=names, bin_width=0.05 if clocked else None)
    observed = np.zeros((3, 10_000), bool)  # in milliseconds
    for unit, each in enumerate(intervals):
        for start, stop in each:
            observed[unit, round(start * 1000) : round(stop * 1000)] = True
    for start, stop in invalid:
        observed[:, round(start * 1000) : round(stop * 1000)] = False
    expected = observed.reshape(3, 200, 50).all(2).T
    if not clocked:  # of samples, the moments count
        expected = np.repeat(observed[0, ::50][:, None], 3, axis=1)
    rows = result.only.rows
    assert np.array_equal(rows["dfs"], expected)
    assert np.array_equal(rows["robs"], expected * (2 if clocked else 1))
    assert not result.rejects
    assert "invalid_times" not in capsys.readouterr().err  # among what is not read


def test_units_without_intervals_count_where_they_fired(tmp_path):
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    movie = np.zeros((100, 3, 4), np.uint8)
    file.add_stimulus(pynwb.image.ImageSeries(name="movie", data=movie, unit="n/a", rate=10.0, starting_time=0.0))
    file.add_unit(spike_times=[0.5, 1.5, 2.5], obs_intervals=[[0.0, 5.0]])
    file.add_unit(spike_times=[0.5, 7.5], obs_intervals=np.empty((0, 2)))
    file.add_unit(spike_times=[], obs_intervals=np.empty((0, 2)))
    names = {"stimulus": "stimulus/presentation/movie", "responses": None, "spike_times": "units"}
    result = convert(write_nwb(tmp_path, file), names=names, bin_width=0.1)
    assert result.only.rows["dfs"].sum(0).tolist() == [50, 100, 0]


def test_without_a_stimulus_or_trials_the_intervals_of_the_units_state_what_was_recorded(tmp_path):
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    file.add_unit_column("quality", "x")
    file.add_unit(spike_times=[2.5, 3.5], obs_intervals=[[1.0, 5.0], [6.0, 9.0]], quality="good")
    file.add_unit(spike_times=[7.5], obs_intervals=[[2.0, 10.0]], quality="noise")
    names = {"stimulus": None, "responses": None, "spike_times": "units"}
    path = write_nwb(tmp_path, file)
    rows = convert(path, names=names, bin_width=0.5).only.rows
    edges = np.arange(1, 10.5, 0.5)
    assert np.array_equal(rows["robs"], np.stack([np.histogram(each, edges)[0] for each in ([2.5, 3.5], [7.5])], 1))
    observed = [(edges[:-1] < 5) | ((edges[:-1] >= 6) & (edges[:-1] < 9)), edges[:-1] >= 2]
    assert np.array_equal(rows["dfs"], np.stack(observed, 1))
    good = convert(path, names=names, bin_width=0.5, units=[{"column": "quality", "values": ["good"]}]).only.rows
    assert np.array_equal(good["dfs"][:, 0], rows["dfs"][:, 0])


def test_nwb_in_milliseconds_must_be_corrected_in_the_file(tmp_path):
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    movie, times = np.zeros((100, 3, 4), np.uint8), np.arange(100) * 16_000.0
    file.add_stimulus(pynwb.image.ImageSeries(name="movie", data=movie, unit="n/a", timestamps=times))
    file.add_unit(spike_times=[0.5, 7.5])
    names = {"stimulus": "stimulus/presentation/movie", "responses": None, "spike_times": "units"}
    with pytest.raises(
        RawInputError, match="the times of this format are in s, and those of this file are not"
    ) as refused:
        convert(write_nwb(tmp_path, file), names=names, bin_width=0.1)
    assert "time_unit" not in str(refused.value)


@pytest.mark.parametrize("longer", ["trials", "behavior"])
def test_exchanged_axes_on_a_regular_clock_are_refused(tmp_path, longer):
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    traces = np.random.default_rng(0).normal(size=(3, 200))
    file.add_acquisition(pynwb.TimeSeries(name="dff", data=traces, unit="n/a", rate=10.0, starting_time=0.0))
    file.add_acquisition(pynwb.TimeSeries(name="run", data=np.arange(200.0), unit="n/a", rate=10.0, starting_time=0.0))
    for start in range(4):
        file.add_trial(start_time=5.0 * start, stop_time=5.0 * start + 5)
    names = {"stimulus": None, "responses": "acquisition/dff", "trial": None}
    names |= {"trial": "intervals/trials"} if longer == "trials" else {"behavior": "acquisition/run"}
    path = write_nwb(tmp_path, file)
    noun = {"trials": "trials", "behavior": "the behaviour"}[longer]
    expected = rf"3 samples at 10 Hz last 0.3 s, {noun} 20 s: .* set source.time_axis: \{{responses: 1\}}"
    with pytest.raises(RawInputError, match=expected):
        convert(path, names=names, bin_width=0.1)
    result = convert(path, names=names, bin_width=0.1, time_axis={"responses": 1})
    rows = result.only.rows  # behaviour is unknown after its last sample
    np.testing.assert_array_equal(rows["robs"], np.where(rows["dfs"], traces.T, 0).astype(np.float32))
    assert rows["dfs"][:199].all()
