"""Folders and files of the programs that labs use, laid out as these write them."""

from __future__ import annotations

from datetime import UTC, datetime

import h5py
import numpy as np
import pynwb
import pytest

import outofcore
from outofcore.errors import ParamsError, RawInputError
from tests.domains.neural.rig import convert, save_session, write_nwb

pytestmark = pytest.mark.filterwarnings("ignore")  # pynwb warns of its own ways

RATE = 30_000.0
CLUSTERS = [0, 3, 7, 12, 15]
GROUPS = {0: "good", 3: "mua", 7: "good", 12: "noise"}  # phy leaves out what nobody has labelled
AMPLITUDES = {0: 40.5, 3: 12.0, 7: 33.25, 12: 5.0, 15: 60.0}
SPIKES = {"stimulus": None, "responses": None, "spike_times": "spike_times", "spike_neurons": "spike_clusters"}
TRACES = {"stimulus": None, "responses": "F"}
IS_CELL = np.array([1, 0, 1, 1, 0, 1])


@pytest.fixture
def phy(tmp_path):
    """The output of Kilosort, labelled in phy; gives the folder, and seconds and cluster of each spike."""
    draw, folder = np.random.default_rng(1), tmp_path / "sorted" / "probe0"
    folder.mkdir(parents=True)
    samples = np.sort(draw.integers(0, int(RATE * 20), 4000)).astype(np.uint64)
    clusters = draw.choice(CLUSTERS, 4000).astype(np.int32)
    np.save(folder / "amplitudes.npy", draw.random((4000, 1)))
    np.save(folder / "spike_times.npy", samples[:, None])
    np.save(folder / "spike_clusters.npy", clusters)
    np.save(folder / "templates.npy", draw.normal(size=(5, 82, 4)).astype(np.float32))
    (folder / "params.py").write_text("dat_path = 'temp_wh.dat'\nn_channels_dat = 4\nsample_rate = 30000.\n")
    groups = "".join(f"{cluster}\t{group}\r\n" for cluster, group in GROUPS.items())
    (folder / "cluster_group.tsv").write_text(f"cluster_id\tgroup\r\n{groups}")
    lines = (f"{cluster}\t{size}\t\t{GROUPS.get(cluster, '')}" for cluster, size in AMPLITUDES.items())
    (folder / "cluster_info.tsv").write_text("\n".join(["cluster_id\tAmplitude\tnote\tgroup", *lines]) + "\n")
    return folder, samples / RATE, clusters


@pytest.fixture
def suite2p(tmp_path):
    draw, folder = np.random.default_rng(2), tmp_path / "mouse" / "suite2p" / "plane0"
    folder.mkdir(parents=True)
    traces = {name: draw.normal(size=(6, 900)).astype(np.float32) for name in ("F", "Fneu", "spks")}
    for name, trace in traces.items():
        np.save(folder / f"{name}.npy", trace)
    np.save(folder / "iscell.npy", np.stack([IS_CELL, draw.random(6)], 1))
    np.save(folder / "ops.npy", {"fs": 30.0}, allow_pickle=True)
    np.save(folder / "stat.npy", np.array([{"npix": 9}] * 6, object), allow_pickle=True)
    return folder, traces["F"]


def test_a_folder_whose_files_no_setting_names_says_which_settings_read_it(phy, suite2p):
    with pytest.raises(RawInputError) as raised:
        convert(phy[0].parent)
    message = str(raised.value)
    assert "amplitudes.npy" in message
    for setting in ("spike_times: spike_times", "spike_neurons: spike_clusters", "source.bin_width", "sample_rate"):
        assert setting in message
    assert "suite2p" not in message
    with pytest.raises(RawInputError, match=r"as of suite2p: set .*responses: F.* source.time_axis=\{responses: 1\}$"):
        convert(suite2p[0].parents[1])


def test_names_with_identifiers_are_to_be_written_in_full(tmp_path):
    """As ONE/ALF has them: a UUID between the name and the ending."""
    (tmp_path / "probe00").mkdir()
    for name in ("spikes.times", "spikes.clusters"):
        np.save(tmp_path / f"probe00/{name}.ab12cd34-1111-2222-3333-444455556666.npy", np.arange(9))
    names = SPIKES | {"spike_times": "spikes.times", "spike_neurons": "spikes.clusters"}
    told = r"spikes.times is not all of the name of spikes.times.ab12cd34\S+npy: write all of it, or rename the files$"
    with pytest.raises(RawInputError, match=told):
        convert(tmp_path, names=names, bin_width=0.1)


