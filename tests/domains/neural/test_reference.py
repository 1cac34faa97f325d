"""Audits of archives and of NWB files."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime

import h5py
import numpy as np
import pynwb
import pytest

from outofcore.domains.neural import DOMAIN, oracle, reference
from outofcore.domains.neural.params import NameSection
from outofcore.domains.neural.recordings import arrays
from outofcore.domains.neural.sessions import find_sessions
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files
from tests.domains.neural.rig import NAMES, convert, save_session, write_nwb


@pytest.mark.parametrize("held", [0, reference.HELD_BYTES])
@pytest.mark.parametrize("kind", ["npz", "compressed"])
def test_an_audit_opens_an_archive_as_often_for_many_bins_as_for_few(tmp_path, frames, kind, held, monkeypatch):
    monkeypatch.setattr(reference, "HELD_BYTES", held)
    opened = []
    plain = zipfile.ZipFile.open
    monkeypatch.setattr(
        zipfile.ZipFile, "open", lambda self, *more, **named: opened.append(1) or plain(self, *more, **named)
    )
    settings = {"names": {"stimulus": "stim", "responses": "robs"}, "trial_bins": 5}
    result = convert(save_session(kind, tmp_path, frames), **settings)
    assert result.audited == 120
    assert not result.differences
    assert len(opened) < 20


def test_an_audit_of_another_file_of_the_same_name_reads_that_one(tmp_path, frames):
    for value in (0.0, 1.0):
        frames["robs"] += value
        result = convert(save_session("compressed", tmp_path, frames), names=NAMES)
        assert np.array_equal(result.only.rows["robs"], frames["robs"])
        assert not result.differences


@pytest.mark.parametrize("held", [0, reference.HELD_BYTES])
def test_archives_of_any_order_and_axis_are_audited(tmp_path, frames, held, monkeypatch):
    monkeypatch.setattr(reference, "HELD_BYTES", held)
    for order, axis in (("F", 0), ("F", 2), ("C", 1), ("C", 2)):
        stim = np.asarray(np.moveaxis(frames["stim"], 0, axis), order=order)
        folder = tmp_path / f"{order}{axis}"
        folder.mkdir()
        result = convert(
            save_session("npz", folder, frames | {"stim": stim}), names=NAMES, time_axis={"stimulus": axis}
        )
        assert np.array_equal(result.only.rows["stim"], frames["stim"])
        assert result.audited == 12
        assert not result.differences


def test_series_of_nwb_may_keep_time_last(tmp_path):
    generator = np.random.default_rng(0)
    movie, dff = generator.integers(0, 256, (200, 5)).astype(np.uint8), generator.normal(size=(300, 4))
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    file.add_stimulus(pynwb.TimeSeries(name="movie", data=movie.T, unit="n/a", rate=20.0, starting_time=-3.0))
    file.add_acquisition(pynwb.TimeSeries(name="dff", data=dff.T, unit="n/a", rate=30.0, starting_time=-3.0))
    names = {"stimulus": "stimulus/presentation/movie", "responses": "acquisition/dff"}
    result = convert(write_nwb(tmp_path, file), names=names, bin_width=0.1, time_axis={"stimulus": 1, "responses": 1})
    assert np.array_equal(result.only.rows["stim"][:, 0], movie[1::2])
    traces = dff.reshape(100, 3, 4).mean(1)
    np.testing.assert_allclose(result.only.rows["robs"], traces, rtol=1e-5, atol=1e-6)
    assert result.audited
    assert not result.differences


def test_pictures_of_nwb_are_shown_by_number(tmp_path):
    draw = np.random.default_rng(5)
    pictures, shown = draw.integers(0, 256, (7, 4, 5)).astype(np.uint8), draw.integers(0, 7, 100)
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    images = [pynwb.image.GrayscaleImage(name=f"scene{9 - n}", data=each) for n, each in enumerate(pictures)]
    order = pynwb.base.ImageReferences(name="order_of_images", data=images)
    scenes = pynwb.base.Images(name="scenes", images=images, description="x", order_of_images=order)
    file.add_stimulus_template(scenes)
    file.add_stimulus(
        pynwb.image.IndexSeries(
            name="shown", data=shown.astype(np.uint32), indexed_images=scenes, unit="N/A", rate=20.0
        )
    )
    file.add_unit(spike_times=np.sort(draw.uniform(0, 5, 300)))
    names = {"stimulus": "stimulus/templates/scenes", "frame": "stimulus/presentation/shown"}
    path = write_nwb(tmp_path, file)
    result = convert(path, names=names | {"responses": None, "spike_times": "units"}, bin_width=0.05)
    assert np.array_equal(result.only.rows["stim"], pictures[shown])
    assert result.audited
    assert not result.differences
    with h5py.File(path, "r+") as changed:
        del changed["stimulus/templates/scenes/scene5"]
        changed.create_dataset("stimulus/templates/scenes/scene5", data=np.zeros((2, 2), np.uint8))
    with pytest.raises(RawInputError, match=r"order_of_images|pictures of one shape"):
        convert(path, names=names | {"responses": None, "spike_times": "units"}, bin_width=0.05)


def test_series_and_units_of_nwb_are_audited_in_their_unit(tmp_path):
    generator = np.random.default_rng(1)
    traces, moments = generator.integers(-99, 99, (300, 4)).astype(np.int16), 1 + np.arange(300) / 30
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    file.add_stimulus(
        pynwb.TimeSeries(
            name="movie",
            data=generator.integers(0, 9, (200, 5)).astype(np.uint8),
            unit="n/a",
            rate=20.0,
            starting_time=1.0,
        )
    )
    file.add_acquisition(
        pynwb.TimeSeries(name="lfp", data=traces, unit="V", conversion=0.25, offset=3.0, timestamps=moments)
    )
    spikes = [np.sort(generator.uniform(1, 11, size)) for size in (400, 0, 250)]
    for train in spikes:
        file.add_unit(spike_times=train)
    path, names = write_nwb(tmp_path, file), {"stimulus": "stimulus/presentation/movie"}
    by_trace = convert(path, names=names | {"responses": "acquisition/lfp"}, bin_width=0.1)
    expected = traces.reshape(100, 3, 4).mean(1) * 0.25 + 3
    np.testing.assert_allclose(by_trace.only.rows["robs"], expected, rtol=1e-5, atol=1e-5)
    by_spike = convert(path, names=names | {"responses": None, "spike_times": "units"}, bin_width=0.1)
    assert by_spike.only.rows["robs"].sum(0).tolist() == [400, 0, 250]
    for result in (by_trace, by_spike):
        assert result.audited
        assert not result.differences


def test_neurons_may_be_named_by_words(clocked, write_h5):
    words = np.array([b"CA1-a", b"CA1-b", b"CA3", b"DG"])[clocked["spike_neurons"]]
    names = {"stimulus": "stim", "frame_times": "frame_times", "responses": None, "trial": "trials"}
    names |= {"spike_times": "spike_times", "spike_neurons": "spike_neurons"}
    by_number = convert(write_h5(clocked), names=names, bin_width=0.02)
    by_word = convert(write_h5(clocked | {"spike_neurons": words}), names=names, bin_width=0.02)
    assert sorted(by_word.only.rows["robs"].T.tolist()) == sorted(by_number.only.rows["robs"].T.tolist())
    assert by_word.audited == by_number.audited == 3
    assert not by_word.differences


def write_plain_nwb(path, generator):
    """A session with series, units and trials in an NWB file, written without pynwb."""
    with h5py.File(path, "w") as file:
        file.attrs["nwb_version"] = "2.6.0"
        movie = file.create_group("stimulus/presentation/movie")
        movie["data"] = generator.integers(0, 256, (200, 5)).astype(np.uint8)
        movie["starting_time"] = 1.0
        movie["starting_time"].attrs["rate"] = 20.0
        lfp = file.create_group("acquisition/lfp")
        lfp["data"] = generator.integers(-99, 99, (300, 4)).astype(np.int16)
        lfp["data"].attrs.update({"conversion": 0.25, "offset": 3.0})
        lfp["channel_conversion"] = np.array([1.0, 2.0, 3.0, 4.0])
        lfp["timestamps"] = 1 + np.arange(300) / 30
        units = file.create_group("units")
        units["spike_times"] = np.concatenate([np.sort(generator.uniform(1, 11, size)) for size in (400, 250)])
        units["spike_times_index"] = np.array([400, 650])
        trials = file.create_group("intervals/trials")
        trials["start_time"], trials["stop_time"] = np.arange(1.0, 11.0), np.arange(2.0, 12.0)
    return path


NWB_NAMES = {"stimulus": "stimulus/presentation/movie", "trial": "intervals/trials"}
NWB_RESPONSES = {
    "series": {"responses": "acquisition/lfp"},
    "units": {"responses": None, "spike_times": "units"},
}


@pytest.mark.parametrize("responses", NWB_RESPONSES)
def test_nwb_that_pynwb_refuses_is_audited(tmp_path, responses):
    path = write_plain_nwb(tmp_path / "a.nwb", np.random.default_rng(2))
    result = convert(path, names=NWB_NAMES | NWB_RESPONSES[responses], bin_width=0.1)
    assert result.audited == result.accepted == 10
    assert not result.differences


def test_nwb_without_a_start_is_audited(tmp_path):
    path = write_nwb(tmp_path, simple_nwb())
    with h5py.File(path, "r+") as file:
        del file["session_start_time"]
    result = convert(path, names=NWB_NAMES | NWB_RESPONSES["series"], bin_width=0.1)
    assert result.audited == result.accepted == 10
    assert not result.differences


def test_a_plain_series_of_nwb_may_convert_by_channel(tmp_path):
    path = write_nwb(tmp_path, simple_nwb())
    with h5py.File(path, "r+") as file:
        file["acquisition/lfp/channel_conversion"] = np.array([1.0, 2.0, 3.0, 4.0])
    result = convert(path, names=NWB_NAMES | NWB_RESPONSES["series"], bin_width=0.1)
    assert result.audited == 10
    assert not result.differences


def simple_nwb():
    generator = np.random.default_rng(3)
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    movie = generator.integers(0, 256, (200, 5)).astype(np.uint8)
    file.add_stimulus(pynwb.TimeSeries(name="movie", data=movie, unit="n/a", rate=20.0, starting_time=1.0))
    traces = generator.normal(size=(300, 4))
    file.add_acquisition(pynwb.TimeSeries(name="lfp", data=traces, unit="V", rate=30.0, starting_time=1.0))
    for start in range(1, 11):
        file.add_trial(start_time=float(start), stop_time=start + 1.0)
    return file


def test_an_error_of_the_audit_itself_is_told(tmp_path, monkeypatch):
    def fail(*_, **__):
        message = "no such neuron"
        raise IndexError(message)

    path = write_nwb(tmp_path, simple_nwb())
    monkeypatch.setattr(oracle.Oracle, "bin", fail)
    with pytest.raises(IndexError, match="no such neuron"):
        convert(path, names=NWB_NAMES | NWB_RESPONSES["series"], bin_width=0.1)


@pytest.mark.parametrize("kind", ["npz", "compressed"])
def test_bins_before_the_damage_of_an_archive_are_audited(tmp_path, kind):
    stim = np.random.default_rng(4).integers(0, 256, (5000, 6, 7)).astype(np.uint8)
    save_session(kind, tmp_path, {"stim": stim})
    path = tmp_path / "a.npz"
    content = bytearray(path.read_bytes())
    place = len(content) * 9 // 10
    content[place : place + 64] = bytes(byte ^ 255 for byte in content[place : place + 64])
    path.write_bytes(content)
    files = find_files(path, "**/*", DOMAIN.suffixes, section="neural")
    (session,) = find_sessions(files, NameSection(stimulus="stim", responses="stim"))
    with reference.reference(session) as library:
        for number in (0, 17, 2500):
            assert np.array_equal(library.entry("stim", 0, number), stim[number])


@pytest.mark.parametrize("fault", [lambda labels: labels // 2**62, lambda labels: 2**63 - 1 - labels])
def test_a_fault_in_how_labels_are_told_apart_is_found(clocked, write_h5, monkeypatch, fault):
    words = np.array([b"CA1-a", b"CA1-b", b"CA3", b"DG"])[clocked["spike_neurons"]]
    names = {"stimulus": "stim", "frame_times": "frame_times", "responses": None, "trial": "trials"}
    names |= {"spike_times": "spike_times", "spike_neurons": "spike_neurons"}
    plain = arrays._hashes
    monkeypatch.setattr(arrays, "_hashes", lambda found: fault(plain(found)))
    assert convert(write_h5(clocked | {"spike_neurons": words}), names=names, bin_width=0.02).differences
