"""Stores from a user's own arrays: the same rows, the same bytes, and no mistake that passes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, get_args

import h5py
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from torch.utils.data import DataLoader
from typer.testing import CliRunner

from outofcore import ZarrDataset, arrays, loader, open_store, write_store
from outofcore.cli import app
from outofcore.conversion.user_arrays import Labels, fields_of, form_of
from outofcore.errors import ParamsError
from outofcore.space.filesystems import folder_bytes
from outofcore.store.codecs import CodecName
from outofcore.store.schema import Layout
from tests.own_arrays import ROWS, check, data_of, pieces
from tests.processes import run_program

SPLITS = {"val": 0.2, "test": 0.1}


def groups_of(rows: int = ROWS) -> npt.NDArray[np.int64]:
    """Runs of 1 to 40 rows; a group may come back."""
    noise = np.random.default_rng(1)
    return np.repeat(noise.integers(0, 300, rows), noise.integers(1, 40, rows))[:rows]


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lengths_of(values: npt.NDArray[Any]) -> list[int]:
    return np.diff(np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1], [True]]))).tolist()


WAYS: dict[str, dict[str, Any]] = {
    "train only": {},
    "by row": {"splits": SPLITS},
    "by group": {"splits": SPLITS, "groups": groups_of()},
    "by text": {"splits": SPLITS, "groups": [f"sübject {group}" for group in groups_of()]},
    "grouped, train only": {"groups": groups_of()},
    "by sequence": {"splits": SPLITS, "sequences": np.arange(ROWS) // 90},
    "one sequence": {"splits": SPLITS, "lengths": [ROWS]},
    "by length": {"splits": {"val": 0.3}, "lengths": lengths_of(groups_of())},
    "sequences of groups": {"splits": SPLITS, "sequences": np.arange(ROWS) // 9, "groups": np.arange(ROWS) // 90},
    "sequences, train only": {"sequences": np.arange(ROWS) // 90},
}


@pytest.mark.parametrize("sizes", [(77,), pytest.param((1, 640, ROWS), marks=pytest.mark.long)])
@pytest.mark.parametrize("way", WAYS)
def test_pieces_of_any_size_give_the_same_store(
    way: str, sizes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, options = data_of(), {"chunk_rows": 64, "shard_rows": 512, **WAYS[way]}
    check(write_store(tmp_path / "whole.zarr", data, **options), data)
    expected = digests(tmp_path / "whole.zarr")
    for rows in sizes:
        write_store(tmp_path / "pieces.zarr", pieces(data, rows), **options)
        assert digests(tmp_path / "pieces.zarr") == expected
    monkeypatch.setattr(arrays, "STEP_BYTES", 5000)
    monkeypatch.setattr(arrays, "LABELS_TOGETHER", 100)
    monkeypatch.setenv("OUTOFCORE_WORKERS", "3")
    write_store(tmp_path / "steps.zarr", data, **options)
    assert digests(tmp_path / "steps.zarr") == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pieces.zarr", "steps.zarr", "whole.zarr"]


def test_only_a_store_of_the_same_form_is_replaced_unasked(tmp_path: Path) -> None:
    path, data = tmp_path / "a.zarr", {"x": np.arange(100), "y": np.ones((100, 3), np.float32)}
    first = write_store(path, data).digest
    assert write_store(path, {"x": data["x"] + 1, "y": data["y"]}).digest != first
    kept = open_store(path).digest
    for others, settings, told in (
        ({"x": np.arange(100)}, {}, "has other fields: x, y;"),
        ({"x": np.arange(100.0), "y": data["y"]}, {}, "has other fields: x, y;"),
        (data, {"splits": {"val": 0.1}}, "was made with other settings: splits;"),
        (data, {"codec": "lz4"}, "was made with other settings: store;"),
    ):
        with pytest.raises(ParamsError, match=rf"a\.zarr: the store that is there {told} .*replace=True"):
            write_store(path, others, **settings)
        assert open_store(path).digest == kept
    assert set(write_store(path, {"x": np.arange(100)}, replace=True).rows("train").fields) == {"x"}


def test_the_order_of_mappings_is_of_no_effect(tmp_path: Path) -> None:
    data = data_of(500)
    one = write_store(tmp_path / "a.zarr", data, splits=SPLITS)
    other = dict(reversed(data.items()))
    assert write_store(tmp_path / "b.zarr", other, splits=dict(reversed(SPLITS.items()))).digest == one.digest
    assert write_store(tmp_path / "c.zarr", data, splits=SPLITS, seed=1).digest != one.digest


def test_a_group_is_in_one_split_and_its_runs_are_sequences(tmp_path: Path) -> None:
    data, groups = data_of(), groups_of()
    store = write_store(tmp_path / "a.zarr", {**data, "subject": groups}, splits=SPLITS, groups="subject")
    seen: list[set[int]] = []
    for split in store.splits:
        rows = store.rows(split).read()
        assert (rows["subject"] == groups[rows["number"]]).all()
        seen.append(set(rows["subject"].tolist()))
        column = store.sequences(split)["group"].read()
        start, length = store.extents(split)
        assert (np.repeat(column, length) == rows["subject"]).all()
        assert (rows["number"][start + length - 1] - rows["number"][start] == length - 1).all()
    assert sum(map(len, seen)) == len(set(groups.tolist()))
    assert sum(store.attributes["sequences"].values()) == len(lengths_of(groups))


def test_a_split_holds_the_groups_that_it_names_and_a_share_of_the_others(tmp_path: Path) -> None:
    data, groups = data_of(), groups_of()
    named = np.unique(groups)[:3].tolist()
    store = write_store(tmp_path / "a.zarr", data, splits={"val": 0.3, "test": named}, groups=groups)
    drawn = write_store(tmp_path / "b.zarr", data, splits={"val": 0.3}, groups=groups)
    number = {split: store.rows(split)["number"].read() for split in store.splits}
    assert (np.sort(number["test"]) == np.flatnonzero(np.isin(groups, named))).all()
    val = drawn.rows("val")["number"].read()
    assert (number["val"] == val[~np.isin(groups[val], named)]).all()
    assert sum(map(len, number.values())) == len(groups)
    assert not len(write_store(tmp_path / "c.zarr", data, splits={"val": 0.4, "test": 0.6}).rows("train"))


def test_a_field_of_text_can_be_the_groups(tmp_path: Path) -> None:
    data, names = data_of(), np.array([f"s{group}" for group in groups_of()])
    named = write_store(tmp_path / "a.zarr", {**data, "who": names}, splits=SPLITS, groups="who")
    assert "who" not in named.rows("train").fields
    given = write_store(tmp_path / "b.zarr", data, splits=SPLITS, groups=names)
    for split in SPLITS:
        assert named.sequences(split)["group"].read().tolist() == given.sequences(split)["group"].read().tolist()
        assert (named.rows(split)["number"].read() == given.rows(split)["number"].read()).all()


def test_equal_content_is_in_one_split(tmp_path: Path) -> None:
    rows = {"x": np.arange(2000) % 40}
    store = write_store(tmp_path / "a.zarr", rows, splits=SPLITS)
    by_row = [set(store.rows(split)["x"].read().tolist()) for split in store.splits]
    assert sum(map(len, by_row)) == 40
    store = write_store(
        tmp_path / "a.zarr", {"x": np.repeat(np.arange(2000) % 40, 3)}, splits=SPLITS, lengths=[3] * 2000
    )
    by_sequence = [set(store.rows(split)["x"].read().tolist()) for split in store.splits]
    assert sum(map(len, by_sequence)) == 40


def test_shares_are_roughly_met(tmp_path: Path) -> None:
    rows = {"x": np.arange(20_000)}
    for options in ({}, {"groups": rows["x"]}, {"lengths": [1] * 20_000}):
        store = write_store(tmp_path / "a.zarr", rows, splits={"val": 0.1, "other": 0.25}, **options)
        counts = store.attributes["rows"]
        assert abs(counts["val"] - 2000) < 4 * 43
        assert abs(counts["other"] - 5000) < 4 * 62
        assert store.splits == ("train", "other", "val")


def test_blocks_of_rows_are_the_sequences_by_default(tmp_path: Path) -> None:
    store = write_store(tmp_path / "a.zarr", {"x": np.arange(100)}, chunk_rows=32)
    assert store.extents("train")[1].tolist() == [32, 32, 32, 4]


def test_what_slices_is_read(tmp_path: Path) -> None:
    values = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["flag"] = values, values[:, 0] > 5
        group = zarr.open_group(tmp_path / "z", mode="w")
        group.create_array("y", data=values, chunks=(7, 3))
        mapped = np.lib.format.open_memmap(tmp_path / "m.npy", mode="w+", dtype=np.float32, shape=values.shape)
        mapped[:] = values
        data = {"x": file["x"], "flag": file["flag"], "y": group["y"], "m": mapped, "l": values.tolist()}
        store = write_store(tmp_path / "a.zarr", data)
    for name in ("x", "y", "m", "l"):
        assert (store.rows("train")[name].read() == values).all()
    assert (store.rows("train")["flag"].read() == (values[:, 0] > 5)).all()


@pytest.mark.parametrize(("row", "rows"), [((), 1 << 16), ((1000,), 64), ((1 << 20,), 16)])
def test_chunks_have_about_256_kib(row: tuple[int, ...], rows: int, tmp_path: Path) -> None:
    store = write_store(tmp_path / "a.zarr", {"x": np.zeros((3, *row), np.float32), "y": np.zeros(3, bool)})
    assert {store.rows("train")[name].chunk_rows for name in "xy"} == {rows}


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_the_forecast_is_an_upper_bound(codec: Any, tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for rows in (1, 4000, 50_000):
        data = {"x": noise.integers(0, 256, (rows, 9), np.uint8), "y": noise.random(rows)}
        groups = [f"a name of {number}" for number in range(rows)]
        layout = Layout(codec=codec, chunk_rows=64, shard_rows=640)
        options: dict[str, Any] = {"codec": codec, "chunk_rows": 64, "shard_rows": 640, "splits": SPLITS}
        for given in (None, groups):
            write_store(tmp_path / "a.zarr", data, groups=given, **options)
            form = form_of(data)
            labels = Labels(given, None, None, form)
            labels.of(data, 0, rows)
            bound = arrays.most_bytes(fields_of(form), layout, rows, 3, labels)
            assert folder_bytes(tmp_path / "a.zarr") <= bound
    assert codec != "none" or bound < 1.5 * folder_bytes(tmp_path / "a.zarr")


def test_a_memory_map_is_streamed(tmp_path: Path) -> None:
    program = """
