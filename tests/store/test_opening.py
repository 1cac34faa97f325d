"""What is opened is decided by what is at a path or an address; the line that other formats get is run."""

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
from typer.testing import CliRunner

import outofcore
from outofcore.cli import app
from outofcore.errors import ParamsError, StoreError
from outofcore.store.opening import open_data
from tests.store.object_storage import upload

VALUES = np.arange(1000, dtype="uint16")


@pytest.fixture(params=["sealed", "zarr", "tokens"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same values in the field ``tokens``."""
    if request.param == "sealed":
        outofcore.write_store(tmp_path / "a.zarr", {"tokens": VALUES}, splits={}, chunk_rows=160)
    elif request.param == "zarr":
        zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("tokens", data=VALUES, chunks=(100,))
    else:
        np.save(tmp_path / "a.npy", VALUES)
    return next(tmp_path.iterdir())


def test_one_call_opens_all_kinds_of_data(place: Path) -> None:
    store = open_data(place)
    assert (store.rows("train")["tokens"].read() == VALUES).all()
    assert open_data(store) is store
    assert open_data(str(place)).digest == store.digest


def test_a_loader_and_a_command_open_what_it_opens(place: Path) -> None:
    (batch,) = outofcore.loader(place, "train", 1000, shuffle=False, tensors="stored")
    assert batch["tokens"].tolist() == VALUES.tolist()
    (field,) = fields(CliRunner().invoke(app, ["info", str(place), "--json"]).output)
    assert (field.get("field", field.get("name")), field.get("type", field.get("dtype"))) == ("tokens", "uint16")


def fields(answer: str) -> Any:
    content = json.loads(answer)
    found = content if isinstance(content, list) else content["fields"]
    return [each for each in found if not each.get("name", "").startswith("sequences/")]


@pytest.mark.xdist_group("object storage")
def test_an_address_is_opened_like_a_path(make_store: Callable[..., Path], endpoint: str, tmp_path: Path) -> None:
    local = make_store()
    group = zarr.open_group(tmp_path / "b.zarr", mode="w")
    group.create_array("tokens", data=VALUES, chunks=(100,))
    assert open_data(upload(local, endpoint, "opening/a.zarr")).digest == open_data(local).digest
    there = open_data(upload(tmp_path / "b.zarr", endpoint, "opening/b.zarr"), ["tokens"])
    assert (there.rows("train")["tokens"].read() == VALUES).all()


@pytest.mark.parametrize("value", [5, None, b"a.zarr"])
def test_what_names_no_data_is_refused(value: object) -> None:
    with pytest.raises(ParamsError, match=r"^data: expected a store, or where it is, .* got a \w+$"):
        open_data(value)


def test_a_place_with_nothing_is_an_error_of_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        open_data(tmp_path / "none")


TABLE = np.arange(60, dtype="f4").reshape(20, 3)
NUMBERS = np.arange(20)


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["a/x"], file["y"] = TABLE, NUMBERS
        file["table"], file["title"] = np.zeros((7, 2)), "of an experiment"


def zipped(path: Path) -> None:
    with zarr.storage.ZipStore(path, mode="w") as store:
        zarr.open_group(store, mode="w").create_array("x", data=TABLE, chunks=(5, 3))


FILES: dict[str, Callable[[Path], object]] = {
    "x.h5": hdf5,
    "x.nc": hdf5,
    "x.npz": lambda path: np.savez(path, x=TABLE, y=NUMBERS, other=np.zeros(5)),
    "x.npy": lambda path: np.save(path, TABLE),
    "x.pt": lambda path: torch.save(torch.from_numpy(TABLE), path),
    "x.csv": lambda path: pd.DataFrame({"x": NUMBERS, "y": TABLE[:, 0]}).to_csv(path, index=False),
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
    wanted = NUMBERS if name in ("x.csv", "x.tsv", "x.parquet") else TABLE
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
