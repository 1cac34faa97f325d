"""What is opened is decided by what is at a path or an address, whoever opens it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
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