def test_a_folder_of_which_a_setting_is_missing_says_which(phy, suite2p):
    with pytest.raises(RawInputError, match=r"names.stimulus = 'stim': no such array; .* set it to null"):
        convert(phy[0], names=SPIKES | {"stimulus": "stim"}, bin_width=0.01)
    with pytest.raises(RawInputError, match=r"source.time_unit is not the unit of the file"):
        convert(phy[0], names=SPIKES, bin_width=0.01)
    with pytest.raises(RawInputError, match=r"'iscell': expected an entry for each neuron, got shape \(6, 2\)"):
        convert(suite2p[0], names=TRACES, time_axis={"responses": 1}, units=[{"column": "iscell", "values": [1]}])


def test_traces_that_seem_turned_are_noted(suite2p, capsys):
    convert(suite2p[0], names=TRACES)
    assert "more neurons (900) than bins (6)" in capsys.readouterr().err
    result = convert(suite2p[0], names=TRACES, time_axis={"responses": 1})
    assert np.array_equal(result.only.rows["robs"], suite2p[1].T)
    assert "more neurons" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"column": "cluster_group.tsv[group]", "values": ["good"]}, [0, 7]),
        ({"column": "cluster_group.tsv[group]", "values": ["good", "mua"]}, [0, 3, 7]),
        ({"column": "cluster_info.tsv[group]", "values": [""]}, [15]),
        ({"column": "cluster_info.tsv[Amplitude]", "min": 33.25}, [0, 7, 15]),
        ({"column": "spike_clusters", "values": [3, 15, 99]}, [3, 15]),
    ],
)
@pytest.mark.parametrize("ordered", [False, True])
def test_clusters_are_chosen_by_the_tables_of_phy(phy, condition, expected, ordered):
    folder, times, clusters = phy
    if ordered:
        order = np.lexsort((times, clusters))
        np.save(folder / "spike_times.npy", np.rint(times[order] * RATE).astype(np.uint64))
        np.save(folder / "spike_clusters.npy", clusters[order])
    kept = [{"column": "cluster_group.tsv[group]"}, {"column": "spike_clusters"}]
    result = convert(folder, names=SPIKES, bin_width=0.01, time_unit=RATE, units=[condition, *kept])
    edges = np.floor(times[0] * 100) / 100 + np.arange(len(result.only.rows["robs"]) + 1) / 100
    spikes = [np.histogram(times[clusters == cluster], edges)[0] for cluster in expected]
    assert np.array_equal(result.only.rows["robs"], np.stack(spikes, 1))
    (schema,) = result.schemas.values()
    assert schema.attributes["units"] == [CLUSTERS.index(cluster) for cluster in expected]
    groups = [GROUPS.get(cluster, "") for cluster in expected]
    columns = {"cluster_group.tsv[group]": groups, "spike_clusters": expected}
    assert schema.attributes["unit_columns"] == columns


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("cluster_group.tsv[KSLabel]", "expected one column 'KSLabel', its first line has cluster_id, group"),
        ("cluster_group.tsv", r"expected the column 'spike_clusters'.* \(cluster_group.tsv\[group\]\), got"),
        ("quality", r"expected the column 'spike_clusters'.*, got 'quality'"),
        ("other.tsv[group]", r"first column \(cluster_id\) has none of the 5 labels of names.spike_neurons"),
        ("empty.tsv[group]", "expected one column 'group'"),
    ],
)
def test_a_column_that_no_table_of_clusters_has_is_named(phy, column, words):
    (phy[0] / "other.tsv").write_text("cluster_id\tgroup\n99\tgood\n")
    (phy[0] / "empty.tsv").write_text("")
    with pytest.raises(RawInputError, match=words):
        convert(phy[0], names=SPIKES, bin_width=0.01, time_unit=RATE, units=[{"column": column}])


