"""Reading gives the rows, or names what is damaged; it never gives other rows."""

from __future__ import annotations

import os
import pickle
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outofcore
from outofcore.errors import DamagedStore, OutOfCoreError, StoreError
from outofcore.loading.loader import loader
from outofcore.loading.mapped import Mapped
from outofcore.loading.residency import ResidencyPlan
from outofcore.loading.rows import Rows
from outofcore.order.windows import Windows
from outofcore.store.bulk import read_chunks
from outofcore.store.codecs import ChunkCodec, CodecName
from outofcore.store.reader import open_store
from outofcore.store.schema import Layout
from outofcore.store.shards import EMPTY, index_bytes
from outofcore.store.verify import verify
from outofcore.system.recycling import Recycler
from tests.store.forging import checksums_on_disk


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_any_range_equals_zarr_pythons(make_store: Callable[..., Path], codec: str) -> None:
    path = make_store(layout=Layout(codec=codec, chunk_rows=64, shard_rows=256))
    table = open_store(path).rows("train")
    rng = np.random.default_rng(3)
    for name, array in table.fields.items():
        whole = zarr.open_array(path / "train" / name, mode="r")[:]
        for start, stop in np.sort(rng.integers(0, len(table) + 1, (40, 2)), axis=1):
            np.testing.assert_array_equal(array.read(start, stop), whole[start:stop])


def test_an_array_travels_to_another_process(make_store: Callable[..., Path]) -> None:
    array = open_store(make_store()).rows("train")["move"]
    copy = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(copy.read(), array.read())


def read_all(path: Path) -> None:
    store = open_store(path)
    for split in store.splits:
        store.rows(split).read()
        store.sequences(split).read()
    store.sources.read()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_one_changed_bit_is_found_by_verify_and_by_reading(
    make_store: Callable[..., Path], data: st.DataObject
) -> None:
    path = make_store(
        "bits.zarr",
        layout=Layout(codec=data.draw(st.sampled_from(get_args(CodecName))), chunk_rows=64, shard_rows=256),
    )
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file = data.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    assert verify(path).problems
    with pytest.raises(OutOfCoreError):
        read_all(path)
    shutil.rmtree(path)  # it may have no seal that would say that it is a store


def test_a_damaged_chunk_names_store_field_and_shard(make_store: Callable[..., Path]) -> None:
    path = make_store()
    shard = path / "train" / "boards" / "c.1.0"
    content = bytearray(shard.read_bytes())
    content[-10] ^= 4
    shard.write_bytes(content)
    with pytest.raises(
        DamagedStore, match=r"field train/boards, shard train/boards/c\.1\.0, chunk 7 .*outofcore verify"
    ):
        open_store(path).rows("train").read()


def test_what_is_not_sealed_is_refused(make_store: Callable[..., Path], tmp_path: Path) -> None:
    path = make_store()
    (path / "seal.json").unlink()
    with pytest.raises(
        StoreError,
        match=r"is not a sealed store; it is a conversion that was not finished .*or a Zarr of another program",
    ):
        open_store(path)
    with pytest.raises(StoreError, match="is not a sealed store; check the path, or convert raw files into it"):
        open_store(tmp_path)
    (tmp_path / ".dvc").mkdir()
    with pytest.raises(StoreError, match="is not a sealed store; run 'dvc repro'"):
        open_store(tmp_path)
    (path / "seal.json").mkdir()
    with pytest.raises(StoreError, match=r"seal\.json is no seal of a store"):
        open_store(path)
    with pytest.raises(StoreError, match="does not exist"):
        open_store(tmp_path / "nowhere.zarr")


@pytest.mark.parametrize("name", ["seal.json", "zarr.json", "checksums", "train/move/c.0"])
def test_a_pipe_that_nobody_writes_to_is_refused(make_store: Callable[..., Path], name: str) -> None:
    path = make_store()
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(StoreError, match=f"{name} is no"):
        open_store(path)


