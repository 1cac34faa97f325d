"""A Zarr that somebody else wrote, read in place: its values against NumPy's, its refusals, and what is said of it."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import shutil
import tracemalloc
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
import zarr.codecs
import zarr.storage
from torch.utils.data import DataLoader
from typer.testing import CliRunner

from outofcore import open_zarr
from outofcore.cli import app
from outofcore.errors import BudgetError, ParamsError, StateError, StoreError
from outofcore.loading.dataset import ZarrDataset
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.order.weighted import Weighted
from tests.cases import long_cases
from tests.loading.conftest import MakeStore, flat
from tests.served import served

ROWS = 1000
FRAMES = np.random.default_rng(1).normal(size=(ROWS, 6, 4)).astype(np.float32)
TIMES = np.arange(ROWS) * 7
SMALL: dict[str, Any] = {"batch_size": 48, "memory": "4MiB", "shuffle": Shuffle(pool_blocks=4)}
KINDS: dict[str, dict[str, Any]] = {"v2": {}, "sharded": {}, "blosc": {}, "time second": {"axis": "time"}}


def write(folder: Path, kind: str) -> Path:
    """The same values in another layout each."""
    group = zarr.open_group(folder, mode="w", zarr_format=2 if kind == "v2" else 3)
    if kind == "v2":
        frames = group.create_array("frames", shape=FRAMES.shape, chunks=(16, 6, 3), dtype=">f4")
        frames[:] = FRAMES
        group.create_array("time", shape=TIMES.shape, chunks=(100,), dtype="i8")[:] = TIMES
    if kind == "sharded":
        group.create_array("frames", data=FRAMES, chunks=(16, 6, 4), shards=(64, 6, 4))
        group.create_array("time", data=TIMES, chunks=(32,), shards=(96,))
    if kind == "time second":
        moved = np.ascontiguousarray(np.moveaxis(FRAMES, 0, 1))
        group.create_array("frames", data=moved, chunks=(2, 20, 4), dimension_names=("y", "time", "x"))
        group.create_array("time", data=TIMES, chunks=(ROWS,), dimension_names=("time",))
        group.create_array("x", data=np.arange(4), dimension_names=("x",))
    if kind == "blosc":
        codec = zarr.codecs.BloscCodec(cname="lz4")
        group.create_array("frames", data=FRAMES, chunks=(30, 6, 4), compressors=[codec])
        group.create_array("time", data=TIMES, chunks=(30,), compressors=[zarr.codecs.GzipCodec()])
        group.create_array("names", shape=(ROWS,), dtype=str)[:] = "one"
    return folder


def epoch(batches: Any) -> list[int]:
    """Rows of an epoch by their times, after their frames were compared."""
    rows: list[int] = []
    for batch in batches:
        own = batch["time"].numpy() // 7
        assert (batch["frames"].numpy() == FRAMES[own]).all()
        rows += own.tolist()
    return rows


@pytest.fixture(params=KINDS)
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Where a Zarr is, and what opens it."""
    return write(tmp_path / "a.zarr", request.param), KINDS[request.param]


def test_every_row_comes_once_with_its_values(foreign: tuple[Path, dict[str, Any]]) -> None:
    path, axis = foreign
    for residency in ("streamed", "ram"):
        batches = loader(open_zarr(path, **axis), residency=residency, **SMALL)
        first, second = epoch(batches), epoch(batches)
        assert sorted(first) == sorted(second) == list(range(ROWS))
        assert first != second
    group = zarr.open_group(path, mode="r")
    for source in (group, zarr.storage.LocalStore(path)):
        assert epoch(loader(open_zarr(source, **axis), **SMALL)) == first
        assert axis or epoch(loader(source, **SMALL)) == first
    in_order: dict[str, Any] = {**SMALL, "shuffle": False}
    assert epoch(loader(open_zarr(path, **axis), **in_order)) == list(range(ROWS))


