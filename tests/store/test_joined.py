"""Stores in a folder as one, against the arrays of each."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outofcore.loading.arguments import opened_all
from outofcore.store.joined import JoinedStore
from outofcore.store.reader import Store, open_store
from outofcore.training.results import split_digest

LENGTHS = ([[10, 300], [70]], [[5]], [[64, 64, 1]])


@pytest.fixture
def stores(make_store: Callable[..., Path]) -> list[Store]:
    return [
        open_store(make_store(f"{number}.zarr", batches=batches, seed=number)) for number, batches in enumerate(LENGTHS)
    ]


@pytest.fixture
def joined(tmp_path: Path, stores: list[Store]) -> JoinedStore:
    return JoinedStore(tmp_path, stores)


def test_rows_follow_each_other(joined: JoinedStore, stores: list[Store]) -> None:
    table = joined.rows("train")
    for name in table.fields:
        whole = np.concatenate([store.rows("train")[name].read() for store in stores])
        assert len(table) == len(whole)
        for start, stop in ((0, len(whole)), (379, 386), (380, 385), (386, 386), (500, len(whole))):
            np.testing.assert_array_equal(table[name].read(start, stop), whole[start:stop])
    blocks = [block["move"] for block in table.blocks(100, "move")]
    np.testing.assert_array_equal(np.concatenate(blocks), table["move"].read())


@pytest.mark.parametrize(("start", "stop"), [(513, 519), (-1, 5), (600, 601), (9, 8)])
def test_rows_out_of_range_are_refused_as_those_of_one_store(joined: JoinedStore, start: int, stop: int) -> None:
    with pytest.raises(IndexError, match=rf"train/move: expected rows inside 0\.\.514, got {start}\.\.{stop}"):
        joined.rows("train")["move"].read(start, stop)


def test_chunks_are_of_the_rows_of_all_stores(joined: JoinedStore) -> None:
    array = joined.rows("train")["move"]
    chunks = np.full((array.chunks, array.chunk_rows), 77, array.dtype)
    array.chunks_into(np.arange(array.chunks), chunks, np.arange(array.chunks))
    assert chunks.ravel()[: len(array)].tolist() == array.read().tolist()
    assert not chunks.ravel()[len(array) :].any()


def test_sequences_begin_at_rows_of_all(joined: JoinedStore) -> None:
    starts, lengths = joined.extents("train")
    assert lengths.tolist() == [10, 300, 70, 5, 64, 64, 1]
    assert starts.tolist() == (np.cumsum(lengths) - lengths).tolist()
    assert list(joined.sequences("train")["title"].read(2, 4)) == ["game 70 ☗", "game 5 ☗"]


def test_counts_and_bytes_are_sums(joined: JoinedStore, stores: list[Store]) -> None:
    assert joined.attributes["found"] == 21
    assert joined.attributes["rows"]["val"] == 21
    assert len(joined.sources) == 3
    array = joined.rows("train")["boards"]
    assert joined.stored_bytes(array) == sum(store.stored_bytes(store.rows("train")["boards"]) for store in stores)
    sizes = [size for store in stores for size, _ in store.seal.files.values()]
    assert sum(size for size, _ in joined.seal.files.values()) == sum(sizes)


def test_a_loader_reads_the_stores(joined: JoinedStore, stores: list[Store]) -> None:
    assert opened_all(joined) == tuple(stores)


def test_a_copy_in_another_process_is_of_all_stores(joined: JoinedStore) -> None:
    copy = pickle.loads(pickle.dumps(joined))
    assert copy.digest == joined.digest
    np.testing.assert_array_equal(copy.rows("train")["move"].read(), joined.rows("train")["move"].read())


def test_digests_are_of_all_stores(joined: JoinedStore, stores: list[Store], tmp_path: Path) -> None:
    fewer = JoinedStore(tmp_path, stores[:2])
    assert fewer.digest != joined.digest
    assert split_digest(fewer, "train") != split_digest(joined, "train")
    assert split_digest(joined, "train") == split_digest(JoinedStore(tmp_path / "elsewhere", stores), "train")