@pytest.mark.parametrize("codec", get_args(CodecName))
@pytest.mark.parametrize("what", ["chunks", "shards", "link", "store"])
def test_a_sound_chunk_of_another_place_or_store_is_refused(
    make_store: Callable[..., Path], codec: str, what: str
) -> None:
    """Sizes, indexes and the checksums in the files are right."""
    layout = Layout(codec=codec, chunk_rows=64, shard_rows=256)
    path, other = (make_store(f"{seed}.zarr", batches=[[1024]], layout=layout, seed=seed) for seed in range(2))
    first, second = path / "train/move/c.0", path / "train/move/c.1"
    content = first.read_bytes()
    if what == "chunks":  # of equal length, as random numbers are not compressed
        index = np.frombuffer(content, "<u8", 8)
        (one, length), (two, same) = index[:2].tolist(), index[4:6].tolist()
        assert length == same
        swapped = bytearray(content)
        swapped[one : one + length], swapped[two : two + length] = content[two:][:length], content[one:][:length]
        first.write_bytes(swapped)
    elif what == "shards":
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    elif what == "link":
        second.unlink()
        second.symlink_to("c.0")
    else:
        shutil.copyfile(other / "train/move/c.0", first)
    store = open_store(path)
    move = store.rows("train")["move"]
    with pytest.raises(DamagedStore, match="files were swapped, or a copy over this store was not finished"):
        move.read()
    with pytest.raises(DamagedStore, match="of field train/move"):
        read_chunks([move], np.arange(16), [np.zeros((16, 64), np.uint16)], np.arange(16))
    for residency in ("ram", "streamed") + ("mapped",) * (codec == "none"):
        with pytest.raises(DamagedStore, match="of field train/move"):
            list(loader(store, "train", 64, residency=residency, memory="64MiB"))
    assert verify(path).problems


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_an_empty_chunk_of_another_place_is_refused(make_store: Callable[..., Path], codec: str) -> None:
    """In a sound index, chunk 0, which is not stored, has changed places with chunk 1."""
    path = make_store(batches=[[1024]], layout=Layout(codec=codec, chunk_rows=64, shard_rows=256))
    shard = path / "train/clock/c.0"
    content = shard.read_bytes()
    index = np.frombuffer(content, "<u8", 8).reshape(4, 2)[[1, 0, 2, 3]]
    assert (index[1] == EMPTY).all()
    shard.write_bytes(ChunkCodec("none", 0, "uint64").encode(index) + content[index_bytes(4) :])
    clock = open_store(path).rows("train")["clock"]
    room, one = np.zeros((1, 64), np.int32), np.array([1])
    split: Any = SimpleNamespace(rows=Rows([{"clock": clock}]), windows=Windows(len(clock)))
    mapped = Mapped(split, ResidencyPlan(kind="mapped", reason=""), defaultdict(Recycler))
    for read in (
        lambda: clock.read(64, 128),
        lambda: clock.read(70, 80),
        lambda: read_chunks([clock], one, [room], np.array([0])),
        lambda: [work() for work in mapped.bring(one)],
    ):
        with pytest.raises(DamagedStore, match=r"chunk 1 of field train/clock .* is of another version"):
            read()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_sealed_checksums_are_those_of_the_chunks(make_store: Callable[..., Path], codec: str) -> None:
    path = make_store(layout=Layout(codec=codec, chunk_rows=64, shard_rows=256))
    assert (path / "checksums").read_bytes() == checksums_on_disk(path)


def test_a_missing_or_short_shard_is_named(make_store: Callable[..., Path]) -> None:
    path = make_store()
    shard = path / "train" / "move" / "c.0"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DamagedStore, match=r"train/move/c\.0 has \d+ bytes, expected \d+"):
        open_store(path)
    shard.unlink()
    with pytest.raises(DamagedStore, match=r"train/move/c\.0 is missing"):
        open_store(path)


def test_what_a_notebook_shows_has_the_counts_and_no_markup_of_a_name(tmp_path: Path) -> None:
    store = outofcore.write_store(tmp_path / "<b>.zarr", {"x": np.arange(2000)}, splits={"val": 0.2}, chunk_rows=16)
    train, val = (len(store.rows(name)) for name in ("train", "val"))
    assert train + val == 2000
    assert f"train {train:,}, val {val:,}" in repr(store)
    page = store._repr_html_()
    assert f"<th>train</th><td>{train:,}</td><td>{len(store.sequences('train'))}</td>" in page
    assert "&lt;b&gt;.zarr" in page
    assert "<b>" not in page
    with pytest.raises(StoreError, match="a store of arrays has no tokenizer"):
        _ = store.tokenizer


def test_what_a_notebook_shows_of_a_zarr_of_other_software(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "<b>.zarr", mode="w").create_array("x", data=np.arange(2000), chunks=(10,))
    store = outofcore.open_zarr(tmp_path / "<b>.zarr", splits={"val": 0.2})
    assert "rows: train 1,600, val 400, fields=x" in repr(store)
    page = store._repr_html_()
    assert "train 1,600, val 400" in page
    assert "<b>" not in page


def test_a_table_knows_its_fields_and_a_store_its_splits(make_store: Callable[..., Path]) -> None:
    store = open_store(make_store())
    table = store.rows("train")
    assert set(table) == {"boards", "clock", "move"}
    assert "move" in table
    assert "elo" not in table
    assert 0 not in table
    with pytest.raises(StoreError, match=r"no split 'test'.*train, val"):
        store.rows("test")
    with pytest.raises(StoreError, match="no field 'elo'; there are boards, clock, move"):
        table["elo"]