import resource, sys
import numpy as np
from outofcore import write_store
frames = np.lib.format.open_memmap(sys.argv[1] + "/f.npy", mode="w+", dtype=np.float16, shape=(20_000, 64, 64))
write_store(sys.argv[1] + "/warm.zarr", {"x": frames[:200]}, splits={"val": 0.1})
def anonymous():
    lines = dict(line.split(":") for line in open("/proc/self/status").read().splitlines())
    return int(lines["RssAnon"].split()[0]) * 1024
before = most = anonymous()
def parts():
    global most
    for start in range(0, 20_000, 500):
        most = max(most, anonymous())
        yield {"x": frames[start : start + 500]}
write_store(sys.argv[1] + "/a.zarr", parts(), splits={"val": 0.1})
print(most - before)
import tracemalloc
tracemalloc.start()
write_store(sys.argv[1] + "/a.zarr", {"x": frames}, splits={"val": 0.1})
print(tracemalloc.get_traced_memory()[1])
"""
    done = run_program(program, str(tmp_path), folder=tmp_path)
    grown, traced = map(int, done.stdout.split())
    assert grown < 100e6  # of 164 MB
    assert traced < 100e6


def test_the_rest_of_the_project_reads_it(tmp_path: Path) -> None:
    data = data_of()
    path = tmp_path / "mine.zarr"
    store = write_store(
        path, data, splits=SPLITS, groups=groups_of(), chunk_rows=64, attributes={"unit": "mV", "labels": ["a", "b"]}
    )
    assert (store.attributes["unit"], store.attributes["labels"], store.domain) == ("mV", ["a", "b"], "arrays")
    assert store.attributes["params"]["splits"] == SPLITS
    run = CliRunner()
    card = json.loads(run.invoke(app, ["info", str(path), "--json"]).stdout)
    assert sum(card["rows"].values()) == ROWS
    assert {field["name"] for field in card["fields"]} > {"number", "half", "sequences/group"}
    assert "arrays" in run.invoke(app, ["info", str(path)]).stdout
    assert run.invoke(app, ["show", str(path), "--split", "val"]).exit_code == 0
    checked = run.invoke(app, ["verify", str(path)])
    assert checked.exit_code == 0
    assert "whole" in checked.stdout
    dataset = ZarrDataset(path, "val")
    (batch,) = DataLoader(dataset, batch_size=len(dataset))
    assert (batch["half"].numpy() == data["half"][batch["number"].numpy()]).all()


def test_a_loader_reads_each_row_once_and_resumes(tmp_path: Path) -> None:
    data = data_of()
    write_store(tmp_path / "mine.zarr", data, splits=SPLITS, chunk_rows=64)
    seen = []
    for split in ("train", "val", "test"):
        for batch in loader(tmp_path / "mine.zarr", split, 256):
            seen.append(batch["number"].numpy())
            assert (batch["picture"].numpy() == data["picture"][seen[-1]]).all()
    assert np.sort(np.concatenate(seen)).tolist() == list(range(ROWS))
    first = loader(tmp_path / "mine.zarr", "train", 256)
    batches = iter(first)
    for _ in range(5):
        next(batches)
    state = first.state_dict()
    rest = [batch["number"].tolist() for batch in batches]
    again = loader(tmp_path / "mine.zarr", "train", 256)
    again.load_state_dict(state)
    assert [batch["number"].tolist() for batch in again] == rest


class Arrow:
    """A table as polars and DuckDB pass it on: by Arrow's C stream, which is all that pyarrow needs."""

    def __init__(self, table: pa.Table) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def test_tables_and_groups_are_stored_by_the_names_of_their_columns(tmp_path: Path) -> None:
    data = {"x": np.arange(ROWS, dtype=np.float32), "y": np.arange(ROWS) % 7}
    named = {**data, "name": np.array([f"subject {row // 10}" for row in range(ROWS)], object)}
    expected = write_store(tmp_path / "plain.zarr", named, splits=SPLITS, groups="name").digest
    frame = pd.DataFrame(named, index=np.arange(ROWS)[::-1] / 2)
    table = pa.table(named)
    pieces = [Arrow(table[:700]), Arrow(table[700:])]
    for given in (frame, [frame[:700], frame[700:]], table, table.to_batches(max_chunksize=300), Arrow(table), pieces):
        assert write_store(tmp_path / "table.zarr", given, splits=SPLITS, groups="name").digest == expected
    expected = write_store(tmp_path / "plain.zarr", data, splits=SPLITS).digest
    group = zarr.create_group(tmp_path / "group")
    for name, array in data.items():
        group.create_array(name, data=array)
    with h5py.File(tmp_path / "group.h5", "w") as file:
        file.update(data)
        for stored in (group, file):
            assert write_store(tmp_path / "again.zarr", stored, splits=SPLITS).digest == expected