def test_windows_weights_and_several_stores(foreign: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, axis = foreign
    opened = open_zarr(path, **axis)
    for batch in loader(opened, window={"length": 5, "stride": 5}, **SMALL):
        own = batch["time"].numpy() // 7
        assert (own == own[:, :1] + np.arange(5)).all()
        assert (batch["frames"].numpy() == FRAMES[own]).all()
    drawn = epoch(loader(opened, batch_size=48, memory="4MiB", shuffle=Weighted("time", pool_blocks=4)))
    assert np.mean(drawn) == pytest.approx(2 * ROWS / 3, rel=0.1)
    copy = shutil.copytree(path, tmp_path / "b.zarr")
    assert sorted(epoch(loader([opened, open_zarr(copy, **axis)], **SMALL))) == sorted([*range(ROWS), *range(ROWS)])
    with pytest.raises(StoreError, match="give each store once"):
        loader([opened, opened], **SMALL)


def test_rows_and_splits_are_contiguous(foreign: tuple[Path, dict[str, Any]]) -> None:
    path, axis = foreign
    assert sorted(epoch(loader(open_zarr(path, **axis, rows=(70, 333)), **SMALL))) == list(range(70, 333))
    shares = {"val": 0.1, "test": 0.2}
    opened = open_zarr(path, **axis, splits=shares)
    splits = {name: sorted(epoch(loader(opened, name, **SMALL))) for name in ("train", "val", "test")}
    assert flat(splits.values()) == list(range(ROWS))
    assert 50 <= len(splits["val"]) <= 150 <= len(splits["test"]) <= 250
    with pytest.raises(StateError, match="another store"):
        loader(open_zarr(path, **axis), **SMALL).load_state_dict(loader(opened, **SMALL).state_dict())


class Counted(zarr.storage.WrapperStore[zarr.storage.MemoryStore]):
    """A store that counts how often each of its values is read."""

    def __init__(self, store: zarr.storage.MemoryStore) -> None:
        super().__init__(store)
        self.reads: Counter[str] = Counter()

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.reads[key] += 1
        return await super().get(key, *args, **options)


@pytest.mark.parametrize("rows", [1, 24, *long_cases(8, 16, 100)])
def test_an_epoch_decodes_each_chunk_once(rows: int) -> None:
    store = Counted(zarr.storage.MemoryStore())
    array = zarr.create_array(store, shape=(100 * 16 * rows, 2), chunks=(rows, 2), dtype="i4")
    array[:] = np.arange(array.shape[0])[:, None]
    batches = loader(array, batch_size=64, memory="16MiB", shuffle=Shuffle(pool_blocks=4), residency="streamed")
    store.reads.clear()
    values = np.concatenate([batch["array"].numpy() for batch in batches])
    assert np.sort(values[:, 0]).tolist() == list(range(len(values)))
    assert set(store.reads.values()) == {1}


@pytest.mark.long
def test_a_dataset_reads_it_in_worker_processes(tmp_path: Path) -> None:
    opened = open_zarr(write(tmp_path / "a.zarr", "time second"), axis="time")
    batches = DataLoader(ZarrDataset(opened), batch_size=100, num_workers=1, multiprocessing_context="spawn")
    assert epoch(batches) == list(range(ROWS))


def test_missing_chunks_are_counted_and_may_be_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.zarr", "blosc")
    (path / "frames" / "c" / "3" / "0" / "0").unlink()
    with caplog.at_level(logging.INFO, "outofcore"):
        rows = {
            int(time) // 7: frame
            for batch in loader(path, **SMALL)
            for time, frame in zip(batch["time"], batch["frames"].numpy(), strict=True)
        }
    assert "not sealed" in caplog.text
    assert "chunks that were never written or are missing: 1" in caplog.text
    values = np.stack([rows[row] for row in range(ROWS)])
    assert (values[90:120] == 0).all()
    assert (np.delete(values, np.s_[90:120], 0) == np.delete(FRAMES, np.s_[90:120], 0)).all()
    with pytest.raises(StoreError, match="1 of 34 chunks of frames are missing"):
        open_zarr(path, strict=True)
    sharded = write(tmp_path / "b.zarr", "sharded")
    open_zarr(sharded, strict=True)
    (sharded / "time" / "c" / "10").unlink()
    with pytest.raises(StoreError, match="3 of 32 chunks of time are missing"):
        open_zarr(sharded, strict=True)


def test_a_damaged_chunk_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr", "blosc")
    (path / "time" / "c" / "3").write_bytes(b"no gzip")
    with pytest.raises(StoreError, match=r"a.zarr: rows .* of time cannot be read") as raised:
        epoch(loader(path, **SMALL))
    assert "\n" not in str(raised.value)


def anndata(folder: Path, *, sparse: bool) -> Path:
    group = zarr.open_group(folder, mode="w", zarr_format=2, attributes={"encoding-type": "anndata"})
    values: npt.NDArray[Any] = FRAMES[:, 0]
    if sparse:
        matrix = group.create_group("X", attributes={"encoding-type": "csr_matrix"})
        matrix.create_array("data", data=values.ravel())
    else:
        group.create_array("X", data=values, chunks=(50, 4))
    obs = group.create_group("obs", attributes={"encoding-type": "dataframe"})
    obs.create_array("counts", data=TIMES, chunks=(200,))
    kinds = obs.create_group("kind", attributes={"encoding-type": "categorical"})
    kinds.create_array("codes", data=(TIMES % 5).astype("i1"), chunks=(200,))
    group.create_group("var").create_array("means", data=values.mean(0))
    return folder


def test_cells_with_their_columns(tmp_path: Path) -> None:
    path = anndata(tmp_path / "a.zarr", sparse=False)
    for batch in loader(path, **SMALL):
        assert set(batch) == {"X", "obs/counts", "obs/kind/codes"}
        own = batch["obs/counts"].numpy() // 7
        assert (batch["X"].numpy() == FRAMES[own, 0]).all()
        assert (batch["obs/kind/codes"].numpy() == TIMES[own] % 5).all()
    with pytest.raises(
        StoreError, match="X is csr_matrix, expected an array; write it dense, or read it with annbatch"
    ):
        loader(anndata(tmp_path / "b.zarr", sparse=True), **SMALL)
    with pytest.raises(StoreError, match="obs/kind is categorical, expected an array; its codes are obs/kind/codes"):
        loader(path, tensors=("X", "obs/kind"), **SMALL)


@pytest.mark.parametrize(
    ("opening", "options", "error", "named"),
    [
        ({}, {"tensors": ("frames", "tim")}, StoreError, "no array 'tim'; there are frames, names, time"),
        ({}, {"tensors": ("names",)}, StoreError, "names has"),
        ({}, {"split": "val"}, StoreError, "no split 'val'"),
        ({}, {"residency": "mapped"}, StoreError, "codec 'none'"),
        ({"axis": "time"}, {}, StoreError, "no array of numbers with an axis 'time'"),
        ({"axis": 1, "fields": ("frames", "time")}, {}, ParamsError, "time has no axis 1"),
        ({"rows": (5, 2000)}, {}, ParamsError, r"rows: expected a range inside 0..1000"),
        ({"splits": {"val": 1.5}}, {}, ParamsError, "splits: expected shares"),
    ],
    ids=["field", "text", "split", "mapped", "axis by name", "axis by number", "rows", "splits"],
)
def test_what_does_not_fit_is_one_line(
    tmp_path: Path, opening: dict[str, Any], options: dict[str, Any], error: type[Exception], named: str
) -> None:
    path = write(tmp_path / "a.zarr", "blosc")
    with pytest.raises(error, match=named) as raised:
        loader(open_zarr(path, **opening) if opening else path, **{**SMALL, **options})
    assert "\n" not in str(raised.value)


def test_a_weight_need_not_be_among_the_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr", "blosc")
    for batch in loader(path, tensors=("frames",), shuffle=Weighted("time"), batch_size=48, memory="4MiB"):
        assert set(batch) == {"frames"}


def test_an_own_store_without_its_seal_is_not_read_as_any_zarr(make_store: MakeStore, tmp_path: Path) -> None:
    copy = shutil.copytree(make_store(), tmp_path / "copy.zarr")
    (copy / "seal.json").unlink()
    with pytest.raises(StoreError, match="seal"):
        loader(copy, **SMALL)
    with pytest.raises(StoreError, match="is a store of outofcore or a part"):
        loader(zarr.open_group(make_store(), mode="r"), **SMALL)
    for part in (make_store() / "train", copy / "train", zarr.open_group(copy, mode="r")["train"]):
        with pytest.raises(StoreError, match="is a store of outofcore or a part"):
            loader(part, **SMALL)
    with pytest.raises(StoreError, match="does not exist"):
        loader(tmp_path / "nothing.zarr", **SMALL)


def test_tables_of_very_many_chunks_are_refused_before_they_are_built(tmp_path: Path) -> None:
    many = zarr.create_array(tmp_path / "many.zarr", shape=(2**40,), chunks=(1024,), shards=(2**30,), dtype="u1")
    tracemalloc.start()
    try:
        with pytest.raises(BudgetError, match=r"tables of 1,073,741,824 chunks take 66.*; raise memory, or read"):
            loader(many, batch_size=4, memory="64MiB")
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_web_server_that_lists_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whole files, as any web server sends them; it is asked for a list once, not again and again."""
    asked: list[str] = []

    class WholeFiles(SimpleHTTPRequestHandler):
        def do_PROPFIND(self) -> None:
            asked.append(self.path)
            self.send_error(501)

        def log_message(self, *words: object) -> None: ...

    write(tmp_path / "a.zarr", "blosc")
    with served(partial(WholeFiles, directory=tmp_path)) as server:
        address = f"{server}/a.zarr"
        with caplog.at_level(logging.INFO, "outofcore"):
            batches = loader(address, tensors=("time",), **SMALL)
            assert sorted(int(time) for batch in batches for time in batch["time"]) == TIMES.tolist()
        assert "missing: unknown, as its storage lists nothing" in caplog.text
        assert asked == ["/a.zarr/time"]
        samples = ZarrDataset(address, tensors=("time",))
        assert samples[:]["time"].tolist() == TIMES.tolist()
        assert pickle.loads(pickle.dumps(samples))[[3, 1]]["time"].tolist() == TIMES[[3, 1]].tolist()
        with pytest.raises(StoreError, match="its arrays cannot be listed, so name those to read, open_zarr"):
            loader(address, **SMALL)


def test_info_describes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["info", str(write(tmp_path / "a.zarr", "sharded")), "--json"])
    assert ended.value.code == 0
    frames, times = json.loads(capsys.readouterr().out)
    assert (frames["field"], frames["type"], frames["row"], frames["rows"]) == ("frames", "float32", "6 x 4", ROWS)
    assert (times["field"], times["chunks not written"], frames["decoded"]) == ("time", 0, FRAMES.nbytes)


def test_info_says_how_it_would_be_read(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["info", str(write(tmp_path / "a.zarr", "sharded"))]).stdout
    assert "residency ram" in said
    assert "a batch of 1,024 mixes " in said
    group = zarr.open_group(tmp_path / "wide.zarr", mode="w")
    group.create_array("frames", shape=(4000, 90, 180), chunks=(1000, 90, 180), dtype="f4")
    said = CliRunner().invoke(app, ["info", str(tmp_path / "wide.zarr")])
    assert said.exit_code == 0
    assert "the least that works is" in said.stdout


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]", "timedelta64[s]", "S3", "U3", "V4", "(5, 0)", "()"])
def test_what_no_tensor_holds_is_refused_at_the_root_and_in_a_group(tmp_path: Path, dtype: str) -> None:
    values = np.zeros(eval(dtype), "i4") if dtype.startswith("(") else np.zeros((5, 2), dtype)
    zarr.create_array(tmp_path / "root.zarr", data=values, zarr_format=2)
    group = zarr.open_group(tmp_path / "group.zarr", mode="w", zarr_format=2)
    group.create_array("x", data=values)
    refusals = []
    for path, fields in (("root.zarr", None), ("group.zarr", ["x"])):
        with pytest.raises(StoreError, match=r"which no tensor can hold; name other fields$") as refused:
            open_zarr(tmp_path / path, fields)
        refusals.append(str(refused.value).partition(" has ")[2])
    assert refusals[0] == refusals[1]


def test_a_copy_refuses_missing_chunks_too(tmp_path: Path) -> None:
    """In another process: every argument is kept."""
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(100), chunks=(10,))
    store = open_zarr(tmp_path / "a.zarr", strict=True)
    copy = pickle.dumps(store)
    (tmp_path / "a.zarr/c/3").unlink()
    with pytest.raises(StoreError, match="strict=True refuses them"):
        pickle.loads(copy)


def test_a_state_is_of_one_zarr_and_of_one_order_of_several(tmp_path: Path) -> None:
    """They are told apart by their names and by their first and last chunks, of any number of the same form."""
    for number, name in enumerate(("jan", "feb", "jan/again", "other/jan", "moved/jan")):
        values = np.arange(100) + (0 if name == "moved/jan" else number)
        zarr.create_array(tmp_path / name / "a.zarr", data=values, chunks=(10,))
    names = [tmp_path / name / "a.zarr" for name in ("jan", "feb")]
    state = loader(names, batch_size=10).state_dict()
    loader(names, batch_size=10).load_state_dict(state)
    loader([tmp_path / "moved/jan/a.zarr", names[1]], batch_size=10).load_state_dict(state)
    for others in (names[::-1], [names[0], tmp_path / "other/jan/a.zarr"]):
        with pytest.raises(StateError, match="belongs to another store"):
            loader(others, batch_size=10).load_state_dict(state)


def test_one_place_given_twice_is_refused_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    zarr.create_array("jan.zarr", data=np.arange(100), chunks=(10,))
    (tmp_path / "link.zarr").symlink_to("jan.zarr")
    for other in ("./jan.zarr", tmp_path / "jan.zarr", "link.zarr", zarr.open_array("jan.zarr", mode="r")):
        with pytest.raises(StoreError, match="give each store once"):
            loader(["jan.zarr", other], batch_size=10)
    apart = [open_zarr("jan.zarr", rows=rows) for rows in ((0, 50), (50, 100))]
    assert loader(apart, batch_size=10).samples == 100


def test_a_refused_budget_reads_no_chunk(tmp_path: Path) -> None:
    """Chunks of which nothing can be decoded are not noticed before the refusal."""
    zarr.create_array(tmp_path / "a.zarr", data=np.ones((2000, 100), "f4"), chunks=(1000, 100))
    for chunk in (tmp_path / "a.zarr/c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"no chunk")
    with pytest.raises(BudgetError, match="the least that works is"):
        loader(tmp_path / "a.zarr", batch_size=10, memory="100KiB")
    with pytest.raises(StoreError, match="cannot be read"):
        next(iter(loader(tmp_path / "a.zarr", batch_size=10, memory="64MiB")))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["chunk", "metadata"])
def test_a_pipe_that_nobody_writes_to_is_one_line(tmp_path: Path, kind: str, zarr_format: int) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)  # type: ignore[arg-type]
    group.create_array("x", shape=(1000, 4), chunks=(100, 4), dtype="u1")[:] = 1
    names = {"chunk": ("3.0", "c/3/0"), "metadata": (".zarray", "zarr.json")}
    path = tmp_path / "a.zarr/x" / names[kind][zarr_format - 2]
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match=f"{re.escape(str(path))}: expected a file, got a pipe"):
        list(loader(open_zarr(tmp_path / "a.zarr"), "train", 100, shuffle=False))