@pytest.fixture
def imaging(tmp_path):
    """NWB as suite2p writes it: two planes, of which one series has rois of the second, in another order."""
    draw = np.random.default_rng(3)
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    channel = pynwb.ophys.OpticalChannel(name="green", description="x", emission_lambda=500.0)
    plane = file.create_imaging_plane(
        name="plane",
        optical_channel=channel,
        description="x",
        device=file.create_device("microscope"),
        excitation_lambda=600.0,
        indicator="GCaMP",
        location="V1",
    )
    segmentation = pynwb.ophys.ImageSegmentation()
    table = segmentation.create_plane_segmentation(name="PlaneSegmentation", description="x", imaging_plane=plane)
    for _ in range(6):
        table.add_roi(pixel_mask=[(1, 2, 1.0)])
    table.add_column("iscell", "iscell and its probability", data=np.stack([IS_CELL, draw.random(6)], 1))
    table.add_column("area", "where", data=["V1", "LM", "V1", "V1", "LM", "AL"])
    table.add_column("Accepted", "as neuroconv names it", data=IS_CELL.astype(np.uint64))
    ophys = file.create_processing_module(name="ophys", description="x")
    ophys.add(segmentation)
    rows = {"all": [0, 1, 2, 3, 4, 5], "second": [5, 3, 4]}
    series, traces = pynwb.ophys.Fluorescence(), {}
    ophys.add(series)
    for name, chosen in rows.items():
        traces[name] = draw.normal(size=(300, len(chosen))).astype(np.float32)
        region = table.create_roi_table_region(region=chosen, description="x")
        series.create_roi_response_series(name=name, data=traces[name], rois=region, unit="lumens", rate=30.0)
    return write_nwb(tmp_path, file), traces


@pytest.mark.parametrize(
    ("series", "condition", "expected", "areas"),
    [
        ("all", {"column": "iscell[0]", "values": [1]}, [0, 2, 3, 5], ["V1", "V1", "V1", "AL"]),
        ("all", {"column": "area", "values": ["V1"]}, [0, 2, 3], ["V1", "V1", "V1"]),
        ("second", {"column": "Accepted", "values": [1]}, [0, 1], ["AL", "V1"]),
        ("second", {"column": "area", "values": ["?L", "LM"]}, [0, 2], ["AL", "LM"]),
    ],
)
def test_rois_of_nwb_are_chosen_by_columns_of_their_plane(imaging, series, condition, expected, areas):
    path, traces = imaging
    names = {"stimulus": None, "responses": f"processing/ophys/Fluorescence/{series}"}
    result = convert(path, names=names, units=[condition, {"column": "area"}])
    assert np.array_equal(result.only.rows["robs"], traces[series][:, expected])
    (schema,) = result.schemas.values()
    assert schema.attributes["units"] == expected
    assert schema.attributes["unit_columns"] == {"area": areas}


@pytest.mark.parametrize("column", ["iscell", "iscell[2]", "area[0]", "quality", "pixel_mask"])
def test_a_column_that_no_plane_has_is_answered_with_those_of_the_plane(imaging, column):
    names = {"stimulus": None, "responses": "processing/ophys/Fluorescence/all"}
    with pytest.raises(RawInputError, match=r"expected a column .*PlaneSegmentation has Accepted, area, .*iscell"):
        convert(imaging[0], names=names, units=[{"column": column, "values": [1]}])


def test_rows_beyond_the_plane_cost_the_session(imaging):
    with h5py.File(imaging[0], "r+") as file:
        file["processing/ophys/Fluorescence/second/rois"][1] = 6
    names = {"stimulus": None, "responses": "processing/ophys/Fluorescence/second"}
    with pytest.raises(RawInputError, match=r"second/rois"):
        convert(imaging[0], names=names, units=[{"column": "area"}])


def caiman(folder, listed):
    """A file of CNMF.save with six components."""
    with h5py.File(folder / "a.hdf5", "w") as file:
        file["estimates/C"] = np.random.default_rng(4).normal(size=(6, 300))
        file["estimates/idx_components"] = listed
        file["estimates/dview"] = "NoneType"
        return file["estimates/C"][()]


@pytest.mark.parametrize("listed", [[0, 3, 5], [5], [0, 1, 2, 3, 4, 5], [4, 2]])
@pytest.mark.parametrize("wanted", [[True], [1]])
def test_components_of_caiman_are_chosen_by_its_list(tmp_path, listed, wanted):
    traces = caiman(tmp_path, np.array(listed))
    chosen = {"column": "estimates/idx_components", "values": wanted}
    names = {"stimulus": None, "responses": "estimates/C"}
    result = convert(tmp_path, names=names, time_axis={"responses": 1}, units=[chosen])
    assert np.array_equal(result.only.rows["robs"], traces.T[:, sorted(listed)].astype(np.float32))


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (np.array([0, 6]), "expected numbers of units from 0 to 5, got int64 from 0 to 6"),
        (np.array([]), "none of 6 units meets the conditions"),
        ("NoneType", r"expected an entry for each neuron, got shape \(\)"),
    ],
)
def test_a_list_of_no_components_costs_the_session(tmp_path, listed, words):
    caiman(tmp_path, listed)
    chosen = {"column": "estimates/idx_components", "values": [True]}
    names = {"stimulus": None, "responses": "estimates/C"}
    with pytest.raises(RawInputError, match=words):
        convert(tmp_path, names=names, time_axis={"responses": 1}, units=[chosen])