STATED: dict[str, dict[str, Any]] = {
    "groups": {"groups": np.arange(200) // 20},
    "sequences": {"sequences": np.arange(200) // 20},
    "lengths": {"lengths": [20] * 10},
    "a field": {"sequences": "trial"},
}


@pytest.mark.parametrize("way", STATED)
def test_windows_stay_within_the_sequences_that_were_stated(tmp_path: Path, way: str) -> None:
    data = {"row": np.arange(200), "trial": np.arange(200) // 20}
    write_store(tmp_path / "stated.zarr", data, **STATED[way])
    write_store(tmp_path / "rows.zarr", data, chunk_rows=32)

    def first_rows(name: str, **window: Any) -> list[int]:
        batches = loader(tmp_path / name, "train", 64, window={"length": 8, "stride": 4, **window})
        return sorted(int(row) for batch in batches for row in batch["row"][:, 0])

    inside = [trial * 20 + step for trial in range(10) for step in (0, 4, 8, 12)]
    assert first_rows("stated.zarr") == first_rows("stated.zarr", mode="never") == inside
    assert first_rows("stated.zarr", mode="pack") == first_rows("rows.zarr") == list(range(0, 193, 4))


def test_stated_sequences_that_are_shorter_than_a_window_are_counted(tmp_path: Path) -> None:
    write_store(tmp_path / "a.zarr", {"row": np.arange(100)}, lengths=[5, 40, 5, 50])
    batches = loader(tmp_path / "a.zarr", "train", 8, window={"length": 8})
    assert any("2 of 4 sequences have fewer rows than a window (8)" in note for note in batches.notes)
    none = loader(tmp_path / "a.zarr", "train", 8, window={"length": 64})
    assert any("no sequence has the 64 rows of a window" in note and 'mode="pack"' in note for note in none.notes)
    assert not any(
        "fewer rows than" in note for note in loader(tmp_path / "a.zarr", "train", 8, window={"length": 5}).notes
    )


def test_a_store_that_says_nothing_of_its_sequences_has_windows_as_before(tmp_path: Path) -> None:
    store = write_store(tmp_path / "a.zarr", {"row": np.arange(100)}, lengths=[50, 50])
    del store.attributes["sequences_stated"]  # as earlier versions wrote it
    assert sum(len(batch["row"]) for batch in loader(store, "train", 8, window={"length": 8})) == 93
