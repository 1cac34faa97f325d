"""Several stores read as one, against plain numpy over the rows of each."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.errors import BudgetError, ParamsError, StateError, StoreError
from outofcore.loading.dataset import ZarrDataset
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.balanced import Balanced
from outofcore.order.plain import Shuffle
from tests.loading.conftest import (
    WINDOWS,
    MakeStore,
    by_last_row,
    flat,
    identities,
    opened_once,
    rows_of,
    windows_read,
    write_store,
)
from tests.loading.test_golden import ORDERS

LENGTHS = [[300, 1, 64], [700, 35, 1000, 900], [5], [0], [64, 64], [130] * 4]
FIRST = [0, *np.cumsum([sum(lengths) for lengths in LENGTHS]).tolist()]
ROWS = FIRST[-1]
RESIDENCIES = ("ram", "mapped", "streamed", "hybrid")


@pytest.fixture
def months(make_store: MakeStore) -> list[Path]:
    """Six stores; the number of a row says which."""
    return [make_store(lengths, first=first, codec="none") for lengths, first in zip(LENGTHS, FIRST, strict=False)]


def opened(stores: Any, **options: Any) -> Loader:
    return loader(
        opened_once(stores),
        **{
            "batch_size": 48,
            "seed": 5,
            "memory": "8MiB",
            "shuffle": Shuffle(pool_blocks=4),
            "tensors": ("id",),
            **options,
        },
    )


def windows_of(kind: str) -> list[list[int]]:
    """The rows of every sample of all stores, by loops over the rows of each store."""
    window, samples = WINDOWS[kind], []
    for lengths, first in zip(LENGTHS, FIRST, strict=False):
        stop = first + sum(lengths)
        if window is None:
            samples += [[row] for row in range(first, stop)]
        elif window.mode == "reach":
            samples += [
                [max(first, at) for at in range(row - window.length + 1, row + 1)] for row in range(first, stop)
            ]
        else:
            starts = np.cumsum([first, *lengths])[:-1].tolist() if window.mode == "never" else [first]
            sizes = lengths if window.mode == "never" else [stop - first]
            for start, size in zip(starts, sizes, strict=True):
                places = range(start, start + size - window.length + 1, window.stride)
                samples += [list(range(place, place + window.length)) for place in places]
    return samples


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("shuffle", [True, Shuffle(full=True), False], ids=["blocks", "full", "in order"])
def test_each_sample_of_all_stores_once_in_one_order_wherever_rows_are(
    months: list[Path], kind: str, shuffle: Any
) -> None:
    orders, expected = set(), np.array(windows_of(kind))
    for residency, threads in zip(RESIDENCIES, (1, 2, 3, 8), strict=True):
        if shuffle == Shuffle(full=True) and residency in ("streamed", "hybrid"):
            continue
        batches = opened(months, window=WINDOWS[kind], shuffle=shuffle, residency=residency, threads=threads)
        epochs = [windows_read(batches) for _ in range(2)]
        assert all(np.array_equal(by_last_row(epoch), by_last_row(expected)) for epoch in epochs), residency
        assert np.array_equal(*epochs) == (shuffle is False)
        orders.add(tuple(epoch.tobytes() for epoch in epochs))
    assert len(orders) == 1
    if shuffle is False:
        assert np.array_equal(epochs[0], expected)


def test_all_fields_hold_what_each_store_has(months: list[Path], make_store: MakeStore) -> None:
    compressed = [make_store(LENGTHS[0], codec="lz4"), *months[1:]]  # each store may have a codec of its own
    for residency in ("streamed", "ram"):
        for batch in opened(compressed, tensors=None, residency=residency):
            expected = rows_of(batch["id"].numpy())
            for name, values in expected.items():
                got = batch[name].numpy()
                assert (got.view(np.uint64) if name == "words" else got).tolist() == values.tolist(), name


def test_a_batch_draws_from_all_stores(make_store: MakeStore) -> None:
    months = [make_store([1000 + 10 * month], first=5000 * month) for month in range(12)]
    batches = opened(months, batch_size=480, shuffle=Shuffle(pool_blocks=64))
    stores = [len(set(batch["id"].numpy() // 5000)) for batch in batches]
    assert min(stores[:-1]) >= 11  # of about 50 blocks per pool


@pytest.mark.parametrize("name", ORDERS)
def test_a_list_of_one_store_has_the_order_of_that_store(make_store: MakeStore, name: str) -> None:
    options, _ = ORDERS[name]
    store = make_store(parts=("a", "b")) if "part" in options else make_store()
    alone, listed = opened(store, **options), opened([store], **options)
    assert [identities(alone), identities(alone)] == [identities(listed), identities(listed)]
    assert alone.state_dict() == listed.state_dict()
    assert [*map(str, alone.notes)] == [*map(str, listed.notes)]


def test_the_order_depends_on_the_order_of_the_stores_and_not_on_where_they_are(
    months: list[Path], tmp_path: Path
) -> None:
    copies = [shutil.copytree(month, tmp_path / f"{number}.zarr") for number, month in enumerate(months)]
    order = identities(opened(months))
    assert identities(opened([outofcore.open_store(copy) for copy in copies])) == order
    assert identities(opened(tuple(map(str, copies)), memory="1MiB", threads=1)) == order
    assert identities(opened(months[::-1])) != order
    assert identities(opened(months, seed=6)) != order


def test_a_state_of_other_stores_is_refused(months: list[Path]) -> None:
    batches = opened(months)
    next(iter(batches))
    state = batches.state_dict()
    assert state["store"] == [outofcore.open_store(month).digest for month in months]
    for other in (months[:-1], [*months[:4], months[5], months[4]], months[0]):
        with pytest.raises(StateError, match="the saved state belongs to another store") as refused:
            opened(other).load_state_dict(state)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 300
    with pytest.raises(StateError, match=r'another store: expected store\.5 "\w+", .*, the state has store\.5 "\w+",'):
        opened([*months[:4], months[5], months[4]]).load_state_dict(state)
    with pytest.raises(StateError, match=r'another store: expected store\.6 none, the state has store\.6 "\w+";'):
        opened(months[:-1]).load_state_dict(state)


def columns_of(rows: np.ndarray[Any, Any]) -> dict[str, list[int]]:
    """Length, label and running number of the sequence of each row."""
    lengths = np.array(flat(LENGTHS))
    labels = np.concatenate([np.arange(len(each)) * 10 // max(len(each), 1) for each in LENGTHS])
    number = np.repeat(np.arange(len(lengths)), lengths)[rows]
    return {"length": lengths[number].tolist(), "label": labels[number].tolist(), "sequence": number.tolist()}


def test_balanced_entries_count_rows_over_all_stores(months: list[Path]) -> None:
    first = np.arange(0, ROWS - 50, 50)
    entries = {"group": first // 500, "first": first, "count": np.full(len(first), 25), "step": np.full(len(first), 2)}
    shape = {"groups": 3, "entries": 2, "rows": 4}
    for window in (None, {"length": 70, "mode": "reach"}):
        batches = opened(months, shuffle=Balanced(**entries, **shape), window=window, residency="streamed")
        for batch in batches:
            rows = batch["id"].numpy().reshape(24, -1)
            last = rows[:, -1].reshape(3, 2, 4)
            assert (last % 2 == 0).all()
            entry = last // 50
            assert (entry == entry[:, :, :1]).all()
            assert (entry // 10 == entry[:, :1, :1] // 10).all()
            store = np.searchsorted(FIRST, rows, "right")
            assert (store == store[:, :1]).all()


def test_parts_of_several_stores(make_store: MakeStore) -> None:
    stores = [make_store([300, 70], parts=("a", "b")), make_store([64, 33], parts=("a", "b"), first=1000)]
    seen: Counter[tuple[int, int]] = Counter()
    for batch in opened(stores, batch_size=32, columns=("sequence",)):
        seen.update(zip(batch["part"].tolist(), batch["id"].tolist(), strict=True))
        assert batch["sequence"].tolist() == np.searchsorted([300, 1000, 1064], batch["id"].numpy(), "right").tolist()
    rows = [*range(370), *range(1000, 1097)]
    assert seen == Counter((part, row) for part in (0, 1) for row in rows)


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_dataset_numbers_the_samples_of_one_store_after_the_other(months: list[Path], kind: str) -> None:
    expected = windows_of(kind)
    dataset = ZarrDataset(months, tensors=("id",), columns=("sequence",), window=WINDOWS[kind], memory="300kB")
    assert len(dataset) == len(expected)
    numbers = np.random.default_rng(0).permutation(len(expected)).tolist()
    for each in (dataset, pickle.loads(pickle.dumps(dataset))):
        batch = each[numbers]
        assert batch["id"].reshape(len(numbers), -1).tolist() == [expected[number] for number in numbers]
        rows = np.array([expected[number][-1 if kind == "reach" else 0] for number in numbers])
        assert batch["sequence"].tolist() == columns_of(rows)["sequence"]
    assert repr(dataset).startswith(f"ZarrDataset('{months[0]} and 5 more', 'train')")


def test_says_how_many_stores_and_rows(months: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outofcore")
    list(opened(months))
    assert f"train: 6 stores, {ROWS:,} rows" in caplog.messages
    assert any("a batch of 48 mixes" in line for line in caplog.messages)


def test_windows_that_reach_back_beyond_every_store_count_in_the_budget(make_store: MakeStore) -> None:
    """All stores are shorter than a window: the first row is repeated, and the batch is as long as any."""
    stores = [make_store([24], first=1000 * number) for number in range(20)]
    asked: dict[str, Any] = {"batch_size": 240, "memory": "8MiB"}
    list(opened(stores, window={"length": 24, "mode": "reach"}, **asked))
    with pytest.raises(BudgetError):  # a batch of 240 x 4096 numbers of 8 bytes alone takes as much
        opened(stores, window={"length": 4096, "mode": "reach"}, **asked)


def test_stores_split_by_other_settings_are_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        moves = ["e4", "d4", "c4", "Nf3", "b3", "g3", "f4", "a3", "a4", "b4", "c3", "d3", "e3", "f3", "g4", "h4"]
        text = "".join(f'[White "{number}"]\n\n1. {one} {two} 1-0\n\n' for one in moves for two in ("e5", "d5"))
        (tmp_path / f"{number}.pgn").write_text(text)
        settings = {"splits": {"val": 0.2, "seed": number // 2}, "store": {"chunk_rows": 16, "shard_rows": 16}}
        outofcore.convert("chess", tmp_path / f"{number}.pgn", tmp_path / f"{number}.zarr", **settings)
    caplog.set_level(logging.INFO, "outofcore")
    first, same, other = (tmp_path / f"{number}.zarr" for number in range(3))
    list(loader([first, same], "train", 16))
    assert "split by different settings" not in caplog.text
    list(loader([first, same, other], "train", 16))
    assert f"{first} and {other} were split by different settings: train of one may hold" in caplog.text


def test_what_cannot_be_read_as_one_is_refused(make_store: MakeStore, months: list[Path], tmp_path: Path) -> None:
    copy = shutil.copytree(months[1], tmp_path / "copy.zarr")
    arrays = {"x": np.arange(3000, dtype=np.int32)}
    outofcore.write_store(tmp_path / "x.zarr", arrays, chunk_rows=64)
    outofcore.write_store(tmp_path / "wide.zarr", {"x": arrays["x"].astype(np.int64)}, chunk_rows=64)
    outofcore.write_store(tmp_path / "shape.zarr", {"x": arrays["x"].reshape(-1, 3)}, chunk_rows=64)
    outofcore.write_store(tmp_path / "chunks.zarr", {"x": arrays["x"] + 1}, chunk_rows=128)
    outofcore.write_store(tmp_path / "more.zarr", {**arrays, "y": arrays["x"]}, chunk_rows=64)
    outofcore.write_store(tmp_path / "same.zarr", {"x": arrays["x"] + 1}, chunk_rows=64, attributes={"month": "june"})
    x = tmp_path / "x.zarr"
    cases: list[tuple[list[Path], type[Exception], tuple[str, ...]]] = [
        ([], ParamsError, ("data: expected at least one store",)),
        ([months[1], months[0], months[1]], StoreError, (f"{months[1]} and {months[1]} hold the same rows",)),
        ([months[1], months[0], copy], StoreError, (str(months[1]), f"{copy} hold the same rows")),
        ([x, tmp_path / "wide.zarr"], StoreError, (str(x), "wide.zarr differ in train/x (int32 () and int64 ())")),
        ([x, tmp_path / "shape.zarr"], StoreError, (str(x), "shape.zarr differ in train/x (int32 () and int32 (3,))")),
        ([x, tmp_path / "chunks.zarr"], StoreError, (str(x), "differ in rows per chunk of train (64 and 128)")),
        ([x, tmp_path / "more.zarr"], StoreError, (str(x), "more.zarr differ in fields of train (x and x, y)")),
        ([x, months[0]], StoreError, (str(x), f"{months[0]} differ in domain (arrays and numbers)")),
        ([months[0], make_store(parts=("a", "b"))], StoreError, (str(months[0]), "differ in parts")),
        ([months[0], tmp_path / "none.zarr"], StoreError, ("none.zarr: does not exist",)),
    ]
    for stores, error, parts in cases:
        for make in (loader, ZarrDataset):
            with pytest.raises(error) as refused:
                make(stores, "train")  # type: ignore[operator]
            assert all(part in str(refused.value) for part in parts), (parts, str(refused.value))
            assert "\n" not in str(refused.value)
    assert len(loader([x, tmp_path / "same.zarr"], memory="8MiB")) == 6
    assert len(loader([x, tmp_path / "more.zarr"], memory="8MiB", tensors=("x",))) == 6


def test_texts_of_other_tokenizers_are_refused(tmp_path: Path) -> None:
    for name, letters in (("a", "abc "), ("b", "xyz ")):
        (tmp_path / f"{name}.txt").write_text(letters * 300)
        outofcore.convert("text", tmp_path / f"{name}.txt", tmp_path / f"{name}.zarr", splits={"val": 0.0, "test": 0.0})
    with pytest.raises(StoreError, match=r"a\.zarr and .*b\.zarr differ in attribute 'tokenizer'"):
        loader([tmp_path / "a.zarr", tmp_path / "b.zarr"], memory="64MiB")


def test_a_split_that_one_store_lacks_names_the_store(tmp_path: Path) -> None:
    arrays = {"x": np.arange(3000, dtype=np.int32)}
    outofcore.write_store(tmp_path / "a.zarr", arrays, splits={"val": 0.3})
    outofcore.write_store(tmp_path / "b.zarr", {"x": arrays["x"] + 1})
    with pytest.raises(StoreError, match=r"b\.zarr: no split 'val'"):
        loader([tmp_path / "a.zarr", tmp_path / "b.zarr"], "val", memory="64MiB")


def test_damage_names_the_store_that_has_it(months: list[Path], tmp_path: Path) -> None:
    damaged = write_store(tmp_path / "damaged.zarr", [300, 300], first=9000)
    shard = damaged / "train" / "id" / "c.1"
    content = bytearray(shard.read_bytes())
    content[-30] ^= 1
    shard.write_bytes(content)
    for residency in ("streamed", "ram"):
        with pytest.raises(outofcore.errors.DamagedStore, match=r"damaged\.zarr: field train/id, shard train/id/c\.1"):
            identities(opened([*months, damaged], residency=residency))
