"""Rows of a store on the terminal, and completion in the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from outofcore.inspect.store import looks
from outofcore.store.reader import open_store
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from tests.lines_project import call, folder, lines, store
from tests.store.conftest import write_store
from tests.store.forging import forge_column
from tests.store.test_metadata import COLUMNS, LENGTHS, STARTS

__all__ = ["folder", "lines", "store"]  # fixtures


def test_rows_are_shown_with_the_sequence_that_they_belong_to(store: Path) -> None:
    opened = open_store(store)
    for each in looks(opened, "val", None, 0, 10_000):
        start, length = (int(opened.sequences("val")[name].read()[each.number]) for name in ("start", "length"))
        assert start + each.place == each.row < start + length
        assert each.sequence["offset"] == opened.sequences("val")["offset"].read()[each.number]
        assert each.drawing == f"<{opened.rows('val')['number'].read()[each.row]}>"


def test_by_default_rows_are_spread_over_a_split(store: Path) -> None:
    found = json.loads(call("show", store, "--json", "--count", 4).stdout)
    sequences = len(open_store(store).sequences("train"))
    assert [each["split"] for each in found] == ["train"] * 4
    assert [each["number"] * 4 // sequences for each in found] == [0, 1, 2, 3]
    text = call("show", store, "--count", 4).stdout
    assert all(f"{each['drawing']}\n" in text for each in found)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--split", "tran"], "no split 'tran'"),
        (["--part", "monday"], "no part 'monday'; it has no parts"),
        (["--row", "1000000"], "there is no row 1,000,000"),
    ],
)
def test_what_is_not_there_is_one_line(store: Path, arguments: list[str], told: str) -> None:
    result = call("show", store, *arguments, code=2)
    assert told in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(("column", "values"), COLUMNS.values(), ids=COLUMNS)
def test_sequences_that_do_not_cover_the_rows_are_one_line(tmp_path: Path, column: str, values: list[int]) -> None:
    root = write_store(tmp_path / "a.zarr")
    forge_column(root, column, values)
    for arguments in ([], ["--row", 1018], ["--count", 6]):
        result = call("show", root, *arguments, code=2)
        assert f"{root}: the sequences of train do not cover its 1019 rows" in result.stderr
        assert result.stdout == ""
        assert len(result.stderr.splitlines()) == 1


def test_more_rows_than_there_are_shows_all_that_there_are(store: Path) -> None:
    opened = open_store(store)
    everything = looks(opened, "val", None, None, 10**12)
    assert [each.number for each in everything] == list(range(len(opened.sequences("val"))))
    assert len(looks(opened, "val", None, 0, 10**30)) == len(opened.rows("val"))


def test_sequences_without_rows_are_passed_over(tmp_path: Path) -> None:
    root = write_store(tmp_path / "a.zarr")
    forge_column(root, STARTS, [0, 10, 10, 311, 1019, 1019])
    forge_column(root, LENGTHS, [10, 0, 301, 708, 0, 0])
    found = json.loads(call("show", root, "--json", "--count", 6).stdout)
    assert [(each["number"], each["row"]) for each in found] == [(0, 5), (2, 160), (3, 665)]
    found = json.loads(call("show", root, "--json", "--row", 10, "--count", 1).stdout)
    assert [(each["number"], each["place"]) for each in found] == [(2, 0)]


def test_the_shell_completes_commands_and_options() -> None:
    program = Path(sys.executable).parent / "outofcore"
    for words, expected in (("outofcore ver", "verify"), ("outofcore show --sp", "--split")):
        environment = {**os.environ, "_OUTOFCORE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
        environment["COMP_CWORD"] = str(len(words.split()) - 1)
        told = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout
        assert told.split() == [expected]


def test_a_store_with_one_row_and_no_columns_is_shown(tmp_path: Path) -> None:
    path = write_one_row(tmp_path / "one.zarr")
    assert call("show", path).stdout == "number 0 of train: number 0 of line 0\nlength 1, start 0\n\n"
    assert call("show", path, "--split", "val").stdout == "no number here\n"
    assert "there is no row 1" in call("show", path, "--row", 1, code=2).stderr
    assert "1 found = 1 accepted + 0 rejected" in call("info", path).stdout


def test_a_store_without_the_fields_that_its_domain_draws_is_named(tmp_path: Path) -> None:
    path = write_one_row(tmp_path / "old.zarr", domain="chess")
    said = call("show", path, code=2).stderr
    assert said.count("\n") == 1
    assert "old.zarr: no field 'squares', so another version of outofcore has made it: convert again" in said


def write_one_row(folder: Path, domain: str = "numbers") -> Path:
    schema = Schema(rows=(Field(name="number", dtype="int32", doc="a number"),), sequences=())
    splits = ("train", "val")
    with ThreadPoolExecutor(1) as encoders:
        writer = StoreWriter(folder.with_suffix(".work"), {"": schema}, Layout(), splits, encoders)
        writer.append("", "train", {"number": np.ones(1, np.int32)}, {"length": np.ones(1, np.int64)})
        counted = {"found": 1, "accepted": 1, "rejected": {}, "params": {}}
        sums = {name: {"train": 1, "val": 0} for name in ("rows", "sequences")}
        names = {"domain": domain, "row": "number", "sequence": "line", "parts": [""], "splits": list(splits)}
        ones = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        texts = {name: np.array(["x"], object) for name in ("name", "digest")}
        with Target(folder) as target:
            writer.commit(target, {**counted, **sums, **names}, {**ones, **texts})
    return folder


@pytest.mark.xdist_group("report")
def test_a_store_is_described_without_torch_and_the_compiler(project: Path) -> None:
    program = (
        "import sys; from outofcore.cli import app\n"
        "for store in sys.argv[1:]: app(['info', store], standalone_mode=False)\n"
        "sys.exit(', '.join({'numba', 'torch'} & {*sys.modules}) or None)"
    )
    stores = sorted((project / "data" / "stores").glob("*.zarr"))
    assert len(stores) == 4
    subprocess.run([sys.executable, "-c", program, *map(str, stores)], check=True, stdout=subprocess.PIPE)
