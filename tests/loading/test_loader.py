"""What a user sees of a loader: the right rows, once, in one order, from wherever it goes on."""

from __future__ import annotations

import logging
import os
import pickle
import re
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from outofcore.errors import DamagedStore, ParamsError, StoreError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.loading.split import StoredReading
from outofcore.order.windows import Window
from outofcore.store.codecs import CodecName
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from tests.loading.conftest import ROWS, MakeStore, Plain, flat, identities, rows_of, threads_since


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_raw_batches_hold_what_was_stored(make_store: MakeStore, codec: str) -> None:
    seen = 0
    for batch in loader(make_store(codec=codec), batch_size=100, memory="8MiB"):
        expected = rows_of(batch["id"].numpy())
        for name, values in expected.items():
            got = batch[name].numpy()
            assert (got.view(np.uint64) if name == "words" else got).tolist() == values.tolist(), name
        seen += len(batch["id"])
    assert seen == ROWS
    assert {name: str(value.dtype)[6:] for name, value in batch.items()} == {
        "id": "int64",
        "words": "int64",
        "half": "int32",
        "wide": "int64",
        "sparse": "int8",
        "picture": "uint8",
    }


def test_batches_stay_as_they_were_delivered(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=64, memory="8MiB", tensors=Plain())
    kept, copies = [], []
    for batch in batches:
        kept.append(batch)
        copies.append({name: value.clone() for name, value in batch.items()})
    for batch, copy in zip(kept, copies, strict=True):
        assert all(torch.equal(batch[name], copy[name]) for name in copy)


def test_a_sample_is_augmented_alike_in_any_batch_on_any_rank(make_store: MakeStore) -> None:
    def drawn(size: int, ranks: int, epoch: int = 0) -> dict[int, int]:
        found: dict[int, int] = {}
        for rank in range(ranks):
            batches = loader(make_store(), batch_size=size, tensors=Plain(), memory="8MiB", rank=rank, world_size=ranks)
            batches.set_epoch(epoch)
            for batch in batches:
                found |= dict(zip(batch["id"].tolist(), batch["random"].tolist(), strict=True))
        return found

    once = drawn(64, 1)
    assert len(set(once.values())) > 800
    assert drawn(640, 1) == drawn(80, 4) == once
    assert drawn(64, 1, epoch=1) != once


@pytest.mark.parametrize("residency", ["streamed", "ram", "mapped", "hybrid"])
def test_a_damaged_chunk_is_an_error_that_names_it(make_store: MakeStore, tmp_path: Path, residency: Any) -> None:
    codec = "none" if residency == "mapped" else "zstd"
    source = make_store(codec=codec)
    copied = tmp_path / "copy.zarr"
    for file in source.rglob("*"):
        if file.is_file():
            target = copied / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    shard = copied / "train" / "words" / "c.2.0"
    content = bytearray(shard.read_bytes())
    content[-50] ^= 4
    shard.write_bytes(content)

    def check(batches: Loader) -> None:
        for batch in batches:
            assert (rows_of(batch["id"].numpy())["words"] == batch["words"].numpy().view(np.uint64)).all()

    batches = loader(copied, batch_size=64, memory="8MiB", residency=residency, tensors=("id", "words"))
    for _ in range(2):  # what was half read in the first epoch must not pass in the second
        with pytest.raises(DamagedStore, match=r"copy\.zarr.*train/words.*c\.2\.0"):
            check(batches)


