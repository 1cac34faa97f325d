"""Which arrays of other software's Zarr are read; windows against their times; packed numbers against CF, in NumPy."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from typer.testing import CliRunner

import outofcore
from outofcore.cli import app
from outofcore.errors import ParamsError, StoreError
from outofcore.store import zarr_arrays
from outofcore.store.foreign import open_zarr
from tests.loading.conftest import flat

Shapes = dict[str, tuple[Any, ...]]


def write(folder: Path, shapes: Shapes, attributes: dict[str, Any] | None = None) -> Path:
    """Arrays of sizes, or of names and sizes, of their dimensions."""
    group = zarr.open_group(folder, mode="w", attributes=attributes or {})
    for name, dimensions in shapes.items():
        names, sizes = zip(*(part if isinstance(part, tuple) else (None, part) for part in dimensions), strict=True)
        group.create_array(name, data=np.zeros(sizes, "f4"), dimension_names=names)
    return folder


TIME, LAT, LON, CHANNEL = ("time", 30), ("lat", 30), ("lon", 4), ("channel", 5)
CHOICES: dict[str, tuple[Shapes, set[str]]] = {
    "images, labels and a large table": ({"img": (50, 8, 8), "label": (50,), "table": (60, 100)}, {"img", "label"}),
    "a static field of as many rows": ({"t": (TIME, LAT, LON), "lsm": (LAT, LON)}, {"t"}),
    "weather with its coordinates": (
        {"t": (TIME, LAT, LON), "lsm": (LAT, LON), "time": (TIME,), "lat": (LAT,), "lon": (LON,)},
        {"t", "time"},
    ),
    "statistics of each channel": (
        {"data": (TIME, CHANNEL, LON), "mean": (CHANNEL,), "std": (CHANNEL,), "count": (CHANNEL,)},
        {"data"},
    ),
    "statistics without names": ({"data": (60, 5, 1, 30), "mean": (5,), "std": (5,), "lat": (30,)}, {"data"}),
    "a square": ({"x": (9, 9), "y": (9,)}, {"x", "y"}),
    "an image as wide as it has samples": ({"x": (30, 30, 4), "y": (30,), "table": (60, 2)}, {"x", "y"}),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_arrays_with_the_samples_of_most_are_read_and_the_others_named(tmp_path: Path, case: str) -> None:
    shapes, expected = CHOICES[case]
    path = write(tmp_path / "a.zarr", shapes)
    batches = outofcore.loader(path, "train", 4)
    assert set(next(iter(batches))) == expected
    (note,) = [note for note in batches.notes if "not sealed" in note]
    said = CliRunner().invoke(app, ["info", str(path)], env={"COLUMNS": "5000"}).stdout
    for name in shapes.keys() - expected:
        assert f"{name} (" in note.partition("names it: ")[2]
        assert f"{name} (" in said.partition("left out")[2]
    assert ("left out" in note) == (shapes.keys() != expected)


@pytest.mark.parametrize("shapes", [{"raw": (50, 16), "ids": (40, 16)}, {"a": (TIME,), "b": (CHANNEL,)}])
def test_arrays_of_equal_right_are_refused_by_their_names(tmp_path: Path, shapes: Shapes) -> None:
    path = write(tmp_path / "a.zarr", shapes)
    first, second = sorted(shapes)
    with pytest.raises(ParamsError, match=rf"right to be read: {first} \(.*; or {second} \(.* open_zarr\(.*fields=\)$"):
        open_zarr(path)
    assert list(open_zarr(path, fields=[first]).fields(range(3))) == [first]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_the_finest_level_of_an_image_is_read(tmp_path: Path, version: str) -> None:
    images = [{"datasets": [{"path": "0"}, {"path": "1"}, {"path": "2"}]}]
    attributes = {"multiscales": images} if version == "0.4" else {"ome": {"version": "0.5", "multiscales": images}}
    path = write(tmp_path / "a.zarr", {"0": (40, 64, 64), "1": (40, 32, 32), "2": (20, 16, 16)}, attributes)
    store = open_zarr(path)
    assert list(store.fields(range(40))) == ["0"]
    assert store.left_out == ["1 (40, 32, 32)", "2 (20, 16, 16)"]


def test_text_and_dates_are_named(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("x", data=np.zeros((5, 2)))
    group.create_array("when", data=np.arange(5).astype("M8[s]"))
    store = open_zarr(tmp_path / "a.zarr")
    assert store.left_out == ["when (5) datetime64[s]"]
    hours = group.create_array("time", data=np.arange(5))
    hours.attrs["units"] = "hours since 2020-01-01"
    assert "time is as stored: hours since 2020-01-01" in open_zarr(tmp_path / "a.zarr").note("train", ["time", "x"])


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("version", [2, 3])
def test_what_was_appended_is_read_though_the_group_does_not_know_it(tmp_path: Path, version: Any) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    group.create_array("x", data=np.arange(50))
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    array = zarr.open_array(tmp_path / "a.zarr/x", mode="r+")
    array.append(np.arange(50, 90))
    for source in (tmp_path / "a.zarr", zarr.open_group(tmp_path / "a.zarr", mode="r")):
        assert open_zarr(source).rows("train")["x"].read().tolist() == list(range(90))


def series(folder: Path, times: npt.NDArray[Any], **attributes: Any) -> Path:
    group = zarr.open_group(folder, mode="w", zarr_format=2)
    for name, values in {"x": np.arange(len(times)), "time": times}.items():
        group.create_array(name, data=values, chunks=(16,), fill_value=None).attrs["_ARRAY_DIMENSIONS"] = ["time"]
    group["time"].attrs.update(attributes)
    return folder


def windows(path: Path, times: npt.NDArray[Any], **window: Any) -> list[list[Any]]:
    batches = outofcore.loader(path, "train", 8, tensors=["x"], shuffle=False, window=window)
    return flat([times[batch["x"].numpy()].tolist() for batch in batches])


HOURS = np.delete(np.arange(0, 600, 6), range(40, 60))


@pytest.mark.parametrize(
    "times",
    [HOURS, HOURS[::-1].copy(), HOURS / 24, HOURS.astype("M8[h]"), np.where(HOURS > 300, HOURS / 2, HOURS)],
    ids=["hours", "descending", "days", "datetime64", "another step"],
)
@pytest.mark.parametrize("mode", ["pack", "never"])
def test_windows_end_at_gaps_of_time(tmp_path: Path, times: npt.NDArray[Any], mode: str) -> None:
    """Against the times themselves: no window holds a jump, and none without one is missing."""
    got = windows(series(tmp_path / "a.zarr", times), times, length=4, mode=mode)
    steps = np.diff(times.astype("M8[h]").astype("i8") if times.dtype.kind == "M" else times)
    regular = np.abs(steps / np.median(steps) - 1) < 0.5
    starts = [row for row in range(len(times) - 3) if regular[row : row + 3].all()]
    assert got == [times[row : row + 4].tolist() for row in starts]


def test_a_gap_is_noted_and_splits_and_ranges_of_rows_have_their_own(tmp_path: Path) -> None:
    path = series(tmp_path / "a.zarr", HOURS)
    note = open_zarr(path).note("train", ["x"])
    assert note.endswith("windows end at 1 gap of time, the first from 234 to 360 before row 40")
    store = open_zarr(path, rows=(10, 70), splits={"val": 0.25})
    assert store.extents("train")[1].tolist() == [30, 15]
    assert store.extents("val")[1].tolist() == [15]


def test_gaps_are_found_across_slabs_and_a_chunk_that_was_cut_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zarr_arrays, "_SLAB", 20)
    times = np.delete(np.arange(300), [15, 16, 80, 81, 200])
    path = series(tmp_path / "a.zarr", times)
    assert np.cumsum(open_zarr(path).extents("train")[1]).tolist() == [15, 78, 196, 295]
    group = zarr.open_group(path, zarr_format=2)
    group.create_array("time", data=times, chunks=(300,), compressors=numcodecs.Blosc(), overwrite=True)
    group["time"].attrs["_ARRAY_DIMENSIONS"] = ["time"]
    (path / "time/0").write_bytes((path / "time/0").read_bytes()[:-5])
    with pytest.raises(StoreError, match="time cannot be read: a chunk of Blosc was cut short"):
        open_zarr(path, fields=["x"]).extents("train")


def test_months_are_regular_and_times_of_events_are_not(tmp_path: Path) -> None:
    months = np.arange("2000-01", "2010-01", dtype="M8[M]").astype("M8[D]").astype("i8")
    assert open_zarr(series(tmp_path / "a.zarr", months)).extents("train")[1].tolist() == [120]
    events = np.cumsum(np.random.default_rng(0).exponential(size=200))
    store = open_zarr(series(tmp_path / "b.zarr", events))
    assert store.extents("train")[1].tolist() == [200]
    assert "time has no regular step, so windows do not end at its gaps" in store.note("train", ["x"])


def test_lengths_state_the_sequences(tmp_path: Path) -> None:
    path = series(tmp_path / "a.zarr", HOURS)
    store = open_zarr(path, lengths=[30, 50])
    assert store.extents("train")[1].tolist() == [30, 50]
    assert store.digest != open_zarr(path).digest != open_zarr(path, lengths=[80]).digest
    assert "gap" not in store.note("train", ["x"])
    for wrong in ([30, 40], [80, 0], [[80]], [40.0, 40.0]):
        with pytest.raises(ParamsError, match="lengths: expected samples of each sequence, 80 in all"):
            open_zarr(path, lengths=wrong)


def test_a_budget_that_is_refused_hides_nothing(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("x", shape=(4000, 90, 180), chunks=(1000, 90, 180), dtype="f4")
    group.create_array("static", data=np.zeros((90, 180)))
    said = CliRunner().invoke(app, ["info", str(tmp_path / "a.zarr")], env={"COLUMNS": "5000"}).stdout
    assert "the least that works is" in said
    assert "static (90, 180)" in said
    assert json.loads(CliRunner().invoke(app, ["info", str(tmp_path / "a.zarr"), "--json"]).stdout)


RAW = np.random.default_rng(3).integers(-100, 100, (200, 3))
NO_VALUE = -99


def write_packed(
    folder: Path, dtype: str, attributes: dict[str, Any], fill: Any = 0, version: int = 3
) -> tuple[Path, npt.NDArray[Any]]:
    raw = RAW.astype(dtype)
    raw[5, 1] = NO_VALUE
    group = zarr.open_group(folder, mode="w", zarr_format=version)  # type: ignore[arg-type]  # 2 or 3
    array = group.create_array("t2m", shape=raw.shape, chunks=(16, 3), dtype=raw.dtype, fill_value=fill)
    array[:] = raw
    array.attrs.update(attributes)
    return folder, raw


@pytest.mark.parametrize(
    ("dtype", "unpacked"), [("i1", "f4"), (">i2", "f4"), ("i4", "f8"), ("i8", "f8"), ("f4", "f4"), ("f8", "f8")]
)
def test_packed_numbers_are_read_as_what_they_stand_for(tmp_path: Path, dtype: str, unpacked: str) -> None:
    attributes = {"scale_factor": 0.01, "add_offset": 280.0, "missing_value": NO_VALUE}
    path, raw = write_packed(tmp_path / "a.zarr", dtype, attributes)
    expected = raw.astype("f8") * 0.01 + 280.0
    expected[raw == NO_VALUE] = np.nan
    batches = outofcore.loader(path, "train", 200, shuffle=False)
    (batch,) = batches
    np.testing.assert_array_equal(batch["t2m"].numpy(), expected.astype(unpacked))
    assert batch["t2m"].numpy().dtype == unpacked
    said = f"t2m is unpacked by its attributes to {np.dtype(unpacked)}, 1 of the first "
    assert [note for note in batches.notes if said in note]
    (stored,) = outofcore.loader(open_zarr(path, packed=True), "train", 200, shuffle=False)
    np.testing.assert_array_equal(stored["t2m"].numpy(), raw)
    assert open_zarr(path, packed=True).digest != open_zarr(path).digest


def test_what_stands_for_no_value_is_found_where_xarray_keeps_it(tmp_path: Path) -> None:
    encoded = base64.b64encode(struct.pack("<d", NO_VALUE)).decode()
    for number, (dtype, attributes, fill, version) in enumerate(
        [
            ("f4", {"_FillValue": encoded}, 0, 3),
            ("i2", {"_FillValue": NO_VALUE}, 0, 3),
            ("i2", {"_ARRAY_DIMENSIONS": ["time", "x"]}, NO_VALUE, 2),
        ]
    ):
        path, raw = write_packed(tmp_path / f"{number}.zarr", dtype, attributes, fill, version)
        expected = np.where(raw == NO_VALUE, np.nan, raw).astype("f4")
        np.testing.assert_array_equal(open_zarr(path).rows("train")["t2m"].read(), expected)


def test_signs_are_those_of_the_attribute(tmp_path: Path) -> None:
    path, raw = write_packed(tmp_path / "a.zarr", "i1", {"_Unsigned": "true"})
    values = open_zarr(path).rows("train")["t2m"].read()
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, raw.astype(int) % 256)


def test_numbers_without_such_attributes_are_their_values(tmp_path: Path) -> None:
    """Also where a fill value is that of the array alone, or the attributes change nothing or are no numbers."""
    encoded = base64.b64encode(struct.pack("<d", np.nan)).decode()
    for number, (dtype, attributes) in enumerate(
        [
            ("i2", {}),
            ("i2", {"scale_factor": 1, "add_offset": 0, "_FillValue": 1 << 40}),
            ("f4", {"_FillValue": encoded, "missing_value": "none"}),
        ]
    ):
        path, raw = write_packed(tmp_path / f"{number}.zarr", dtype, attributes, NO_VALUE)
        array = open_zarr(path).rows("train")["t2m"]
        assert array.dtype == dtype
        np.testing.assert_array_equal(array.read(), raw)
        assert "unpacked" not in open_zarr(path).note("train", ["t2m"])
