"""Several parts read together, each batch from one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.errors import BudgetError, StateError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.batching import Batching, StepOrder
from outofcore.order.plain import Shuffle
from tests.loading.conftest import MakeStore

PARTS = ("monday", "tuesday", "wednesday")
LENGTHS = [300, 64, 700]


def open_parts(make_store: MakeStore, **options: Any) -> Loader:
    options = {
        "batch_size": 50,
        "memory": "8MiB",
        "tensors": ("id",),
        "part": PARTS,
        "shuffle": Shuffle(pool_blocks=4),
        **options,
    }
    return loader(make_store(LENGTHS, parts=PARTS), **options)


def listed(batches: Any) -> list[tuple[int, list[int]]]:
    return [(int(batch["part"][0]), batch["id"].tolist()) for batch in batches]


@pytest.mark.parametrize("turns", ["size", "turn"])
def test_each_batch_comes_from_one_part_and_each_row_once(make_store: MakeStore, turns: Any) -> None:
    batches = open_parts(make_store, shuffle=Shuffle(pool_blocks=4, turns=turns))
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for batch in batches:
        assert len(set(batch["part"].tolist())) == 1
        assert len(batch["part"]) == len(batch["id"])
        seen[int(batch["part"][0])] += batch["id"].tolist()
    assert all(sorted(rows) == list(range(sum(LENGTHS))) for rows in seen.values())
    assert batches.samples == 3 * sum(LENGTHS)
    assert batches.stats.batches == len(batches) == 3 * 22


def test_turns() -> None:
    def parts(positions: list[int], turns: str, epoch: int = 0) -> list[int]:
        batching = Batching(size=1, last="keep", rank=0, world=1)
        return StepOrder(positions, batching, turns, 0).of_epoch(epoch)[0].tolist()

    by_turn = parts([3, 1, 5], "turn")
    assert sorted(by_turn[:3]) == [0, 1, 2]
    assert sorted(by_turn[3:5]) == sorted(by_turn[5:7]) == [0, 2]
    assert by_turn[7:] == [2, 2]
    by_size = parts([3000, 1000], "size")
    assert np.bincount(by_size).tolist() == [3000, 1000]
    assert abs(np.mean(by_size[:1000]) - 0.25) < 0.05
    assert parts([3, 1, 5], "size") != parts([3, 1, 5], "size", 1)


def test_ranks_see_the_same_part_in_each_batch(make_store: MakeStore) -> None:
    one = listed(open_parts(make_store, batch_size=48))
    four = [listed(open_parts(make_store, batch_size=48, rank=rank, world_size=4)) for rank in range(4)]
    for step in range(len(one)):
        assert {own[step][0] for own in four} == {one[step][0]}
    rows = [sorted((part, row) for own in four for part, batch in own for row in batch)]
    assert rows == [sorted((part, row) for part, batch in one for row in batch)]


def test_a_reading_for_each_part(make_store: MakeStore) -> None:
    class Shifted:
        fields = ("id",)

        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, rows: Mapping[str, Any], _: np.random.Generator) -> dict[str, torch.Tensor]:
            return {"id": torch.from_numpy(rows["id"] + self.by)}

    tensors = {part: Shifted(10_000 * number) for number, part in enumerate(PARTS)}
    for batch in open_parts(make_store, tensors=tensors):
        assert set((batch["id"] // 10_000).tolist()) == set(batch["part"].tolist())


def test_a_loader_of_many_parts_says_what_it_does_in_one_line(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "outofcore")
    list(open_parts(make_store, last="drop", threads=2))
    assert caplog.messages == [
        "3 parts: residency ram of 3 (memory 8.39 MB, 2 threads)",
        f"3 parts: {3 * (sum(LENGTHS) % 50)} samples are dropped each epoch, so that all batches hold 50",
    ]


def test_a_part_alone_needs_no_word_of_parts(make_store: MakeStore) -> None:
    batch = next(iter(open_parts(make_store, part="tuesday")))
    assert set(batch) == {"id"}


def test_a_state_of_other_parts_or_batches_is_refused(make_store: MakeStore) -> None:
    state = open_parts(make_store).state_dict()
    with pytest.raises(StateError, match="part"):
        open_parts(make_store, part=PARTS[:2]).load_state_dict(state)
    with pytest.raises(StateError, match="turns"):
        open_parts(make_store, shuffle=Shuffle(pool_blocks=4, turns="turn")).load_state_dict(state)
    with pytest.raises(StateError, match="batch_size"):
        open_parts(make_store, batch_size=60).load_state_dict(state)
    with pytest.raises(StateError, match="between two batches"):
        open_parts(make_store).load_state_dict({**state, "received": 3})


def test_the_budget_is_shared(make_store: MakeStore) -> None:
    with pytest.raises(BudgetError, match=r"each of 3 parts.*least that works is [\d.]+ kB"):
        open_parts(make_store, memory="20kB")
    roomy = open_parts(make_store, memory="1MiB")
    assert {reader.plan.kind for reader in roomy.readers} == {"ram"}
    assert len(listed(open_parts(make_store, memory="300kB", last="drop"))) == 63
