"""Recordings as users keep them, against the naive reader of the same arrays.

A case writes a recording into a folder, and gives the arrays by role and the settings of ``source`` that read it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import h5py
import numpy as np
import pynwb
import pytest
import scipy.io

from outofcore.errors import RawInputError
from tests.domains.neural.naive import assert_as_naive
from tests.domains.neural.rig import NAMES, convert, save_session, section_of, write_nwb

pytestmark = pytest.mark.filterwarnings("ignore")  # pynwb warns of its own ways

WIDTH = 0.02
FRAMED = {"stimulus": "stim", "frame_times": "frame_times", "responses": None, "trial": "trials"}
SPIKES = FRAMED | {"spike_times": "spike_times", "spike_neurons": "spike_neurons"}
ROLES = {"frame_times": "frame_times", "behavior": "running", "behavior_times": "running_times", "trial": "trials"}


def trains_of(clocked):
    return [clocked["spike_times"][clocked["spike_neurons"] == neuron] for neuron in range(4)]


def by_role(clocked, **changed):
    """Frames and spikes as the naive reader takes them."""
    return {
        "stimulus": clocked["stim"],
        "frame_times": clocked["frame_times"],
        "spike_times": trains_of(clocked),
        "trial": clocked["trials"],
    } | changed


def nwb_file():
    return pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))


def matlab_of(version):
    def write(folder, frames, _):
        flat = frames | {"stim": frames["stim"].reshape(-1, 42)}  # version 4 has no more axes
        scipy.io.savemat(folder / "a.mat", flat, format=version, do_compression=False)
        return series(frames), {"names": NAMES, "frame_shape": [6, 7]}

    return write


def series(frames):
    return {"stimulus": frames["stim"], "responses": frames["robs"], "trial": frames["trial"]}


def fields_of_a_struct(folder, frames, _):
    stim = np.moveaxis(frames["stim"], 0, 2)
    session = {"stim": stim, "spikes": {"robs": frames["robs"], "trial": frames["trial"]}}
    scipy.io.savemat(folder / "a.mat", {"session": session})
    names = {"stimulus": "session/stim", "responses": "session/spikes/robs", "trial": "session/spikes/trial"}
    return series(frames), {"names": names, "time_axis": {"stimulus": 2}}


def cells_of_spike_times(folder, _, clocked):
    trains, cells = trains_of(clocked), np.empty((2, 2), object)
    trains[2] = np.empty((0, 0))
    for number, train in enumerate(trains):
        cells[number % 2, number // 2] = train  # MATLAB numbers cells column by column
    arrays = {name: clocked[name] for name in ("stim", "frame_times", "trials")}
    scipy.io.savemat(folder / "a.mat", arrays | {"spikes": cells})
    return by_role(clocked, spike_times=trains), {"names": FRAMED | {"spike_times": "spikes"}, "bin_width": 1 / 60}


def flat_frames_with_time_last(folder, frames, _):
    turned = {"stim": frames["stim"].reshape(600, 42).T, "robs": frames["robs"].T, "trial": frames["trial"][None]}
    save_session("h5", folder, turned)
    axes = {"stimulus": 1, "responses": 1}
    return series(frames), {"names": NAMES, "time_axis": axes, "frame_shape": [6, 7]}


def tables_of_text(folder, frames, _):
    robs = frames["robs"].copy()
    robs[70, 2] = np.nan
    np.savetxt(folder / "robs.csv", robs, delimiter=",", header="a,b,c", comments="", fmt="%g")
    np.savetxt(folder / "stim.txt", frames["stim"].reshape(600, 42), fmt="%d")
    names = {"stimulus": "stim.txt", "responses": "robs.csv"}
    return {"stimulus": frames["stim"], "responses": robs}, {"names": names, "frame_shape": [6, 7]}


def columns_of_text_on_clocks(folder, _, clocked):
    sound = np.arange(600) % 251
    np.savetxt(folder / "sound.txt", np.c_[clocked["frame_times"] - 8, sound])
    np.savetxt(folder / "spikes.csv", np.c_[clocked["spike_times"] - 8, clocked["spike_neurons"]], delimiter=",")
    names = {"stimulus": "sound.txt[1]", "frame_times": "sound.txt[0]", "responses": None}
    names |= {"spike_times": "spikes.csv[0]", "spike_neurons": "spikes.csv[1]"}
    arrays = by_role(clocked, stimulus=sound, frame_times=clocked["frame_times"] - 8)
    del arrays["trial"]
    return arrays | {"spike_times": [train - 8 for train in arrays["spike_times"]]}, {
        "names": names,
        "bin_width": WIDTH,
    }


def vectors_of_several_whole_types(folder, _, clocked):
    units = {
        f"units/{number}": np.rint(train * 30_000).astype("u8" if number % 2 else "i4")
        for number, train in enumerate(trains_of(clocked))
    }
    save_session("h5", folder, {name: clocked[name] for name in ("stim", "frame_times", "trials")} | units)
    trains = [train / 30_000 for train in units.values()]
    settings = {"names": FRAMED | {"spike_times": "units"}, "bin_width": WIDTH, "spike_unit": 30_000}
    return by_role(clocked, spike_times=trains), settings


def spikes_in_nanoseconds(folder, _, clocked):
    spikes = np.rint(clocked["spike_times"] * 1e9).astype(np.int64)
    save_session("npz", folder, clocked | {"spike_times": spikes})
    return by_role(clocked), {"names": SPIKES, "bin_width": WIDTH, "spike_unit": "ns"}


def one_vector_of_many_spikes(folder, _, clocked):
    spikes = np.sort(np.random.default_rng(0).uniform(3, 13, 5000))
    save_session("h5", folder, clocked | {"spike_times": spikes})
    names = SPIKES | {"spike_neurons": None}
    return by_role(clocked, spike_times=[spikes]), {"names": names, "bin_width": 1 / 60}


def a_stimulus_finer_than_the_bins(folder, _, __):
    times, spikes = np.arange(2000) * 50, np.array([950, 1000, 1999, 2000, 5000])
    fine = np.sin(np.arange(2000) / 300).astype(np.float32)
    save_session("h5", folder, {"sound": fine, "times": times, "spikes": spikes})
    names = {"stimulus": "sound", "frame_times": "times", "responses": None, "spike_times": "spikes"}
    settings = {"names": names, "bin_width": 0.001, "time_unit": "us", "stimulus_dtype": "float32"}
    return {"stimulus": fine, "frame_times": times / 1e6, "spike_times": [spikes / 1e6]}, settings


def spikes_and_behaviour_without_frames(folder, _, clocked):
    save_session("zarr", folder, clocked)
    names = SPIKES | ROLES | {"stimulus": None, "frame_times": None}
    arrays = {"spike_times": trains_of(clocked), "behavior": clocked["running"], "trial": clocked["trials"]}
    return arrays | {"behavior_times": clocked["running_times"]}, {"names": names, "bin_width": WIDTH}


def spikes_alone(marks):
    def write(folder, _, clocked):
        arrays = {name: clocked[name] for name in ("spike_times", "spike_neurons", "trials")}
        save_session("h5", folder, arrays)
        names = SPIKES | {"stimulus": None, "frame_times": None, "trial": marks}
        arrays = {"spike_times": trains_of(clocked)} | ({} if marks is None else {"trial": clocked["trials"]})
        return arrays, {"names": names, "bin_width": WIDTH}

    return write


def trials_in_which_neurons_are_silent(folder, _, __):
    starts = np.arange(0, 20, 2.0)
    trains = {"spk/n0": np.array([6.3, 6.9, 8.2, 11.1]), "spk/n1": np.array([7.0, 7.5, 9.9, 12.4])}
    trials = np.stack([starts, starts + 2], 1)
    save_session("h5", folder, {"trials": trials} | trains)
    names = {"stimulus": None, "responses": None, "spike_times": "spk", "trial": "trials"}
    return {"spike_times": [*trains.values()], "trial": trials}, {"names": names, "bin_width": 0.1}


def torch_brain(marks, shift):
    """A file of temporaldata: spikes with the row of their unit, and an Interval, a group of start and end."""

    def write(folder, _, clocked):
        starts, stops = clocked["trials"].T
        with h5py.File(folder / "a.h5", "w") as file:
            file["spikes/timestamps"], file["spikes/unit_index"] = clocked["spike_times"], clocked["spike_neurons"]
            for name, values in {"start": starts, "end": stops, "go_cue": starts + 0.5}.items():
                file[f"trials/{name}"] = values
            file["trials"].attrs["object"] = "Interval"
            file["trials"].attrs["timekeys"] = np.array(["start", "end"], dtype="S")
        names = {"stimulus": None, "responses": None, "spike_times": "spikes/timestamps"}
        names |= {"spike_neurons": "spikes/unit_index", "trial": marks}
        arrays = {"spike_times": trains_of(clocked), "trial": np.stack([starts + shift, stops], 1)}
        return arrays, {"names": names, "bin_width": WIDTH}

    return write


def traces_without_frames(folder, _, clocked):
    save_session("h5", folder, clocked)
    names = {"stimulus": None, "responses": "traces", "sample_times": "sample_times"}
    arrays = {"responses": clocked["traces"], "sample_times": clocked["sample_times"]}
    return arrays, {"names": names, "bin_width": 4.0}  # a mean of more samples than a bin may have frames


def behaviour_by_bin_without_frames(folder, frames, _):
    save_session("h5", folder, frames)
    arrays = {"responses": frames["robs"], "behavior": frames["trial"], "trial": frames["trial"]}
    return arrays, {"names": {"stimulus": None, "responses": "robs", "behavior": "trial", "trial": "trial"}}


def nwb_series_with_time_last(folder, _, __):
    generator, file = np.random.default_rng(0), nwb_file()
    movie, dff = generator.integers(0, 256, (200, 5)).astype(np.uint8), generator.normal(size=(300, 4))
    file.add_stimulus(pynwb.TimeSeries(name="movie", data=movie.T, unit="n/a", rate=20.0, starting_time=-3.0))
    file.add_acquisition(pynwb.TimeSeries(name="dff", data=dff.T, unit="n/a", rate=30.0, starting_time=-3.0))
    write_nwb(folder, file)
    names = {"stimulus": "stimulus/presentation/movie", "responses": "acquisition/dff"}
    arrays = {"stimulus": movie, "frame_times": np.arange(200) / 20 - 3}
    arrays |= {"responses": dff, "sample_times": np.arange(300) / 30 - 3}
    return arrays, {"names": names, "bin_width": 0.1, "time_axis": {"stimulus": 1, "responses": 1}}


def nwb_pictures_by_number(folder, _, clocked):
    file = nwb_file()
    pictures, shown = clocked["stim"][:7], np.random.default_rng(5).integers(0, 7, 100)
    images = [pynwb.image.GrayscaleImage(name=f"scene{9 - n}", data=each) for n, each in enumerate(pictures)]
    order = pynwb.base.ImageReferences(name="order_of_images", data=images)
    scenes = pynwb.base.Images(name="scenes", images=images, description="x", order_of_images=order)
    file.add_stimulus_template(scenes)
    series = {"data": shown.astype(np.uint32), "indexed_images": scenes, "unit": "N/A", "rate": 20.0}
    file.add_stimulus(pynwb.image.IndexSeries(name="shown", **series))
    trains = [clocked["spike_times"][:300] - 2.5]
    file.add_unit(spike_times=trains[0])
    write_nwb(folder, file)
    names = {"stimulus": "stimulus/templates/scenes", "frame": "stimulus/presentation/shown"}
    arrays = {"stimulus": pictures, "frame": shown, "frame_times": np.arange(100) / 20, "spike_times": trains}
    return arrays, {"names": names | {"responses": None, "spike_times": "units"}, "bin_width": 0.05}


def nwb_in_its_unit(kind):
    def write(folder, frames, _):
        generator, file = np.random.default_rng(1), nwb_file()
        traces, moments = generator.integers(-99, 99, (300, 4)).astype(np.int16), 1 + np.arange(300) / 30
        movie = pynwb.TimeSeries(name="movie", data=frames["stim"][:200], unit="n/a", rate=20.0, starting_time=1.0)
        file.add_stimulus(movie)
        unit = {"unit": "V", "conversion": 0.25, "offset": 3.0}
        file.add_acquisition(pynwb.TimeSeries(name="lfp", data=traces, timestamps=moments, **unit))
        trains = [np.sort(generator.uniform(1, 11, size)) for size in (400, 0, 250)]
        for train in trains:
            file.add_unit(spike_times=train)
        write_nwb(folder, file)
        arrays = {"stimulus": frames["stim"][:200], "frame_times": 1 + np.arange(200) / 20}
        names = {"stimulus": "stimulus/presentation/movie", "responses": None}
        if kind == "spikes":
            names["spike_times"] = "units"
            return arrays | {"spike_times": trains}, {"names": names, "bin_width": 0.1}
        names["responses"] = "acquisition/lfp"
        return arrays | {"responses": traces * 0.25 + 3, "sample_times": moments}, {"names": names, "bin_width": 0.1}

    return write


CASES = {
    "matlab 5": matlab_of("5"),
    "matlab 4": matlab_of("4"),
    "matlab: spikes": cells_of_spike_times,
    "nwb: traces in their unit": nwb_in_its_unit("traces"),
    "nwb: spikes": nwb_in_its_unit("spikes"),
    "spikes alone": spikes_alone(None),
    "spikes in trials": spikes_alone("trials"),
    "torch_brain": torch_brain("trials", 0),
    "torch_brain from a cue": torch_brain(["trials/go_cue", "trials/end"], 0.5),
} | {
    case.__name__.replace("_", " "): case
    for case in (
        fields_of_a_struct,
        flat_frames_with_time_last,
        tables_of_text,
        columns_of_text_on_clocks,
        vectors_of_several_whole_types,
        spikes_in_nanoseconds,
        one_vector_of_many_spikes,
        a_stimulus_finer_than_the_bins,
        spikes_and_behaviour_without_frames,
        trials_in_which_neurons_are_silent,
        traces_without_frames,
        behaviour_by_bin_without_frames,
        nwb_series_with_time_last,
        nwb_pictures_by_number,
    )
}


@pytest.mark.parametrize("case", CASES)
def test_a_recording_is_what_the_naive_reader_gives(tmp_path, frames, clocked, case):
    arrays, source = CASES[case](tmp_path, frames, clocked)
    result = convert(tmp_path, **source)
    assert not result.rejects
    assert_as_naive(result, arrays, section_of(tmp_path, **source).source)


def test_pictures_of_several_shapes_cost_their_session(tmp_path, clocked):
    _, source = nwb_pictures_by_number(tmp_path, {}, clocked)
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        del file["stimulus/templates/scenes/scene5"]
        file.create_dataset("stimulus/templates/scenes/scene5", data=np.zeros((2, 2), np.uint8))
    with pytest.raises(RawInputError, match=r"order_of_images|pictures of one shape"):
        convert(tmp_path, **source)
