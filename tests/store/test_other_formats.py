"""Files and folders of other formats: what is said of them is run, and gives their values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import zarr
import zarr.storage

import outofcore
from outofcore.errors import StoreError

VALUES = np.arange(60, dtype="f4").reshape(20, 3)
NUMBERS = np.arange(20)


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["a/x"], file["y"] = VALUES, NUMBERS
        file["table"], file["title"] = np.zeros((7, 2)), "of an experiment"


def zipped(path: Path) -> None:
    with zarr.storage.ZipStore(path, mode="w") as store:
        zarr.open_group(store, mode="w").create_array("x", data=VALUES, chunks=(5, 3))


FILES: dict[str, Callable[[Path], object]] = {
    "x.h5": hdf5,
    "x.nc": hdf5,
    "x.npz": lambda path: np.savez(path, x=VALUES, y=NUMBERS, other=np.zeros(5)),
    "x.npy": lambda path: np.save(path, VALUES),
    "x.pt": lambda path: torch.save(torch.from_numpy(VALUES), path),
    "x.csv": lambda path: pd.DataFrame({"x": NUMBERS, "y": VALUES[:, 0]}).to_csv(path, index=False),
    "x.tsv": lambda path: pd.DataFrame({"x": NUMBERS}).to_csv(path, index=False, sep="\t"),
    "x.parquet": lambda path: pq.write_table(pa.table({"x": NUMBERS}), path),
    "x.zip": zipped,
}


@pytest.mark.parametrize("name", FILES)
def test_the_line_that_is_given_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    FILES[name](tmp_path / name)
    with pytest.raises(StoreError, match=rf"^{name}: ") as refused:
        outofcore.loader(name)
    assert "\n" not in str(refused.value)
    said = str(refused.value)
    line = said[said.index("f = " if "f = " in said else "outofcore.") :]
    modules = (outofcore, np, h5py, torch, pd, pa, zarr)
    given: dict[str, Any] = {"np": np, **{module.__name__: module for module in modules}}
    exec(line if line.startswith("f = ") else f"result = {line}", given)
    batches = given["result"] if name == "x.zip" else outofcore.loader("x.zarr", "train", 20, shuffle=False)
    (batch,) = batches
    wanted = NUMBERS if name in ("x.csv", "x.tsv", "x.parquet") else VALUES
    field = "a_x" if name in ("x.h5", "x.nc") else "x"
    assert np.sort(batch[field].numpy(), axis=0).tolist() == wanted.tolist()
    assert set(batch) <= {field, "y"}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("attributes.json", {"n5": "2.0.0"}, "is N5, which is not read"),
        ("zarr.json", {"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0"}, "is of a draft of Zarr v3"),
    ],
)
def test_a_folder_of_another_format_is_named(tmp_path: Path, file: str, content: dict[str, str], said: str) -> None:
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(StoreError, match=said):
        outofcore.loader(tmp_path)


@pytest.mark.parametrize("name", ["x.h5", "x.csv", "x.h5/", "nothing"])
def test_what_is_not_there_does_not_exist(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        outofcore.loader(tmp_path / name)


def test_a_netcdf_that_hdf5_does_not_hold_is_copied_with_xarray(tmp_path: Path) -> None:
    (tmp_path / "x.nc").write_bytes(b"CDF\x01 and more")
    with pytest.raises(
        StoreError, match=r"x\.nc: is not read in place: xarray\.open_dataset\(.*\)\.to_zarr\('x\.zarr'\)"
    ):
        outofcore.loader(tmp_path / "x.nc")
