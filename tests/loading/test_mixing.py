"""What a loader says of its mixing against its batches."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

from outofcore.errors import ParamsError
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from tests.loading.conftest import MakeStore

BLOCK, LENGTH, BATCH = 64, 32, 128
ROWS = 64 * 400


def measured(batches: Any, unit: int) -> float:
    full = [batch["id"].numpy() // unit for batch in batches if len(batch["id"]) == BATCH]
    return float(np.mean([len(set(each.tolist())) for each in full]))


@pytest.mark.parametrize("full", [False, True], ids=["blocks", "full"])
@pytest.mark.parametrize("pool_blocks", [16, 64])
def test_batches_mix_as_the_loader_says(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture, full: bool, pool_blocks: int
) -> None:
    caplog.set_level(logging.INFO, "outofcore")
    store = make_store([LENGTH] * (ROWS // LENGTH))
    sampling = Shuffle(pool_blocks=pool_blocks, full=full)
    batches = loader(store, batch_size=BATCH, memory="64MiB", tensors=("id",), shuffle=sampling)
    blocks, sequences = measured(batches, BLOCK), measured(batches, LENGTH)
    note = re.search(
        r"a batch of 128 mixes (\d+) sequences? in (\d+) blocks \((\d+) in (\d+) if drawn at random\)",
        caplog.text,
    )
    assert note
    np.testing.assert_allclose([int(note[1]), int(note[2])], [sequences, blocks], rtol=0.05, atol=1.5)
    random = np.random.default_rng(0).integers(0, ROWS, (300, BATCH))
    ideal = [np.mean([len(set(row.tolist())) for row in random // unit]) for unit in (LENGTH, BLOCK)]
    np.testing.assert_allclose([int(note[3]), int(note[4])], ideal, rtol=0.02)


def test_the_order_of_the_store_is_no_cause_for_alarm(make_store: MakeStore) -> None:
    batches = loader(make_store([LENGTH] * 100), batch_size=BATCH, tensors=("id",), shuffle=False)
    assert batches.notes[1] == "train: samples in the order of the store"
    with pytest.raises(ParamsError, match="train is not read pool by pool"):
        batches.mixing("label")


def test_the_distance_of_labels_is_that_of_the_pools(make_store: MakeStore) -> None:
    store = make_store([LENGTH] * (ROWS // LENGTH))
    batches = loader(store, batch_size=ROWS // 8, memory="64MiB", tensors=("id",), shuffle=Shuffle(pool_blocks=50))
    rows = [batch["id"].numpy() for batch in batches]  # a batch is a pool, for all but the rows of a block that is cut
    label = np.arange(ROWS) // LENGTH * 10 // (ROWS // LENGTH)
    whole = np.bincount(label) / ROWS
    distances = [np.abs(np.bincount(label[each], minlength=10) / len(each) - whole).sum() / 2 for each in rows]
    note = re.search(r"values of label in memory are (\d+)% off", batches.mixing("label"))
    assert note
    np.testing.assert_allclose(int(note[1]), 100 * np.mean(distances), atol=2)


@pytest.mark.parametrize(
    ("lengths", "why"),
    [([LENGTH] * 10, "no sequence has the 33 rows of a window; ask for shorter"), ([0], "the split has no rows")],
)
def test_a_split_without_samples_is_a_warning(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture, lengths: list[int], why: str
) -> None:
    window = {"length": LENGTH + 1, "mode": "never"}
    batches = loader(make_store(lengths), batch_size=BATCH, tensors=("id",), window=window)
    assert list(batches) == []
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert f"train: no samples, so no batches: {why}" in caplog.text


def test_windows_that_cross_sequences_are_advised_only_where_they_do_not(make_store: MakeStore) -> None:
    def note(mode: str) -> str:
        store = make_store([LENGTH] * 3)
        return loader(store, tensors=("id",), window={"length": 3 * LENGTH + 1, "mode": mode}).notes[1]

    assert 'or windows that cross sequences (mode="pack")' in note("never")
    assert note("pack").endswith("ask for shorter ones (length of window=, lags=, seq_len=)")
