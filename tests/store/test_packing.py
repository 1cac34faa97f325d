"""Packed numbers of netCDF and xarray, against what CF says of them, in NumPy's own arithmetic."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr

from outofcore import loader, open_zarr

RAW = np.random.default_rng(3).integers(-100, 100, (200, 3))
NO_VALUE = -99


def write(
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
    path, raw = write(tmp_path / "a.zarr", dtype, attributes)
    expected = raw.astype("f8") * 0.01 + 280.0
    expected[raw == NO_VALUE] = np.nan
    batches = loader(path, "train", 200, shuffle=False)
    (batch,) = batches
    np.testing.assert_array_equal(batch["t2m"].numpy(), expected.astype(unpacked))
    assert batch["t2m"].numpy().dtype == unpacked
    said = f"t2m is unpacked by its attributes to {np.dtype(unpacked)}, 1 of the first "
    assert [note for note in batches.notes if said in note]
    (stored,) = loader(open_zarr(path, packed=True), "train", 200, shuffle=False)
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
        path, raw = write(tmp_path / f"{number}.zarr", dtype, attributes, fill, version)
        expected = np.where(raw == NO_VALUE, np.nan, raw).astype("f4")
        np.testing.assert_array_equal(open_zarr(path).rows("train")["t2m"].read(), expected)


def test_signs_are_those_of_the_attribute(tmp_path: Path) -> None:
    path, raw = write(tmp_path / "a.zarr", "i1", {"_Unsigned": "true"})
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
        path, raw = write(tmp_path / f"{number}.zarr", dtype, attributes, NO_VALUE)
        array = open_zarr(path).rows("train")["t2m"]
        assert array.dtype == dtype
        np.testing.assert_array_equal(array.read(), raw)
        assert "unpacked" not in open_zarr(path).note("train", ["t2m"])