TIERS = ["train"] * 6 + ["validation"] * 2 + ["none"] + ["test"] * 2 + ["final_test"]
BY_TIER = {"by": "tier", "val": ["validation"], "test": ["test", "final_test"]}


@pytest.fixture
def sensorium(tmp_path):
    """Trials as files, time last, and the tier of each; gives the folder and the responses of each trial."""
    draw, folder, responses = np.random.default_rng(5), tmp_path / "mice" / "dynamic1", []
    for part in ("data/videos", "data/responses", "meta/trials"):
        (folder / part).mkdir(parents=True)
    for number in range(len(TIERS)):
        bins = 30 + number
        responses.append(draw.random((3, bins)).astype(np.float32))
        np.save(folder / f"data/responses/{number}.npy", responses[-1])
        np.save(folder / f"data/videos/{number}.npy", draw.integers(0, 256, (4, 5, bins)).astype(np.float32))
    np.save(folder / "meta/trials/tiers.npy", np.array(TIERS))
    return folder, responses


FILES = {"stimulus": "data/videos/*", "responses": "data/responses/*"}
LAST = {"stimulus": 2, "responses": 1}


def divided(store):
    """The trials of each split, and the responses of each trial."""
    trials, responses = {}, {}
    for split in store.splits:
        table, sequences = store.rows(split, store.parts[0]), store.sequences(split, store.parts[0])
        trials[split] = sequences["trial"].read().tolist()
        places = zip(trials[split], sequences["start"].read(), sequences["length"].read(), strict=True)
        responses |= {trial: table["robs"].read(start, start + length) for trial, start, length in places}
    return trials, responses


def test_the_tiers_of_sensorium_are_the_splits(sensorium, tmp_path):
    folder, responses = sensorium
    source = {"names": FILES | {"tier": "meta/trials/tiers"}, "time_axis": LAST}
    outofcore.convert("neural", folder.parent, tmp_path / "a.zarr", source=source, splits=BY_TIER)
    trials, stored = divided(outofcore.open_store(tmp_path / "a.zarr"))
    assert {split: sorted(numbers) for split, numbers in trials.items()} == {
        "train": [0, 1, 2, 3, 4, 5],
        "val": [6, 7],
        "test": [9, 10, 11],
    }
    assert all(np.array_equal(rows, responses[trial].T) for trial, rows in stored.items())
    result = convert(folder, **source)
    assert [(reject.reason, reject.detail) for reject in result.rejects] == [
        ("no_tier", "trial 8: names.tier has 'none' for it")
    ]


@pytest.mark.parametrize("kind", ["word", "number", "frame"])
def test_a_column_of_the_trials_of_nwb_is_their_split(tmp_path, kind):
    words = ["train", "val", "train", "", "test", "val"]
    numbers = {"train": 0.0, "val": 1.0, "test": 2.0, "": np.nan}
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    shown = np.repeat(np.arange(12) * 10, 10)
    file.add_acquisition(pynwb.TimeSeries(name="dff", data=np.stack([shown] * 2, 1), unit="x", rate=10.0))
    file.add_trial_column("split", "the split")
    for number, word in enumerate(words):  # the last comes first: rows need not be in order of time
        start = (5 - number) * 2.0
        file.add_trial(start_time=start, stop_time=start + 1.0, split=word if kind == "word" else numbers[word])
    write_nwb(tmp_path, file)
    names = {"stimulus": None, "responses": "acquisition/dff", "trial": "intervals/trials"}
    names["tier"] = "intervals/trials/split"
    if kind == "frame":
        frames = np.repeat([[numbers[word], np.nan] for word in words[::-1]], 10)
        with h5py.File(tmp_path / "a.nwb", "r+") as changed:
            changed["acquisition/tiers"] = frames
        names["tier"] = "acquisition/tiers"
    named = {"val": ["val"], "test": ["test"]} if kind == "word" else {"val": ["1"], "test": ["2"]}
    outofcore.convert(
        "neural", tmp_path / "a.nwb", tmp_path / "a.zarr", source={"names": names}, splits={"by": "tier"} | named
    )
    trials, stored = divided(outofcore.open_store(tmp_path / "a.zarr"))
    assert trials == {"train": [2, 0], "val": [5, 1], "test": [4]}
    assert all((rows == (5 - trial) * 20).all() for trial, rows in stored.items())