def test_a_forked_child_reads_on_its_own(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",), residency="streamed")
    iterator = iter(batches)
    first = [next(iterator)["id"].tolist() for _ in range(4)]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            rest = [batch["id"].tolist() for batch in iterator]
            os.write(writing, pickle.dumps(rest))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        in_child = pickle.loads(stream.read())
    os.waitpid(child, 0)
    rest = [batch["id"].tolist() for batch in iterator]
    assert rest == in_child
    assert sorted(flat(first + rest)) == list(range(ROWS))


def test_ends_its_threads(make_store: MakeStore) -> None:
    store = make_store()  # Zarr starts threads of its own when it writes
    before = threading.enumerate()
    batches = loader(store, batch_size=10, memory="8MiB")
    iterator = iter(batches)
    next(iterator)
    assert threads_since(before)
    next(iter(batches))  # ends the first
    assert not threads_since(before)
    next(iter(batches))
    batches.close()
    assert not threads_since(before)
    iterator = iter(loader(store, batch_size=10, memory="8MiB"))
    next(iterator)
    del iterator
    assert not threads_since(before)


def test_one_iteration_at_a_time(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    with pytest.raises(ParamsError, match="another one over the same loader began") as raised:
        list(zip(batches, batches, strict=True))
    assert "\n" not in str(raised.value)
    first = iter(batches)
    next(first)
    assert sorted(identities(batches)) == list(range(ROWS))
    with pytest.raises(ParamsError, match="make a second loader"):
        next(first)
    assert (batches.epoch, batches.state_dict()["received"]) == (1, ROWS)
    left = iter(batches)
    next(left)
    batches.close()
    assert next(left, None) is None  # as asked for


def test_a_batch_is_not_asked_for_by_number(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    with pytest.raises(TypeError, match=r"got \[0\]: write 'for batch in loader', .* outofcore\.ZarrDataset\("):
        batches[0]


def test_a_loader_is_not_pickled_but_its_state_is(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    for _ in range(2):  # before and after its first batch
        for attempt in (pickle.dumps, deepcopy):
            with pytest.raises(ParamsError, match=r"cannot be pickled or copied: call loader\(") as raised:
                attempt(batches)
            assert "\n" not in str(raised.value)
        next(iter(batches))
    other = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    other.load_state_dict(pickle.loads(pickle.dumps(batches.state_dict())))
    assert len(identities(other)) == ROWS - 100


def test_counts_what_it_did(make_store: MakeStore) -> None:
    class Slow(StoredReading):
        def __call__(self, rows: Mapping[str, Any], draws: Any) -> dict[str, torch.Tensor]:
            time.sleep(0.04)
            return super().__call__(rows, draws)

    slow = Slow({"id": np.dtype(np.int64), "half": np.dtype(np.uint16)})
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=slow, residency="streamed")
    list(batches)
    stats = batches.stats
    assert (stats.batches, stats.samples) == (30, ROWS)
    assert stats.bytes_delivered == ROWS * (8 + 4)
    assert 0 < stats.bytes_read < ROWS * (8 + 2)
    assert 0 < stats.seconds_waited < stats.seconds
    assert stats.samples_per_second == ROWS / stats.seconds
    waiting, before = stats.share_waited, stats.seconds
    assert waiting > 0.5  # three thousand samples at 40 ms a hundred
    for _ in batches:
        time.sleep(0.03)
    assert stats.seconds - before > 29 * 0.03
    assert stats.share_waited < waiting


def test_says_what_it_chose_and_how_it_mixes_once(make_store: MakeStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outofcore")
    batches = loader(make_store(), batch_size=100, memory="8MiB", last="drop")
    assert not caplog.messages
    list(batches)
    list(batches)
    assert len(caplog.messages) == 2
    assert "train: residency ram" in caplog.messages[0]
    assert re.search(r"a batch of 100 mixes .* in 44 blocks", caplog.messages[1])


@pytest.mark.parametrize(
    ("last", "size", "lines"),
    [
        ("keep", 70, []),
        ("drop", 70, ["train: 60 samples are dropped each epoch, so that all batches hold 70"]),
        ("pad", 70, ["train: 10 samples come twice each epoch, so that all batches hold 70"]),
        ("drop", 100, []),
        ("pad", 100, []),
    ],
)
def test_samples_that_are_dropped_or_repeated_are_told(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture, last: Any, size: int, lines: list[str]
) -> None:
    caplog.set_level(logging.INFO, "outofcore")
    delivered = len(identities(loader(make_store(), batch_size=size, memory="8MiB", tensors=("id",), last=last)))
    assert caplog.messages[2:] == lines
    assert delivered == ROWS + {"keep": 0, "drop": -60, "pad": 10}[last] * bool(lines)


def test_a_split_smaller_than_anything(make_store: MakeStore) -> None:
    store = make_store([5, 2])
    assert identities(loader(store, batch_size=100, memory="1MiB", tensors=("id",), shuffle=False)) == list(range(7))
    assert len(loader(store, batch_size=100, memory="1MiB", last="drop")) == 0
    assert list(loader(store, batch_size=100, memory="1MiB", last="drop")) == []
    assert list(loader(store, memory="1MiB", window=Window(length=9))) == []
    padded = loader(store, batch_size=16, memory="1MiB", last="pad", tensors=("id",))
    assert len(identities(padded)) == 16
    with pytest.raises(ParamsError, match="7 samples for 8 ranks"):
        loader(store, batch_size=16, memory="1MiB", rank=0, world_size=8)
    eight = make_store([5, 3])
    own = [loader(eight, batch_size=8, memory="1MiB", tensors=("id",), rank=rank, world_size=8) for rank in range(8)]
    assert sorted(row for each in own for row in identities(each)) == list(range(8))


def test_fields_of_text_are_left_out_and_refused_where_they_are_named(tmp_path: Path) -> None:
    fields = Field(name="x", dtype="int64", doc="a number"), Field(name="word", dtype="string", fill="", doc="a word")
    rows = {"x": np.arange(100), "word": np.array([f"row {row}" for row in range(100)], object)}
    with ThreadPoolExecutor(2) as encoders:
        schemas, layout = {"": Schema(rows=fields, sequences=())}, Layout(chunk_rows=64, shard_rows=256)
        writer = StoreWriter(tmp_path / "work", schemas, layout, ("train",), encoders)
        writer.append("", "train", rows, {"length": np.array([100])})
        sources = dict.fromkeys(("bytes", "found", "accepted", "rejected"), np.ones(1, np.int64))
        sources |= dict.fromkeys(("name", "digest"), np.array(["x"], object))
        with Target(tmp_path / "a.zarr") as target:
            writer.commit(target, {"domain": "words", "parts": [""], "splits": ["train"]}, sources)
    assert all(set(batch) == {"x"} for batch in loader(tmp_path / "a.zarr", memory="8MiB"))
    with pytest.raises(StoreError, match="train: word holds text, which no tensor can"):
        loader(tmp_path / "a.zarr", memory="8MiB", tensors=("x", "word"))
