"""Arrays that make no store: a wrong argument, a disk too small, a write that is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore import open_store, write_store
from outofcore.errors import ParamsError, SpaceError, StoreError
from outofcore.space.filesystems import Filesystem
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from tests.own_arrays import Data, check, data_of, pieces

REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "text": (
        lambda: {"data": {"x": np.array(["a"])}},
        "x: expected bool, integers, or floats of 16 to 64 bits, got str",
    ),
    "complex": (lambda: {"data": {"x": np.ones(3, complex)}}, "x: expected bool, .*, got complex128"),
    "objects": (lambda: {"data": {"x": np.array([{}, 1], object)}}, "x: expected bool, .*, got object"),
    "times": (lambda: {"data": {"x": np.zeros(3, "M8[s]")}}, "x: expected bool"),
    "structures": (lambda: {"data": {"x": np.zeros(3, "i4,f4")}}, "x: expected bool"),
    "a mask": (lambda: {"data": {"x": np.ma.masked_array([1, 2], [0, 1])}}, "x: expected an array without a mask"),
    "a number": (lambda: {"data": {"x": 3}}, "x: expected an array whose first axis is the row, got int without axes"),
    "ragged": (lambda: {"data": {"x": [[1], [1, 2]]}}, "x: expected an array, got list"),
    "empty rows": (lambda: {"data": {"x": np.zeros((3, 0))}}, "x: expected at least one value per row"),
    "lengths of fields": (
        lambda: {"data": {"x": np.ones(3), "y": np.ones(2)}},
        "y: expected 3 rows, as in x, got 2",
    ),
    "no field": (lambda: {"data": {}}, "data: expected at least one field, got none"),
    "no row": (lambda: {"data": {"x": np.ones(0)}}, "data: expected at least one row, got none"),
    "no piece": (lambda: {"data": iter([])}, "data: expected at least one mapping of arrays, got none"),
    "an array": (lambda: {"data": np.ones(3)}, "data: expected a mapping of arrays by field, or an iterator"),
    "nothing": (lambda: {"data": None}, "data: expected a mapping .*, got NoneType"),
    "a name": (lambda: {"data": {"a/b": np.ones(3)}}, "data: expected a name of letters, .*, got 'a/b'"),
    "a name in use": (lambda: {"data": {"sequences": np.ones(3)}}, "data: expected a name .*, got 'sequences'"),
    "another field": (
        lambda: {"data": iter([{"x": np.ones(3)}, {"y": np.ones(3)}])},
        "data: expected the fields x in every piece, got y",
    ),
    "another dtype": (
        lambda: {"data": iter([{"x": np.ones(3)}, {"x": np.ones(3, "f4")}])},
        r"x: expected float64 of shape \(\) in every piece, got float32 of \(\)",
    ),
    "a split": (lambda: {"splits": {"train": 0.5}}, "splits: expected a name .*, got 'train'"),
    "a share": (lambda: {"splits": {"val": 5}}, r"splits\['val'\]: expected a share from 0 to 1, got 5"),
    "shares": (
        lambda: {"splits": {"a": 0.5, "b": 0.6}},
        "splits: expected shares with a sum of at most 1, got a sum of 1.1",
    ),
    "groups of a split": (
        lambda: {"splits": {"val": ["a"]}},
        r"splits\['val'\]: expected a share from 0 to 1, got \['a'\]",
    ),
    "a group that is not there": (
        lambda: {"splits": {"val": ["c"]}, "groups": ["a", "a", "b"]},
        r"splits\['val'\]: expected groups that occur, got \['c'\]",
    ),
    "a group of two splits": (
        lambda: {"splits": {"val": ["a"], "test": ["a"]}, "groups": ["a", "a", "b"]},
        "splits: expected each group in one split, got 'a'",
    ),
    "no shares": (lambda: {"splits": 0.5}, "splits: expected a mapping of shares or groups by split, got 0.5"),
    "a seed": (lambda: {"seed": -1}, "seed: expected .*, got -1"),
    "few groups": (lambda: {"groups": [1, 2]}, r"groups: expected one value per row \(at least 3\), got 2"),
    "many groups": (lambda: {"groups": [1, 2, 3, 4]}, r"groups: expected one value per row \(3\), got 4"),
    "groups of floats": (lambda: {"groups": [0.5, 1, 2]}, "groups: expected whole numbers or text, got float64"),
    "mixed groups": (
        lambda: {"groups": np.array(["a", None, 3], object)},
        "groups: expected whole numbers or text, got NoneType",
    ),
    "no such field": (lambda: {"groups": "who"}, r"groups: expected an array, or a field .* \(x\), got 'who'"),
    "falling numbers": (
        lambda: {"sequences": [1, 2, 1]},
        "sequences: expected numbers that never decrease, got a smaller one in row 2",
    ),
    "a group inside": (
        lambda: {"sequences": [1, 1, 2], "groups": [1, 2, 2]},
        "groups: expected one group in each sequence, got another in row 1",
    ),
    "both": (lambda: {"sequences": [1, 1, 2], "lengths": [3]}, "lengths: expected sequences or lengths, got both"),
    "few lengths": (lambda: {"lengths": [1, 1]}, "lengths: expected a sum of 3, the number of rows, got 2"),
    "many lengths": (lambda: {"lengths": [1, 3]}, "lengths: expected a sum of 3, the number of rows, got 4"),
    "empty sequences": (lambda: {"lengths": [3, 0]}, "lengths: expected whole numbers from 1"),
    "a codec": (lambda: {"codec": "gzip"}, "codec: expected .*'zstd'.*, got gzip"),
    "chunks": (lambda: {"chunk_rows": 17}, "chunk_rows: expected .*one of 16"),
    "shards": (lambda: {"chunk_rows": 16, "shard_rows": 24}, "chunk_rows: expected .*, got 16 and 24"),
    "no JSON": (lambda: {"attributes": {"a": {1, 2}}}, "attributes: expected JSON values"),
    "an attribute": (lambda: {"attributes": {"rows": 1}}, "attributes: expected names .*, got 'rows'"),
    "an address": (lambda: {"path": "s3://bucket/a.zarr"}, "path: expected a folder, got s3://bucket/a.zarr"),
    "another address": (lambda: {"path": "gs://bucket/a.zarr"}, "path: expected a folder, got gs://bucket/a.zarr"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_wrong_argument_is_named_in_one_line(why: str, tmp_path: Path) -> None:
    make, message = REFUSED[why]
    with pytest.raises(ParamsError, match=f"^{message}") as refused:
        write_store(**{"path": tmp_path / "a.zarr", "data": {"x": np.ones(3)}, **make()})
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_only_a_store_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(ParamsError, match=r"path: .*mine: expected a new folder, or a sealed store to replace, got"):
        write_store(tmp_path / "mine", {"x": np.ones(3)})
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_is_stopped_leaves_nothing_and_replaces_nothing(error: type[BaseException], tmp_path: Path) -> None:
    old = write_store(tmp_path / "a.zarr", data_of(100))

    def broken() -> Iterator[Data]:
        yield from pieces(data_of(1000), 100)
        raise error

    for name in ("a.zarr", "b.zarr"):
        with pytest.raises(error):
            write_store(tmp_path / name, broken(), chunk_rows=16, shard_rows=32, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    assert open_store(tmp_path / "a.zarr").digest == old.digest


def test_one_process_writes_a_store_at_a_time(tmp_path: Path) -> None:
    def nested() -> Iterator[Data]:
        yield data_of(5)
        with pytest.raises(StoreError, match="another process writes this store"):
            write_store(tmp_path / "a.zarr", data_of(10))

    check(write_store(tmp_path / "a.zarr", nested()), data_of(5))


def test_what_a_killed_process_has_left_is_cleared(tmp_path: Path) -> None:
    with Target(tmp_path / "a.zarr") as target:
        left = target.path / "arrays" / "train" / "number"
        left.mkdir(parents=True)
        (left / "c.0").write_text("rest")
    check(write_store(tmp_path / "a.zarr", data_of(20)), data_of(20))
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_a_disk_too_small_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Filesystem, "free", lambda _: 100_000)
    with pytest.raises(SpaceError, match=r"not enough room, nothing was written: .* Ways out: a path on another disk"):
        write_store(tmp_path / "deep" / "a.zarr", data_of())
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_stops_an_iterator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTOFCORE_DISK_RESERVE", "1MB")
    free = iter([50_000_000] * 5 + [1000] * 100)
    monkeypatch.setattr(Filesystem, "free", lambda _: next(free))
    with pytest.raises(SpaceError, match=r"nearly full: .* nothing was kept; make room and call write_store again"):
        write_store(tmp_path / "a.zarr", pieces(data_of(), 100))
    assert not list(tmp_path.iterdir())


def test_what_waits_to_be_written_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreWriter, "bytes_waiting", lambda _: 10**15)
    with pytest.raises(SpaceError, match=r"nearly full: .* free, up to 1000 TB are still to be written, .* must stay"):
        write_store(tmp_path / "a.zarr", data_of())