def test_splits_by_tier_need_tiers(sensorium, tmp_path):
    source = {"names": FILES, "time_axis": LAST}
    with pytest.raises(ParamsError, match=r"splits.by: tier needs source.names.tier"):
        outofcore.convert("neural", sensorium[0], tmp_path / "a.zarr", source=source, splits=BY_TIER)
    np.save(sensorium[0] / "meta/trials/tiers.npy", np.array(TIERS[1:]))
    with pytest.raises(RawInputError, match=r"names.tier: expected an entry for each of 12 trials .*, got 11"):
        convert(sensorium[0], names=FILES | {"tier": "meta/trials/tiers"}, time_axis=LAST)


def test_a_model_predicts_recordings_without_tiers(sensorium, tmp_path):
    folder, source = sensorium[0], {"names": FILES | {"tier": "meta/trials/tiers"}, "time_axis": LAST}
    outofcore.convert("neural", folder.parent, tmp_path / "a.zarr", source=source, splits=BY_TIER)
    outofcore.train(tmp_path / "a.zarr", tmp_path / "run", tensors={"lags": 2}, train={"max_steps": 2})
    (folder / "meta/trials/tiers.npy").unlink()
    rows = list(outofcore.load_model(tmp_path / "run").predict(folder.parent))
    assert {row["trial"] for row in rows} == set(range(len(TIERS)))


def test_starts_and_ends_that_do_not_fit_together_are_refused(clocked, tmp_path):
    folder = save_session("h5", tmp_path, clocked | {"begun": clocked["trials"][:, 0]})
    names = {"stimulus": "stim", "frame_times": "frame_times", "responses": "traces", "sample_times": "sample_times"}
    with pytest.raises(RawInputError, match=r"names.trial: expected begun and spike_times of one length, got shapes"):
        convert(folder, names=names | {"trial": ["begun", "spike_times"]}, bin_width=0.02)
    with pytest.raises(RawInputError, match=r"names.trial = 'stopped': no such array"):
        convert(folder, names=names | {"trial": ["begun", "stopped"]}, bin_width=0.02)


@pytest.mark.parametrize("channels", [1, 2])
def test_each_file_of_static_sensorium_is_one_bin(tmp_path, channels):
    """As of 2022, and of Franke and others of that year, who show two colours: an image and its responses per file."""
    draw, folder = np.random.default_rng(7), tmp_path / "static1"
    for part in ("data/images", "data/responses", "data/behavior", "meta/trials"):
        (folder / part).mkdir(parents=True)
    images = draw.integers(0, 256, (len(TIERS), channels, 4, 5)).astype(np.float32)
    responses, behavior = draw.random((len(TIERS), 7)), draw.random((len(TIERS), 3))
    for number in range(len(TIERS)):
        np.save(folder / f"data/images/{number}.npy", images[number])
        np.save(folder / f"data/responses/{number}.npy", responses[number])
        np.save(
            folder / f"data/behavior/{number}.npy", behavior[number].reshape(1, 3) if channels > 1 else behavior[number]
        )
    np.save(folder / "meta/trials/tiers.npy", np.array(TIERS))
    np.save(folder / "meta/trials/frame_image_id.npy", np.arange(len(TIERS)) // 2)
    names = {"stimulus": "data/images/*", "responses": "data/responses/*", "behavior": "data/behavior/*"}
    names |= {"tier": "meta/trials/tiers", "repeat": "meta/trials/frame_image_id"}
    result = convert(folder, names=names, time_axis=None)
    kept = [number for number, tier in enumerate(TIERS) if tier != "none"]
    rows = result.only.rows
    assert np.array_equal(rows["stim"], images[kept])
    assert np.array_equal(rows["robs"], responses[kept].astype(np.float32))
    assert np.array_equal(rows["behavior"], behavior[kept].astype(np.float32))
    assert [(trial["trial"], trial["repeat"], trial["tier"]) for trial in result.only.sequences] == [
        (number, number // 2, TIERS[number]) for number in kept
    ]
