"""Ranks share each batch, and an epoch goes on from any of them on any number of ranks."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.errors import ParamsError, StateError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.order.windows import Window
from outofcore.store.reader import open_store
from tests.loading.conftest import ROWS, MakeStore, identities


def test_state_counts_what_was_received_and_is_small(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    assert batches.state_dict()["received"] == 0
    iterator = iter(batches)
    rest = [next(iterator)["id"].tolist() for _ in range(3)]
    state = batches.state_dict()
    assert (state["epoch"], state["received"]) == (0, 300)
    assert len(pickle.dumps(state)) < 700
    rest = [batch["id"].tolist() for batch in iterator]
    other = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",), residency="streamed")
    for _ in range(2):  # once more, as after a second interruption
        other.load_state_dict(state)
        assert [batch["id"].tolist() for batch in other] == rest
    assert len(other) == 30


def test_a_state_that_was_saved_before_is_still_read(make_store: MakeStore) -> None:
    """As it lies in the checkpoints of an earlier release, apart from the digest of the store."""
    store = open_store(make_store())
    saved = {
        "version": 2,
        "store": store.digest,
        "split": "train",
        "part": "",
        "seed": 0,
        "layout": {
            "order": 2,
            "samples": 3000,
            "block_chunks": 1,
            "chunk_rows": 64,
            "pool_blocks": 64,
            "shuffle": "blocks",
            "lanes": 16,
            "window": None,
            "phase": False,
        },
        "epoch": 4,
        "received": 200,
    }
    batches = loader(store, batch_size=100, memory="8MiB", tensors=("id",))
    batches.load_state_dict(saved)
    assert batches.state_dict() == saved
    rest = identities(batches)
    batches.set_epoch(4)
    assert identities(batches)[200:] == rest
    with pytest.raises(StateError, match=r"is of version 1 of the order of samples, expected version 2: continue with"):
        batches.load_state_dict({**saved, "version": 1})


@pytest.mark.parametrize("rows", [1001, 1003, 1004, 1099])
@pytest.mark.parametrize("last", ["keep", "drop", "pad"])
def test_every_rank_gets_samples_however_few_are_left(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture, last: Any, rows: int
) -> None:
    """Where fewer are left than there are ranks, the next epoch begins, and the log says so."""

    def opened(**ranks: int) -> Loader:
        return loader(make_store([rows]), batch_size=100, memory="8MiB", tensors=("id",), last=last, **ranks)

    one, world, left = opened(), 4, rows - 1000
    iterator = iter(one)
    for _ in range(10):
        next(iterator)
    state = one.state_dict()
    assert state["received"] == 1000
    ranks = [opened(rank=rank, world_size=world) for rank in range(world)]
    caplog.clear()
    for each in ranks:
        each.load_state_dict(state)
    said = [record.message for record in caplog.records if "left out" in record.message]
    rest = [[len(batch["id"]) for batch in each] for each in ranks]
    assert min(map(min, rest)) > 0
    assert len({len(each) for each in rest}) == 1
    after = {"keep": left >= world, "drop": False, "pad": True}[last]
    assert len(rest[0]) == (1 if after else 10)
    assert len(said) == (world if last == "keep" and left < world else 0)
    assert all(f"last {left} of {rows} samples of epoch 0" in line for line in said)


def test_state_at_the_end_goes_on_with_the_next_epoch(make_store: MakeStore) -> None:
    for last in ("keep", "drop"):
        batches = loader(make_store(), batch_size=800, memory="8MiB", tensors=("id",), last=last)
        list(batches)
        state = batches.state_dict()
        second = identities(batches)
        other = loader(make_store(), batch_size=800, memory="8MiB", tensors=("id",), last=last)
        other.load_state_dict(state)
        assert identities(other) == second
        assert other.epoch == 1


def test_an_iteration_that_was_left_counts_as_an_epoch(make_store: MakeStore) -> None:
    batches = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    reference = loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))
    reference.set_epoch(1)
    next(iter(batches))
    assert identities(batches) == identities(reference)
    batches.set_epoch(1)
    assert len(identities(batches)) == ROWS
    assert batches.epoch == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"split": "val"}, "split"),
        ({"shuffle": Shuffle(pool_blocks=5)}, "pool_blocks"),
        ({"shuffle": False}, "shuffle"),
        ({"window": Window(length=2)}, "window"),
        ({"data": "other"}, "store"),
    ],
)
def test_a_state_of_something_else_is_refused(make_store: MakeStore, change: dict[str, Any], named: str) -> None:
    state = loader(make_store(), memory="8MiB").state_dict()
    options: dict[str, Any] = {"data": make_store(), "memory": "8MiB", **change}
    if "data" in change:
        options["data"] = make_store([3000])
    with pytest.raises(StateError, match=named):
        loader(**options).load_state_dict(state)
    with pytest.raises(StateError, match="without"):
        loader(make_store(), memory="8MiB").load_state_dict({"epoch": 3})


@pytest.mark.parametrize("move", ["set_epoch", "load_state_dict"])
def test_moving_the_loader_ends_an_iteration_that_delivered_batches(make_store: MakeStore, move: str) -> None:
    def opened() -> Loader:
        return loader(make_store(), batch_size=100, memory="8MiB", tensors=("id",))

    batches, reference = opened(), opened()
    state = {**batches.state_dict(), "epoch": 7}
    reference.set_epoch(7)
    expected = identities(reference)
    running = iter(batches)
    next(running)
    getattr(batches, move)(7 if move == "set_epoch" else state)
    assert batches.state_dict() == state
    with pytest.raises(ParamsError, match=r"set_epoch\(\) or load_state_dict\(\)"):
        next(running)
    assert batches.state_dict() == state
    assert identities(batches) == expected
    running = iter(batches)
    getattr(batches, move)(7 if move == "set_epoch" else state)  # nothing was delivered: the iteration follows
    assert next(running)["id"].tolist() == expected[:100]
    with pytest.raises(AttributeError):
        batches.epoch = 3  # type: ignore[misc]


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
WRONG = [None, True, -1, 3.7, 1.0, "7", "", b"x", [], [0], {}, {"a": 1}, CIRCLE, Unprintable(), object()]
WRONG += [float("nan"), float("inf"), 2**63, 10**5000, "x\n" * 500, (1, 2), np.float64(2), torch.zeros(2)]


@pytest.mark.parametrize("parts", [("",), ("a", "b")])
def test_a_malformed_state_is_refused_in_one_line_and_changes_nothing(
    make_store: MakeStore, parts: tuple[str, ...]
) -> None:
    batches = loader(make_store(parts=parts), batch_size=100, memory="8MiB", tensors=("id",))
    running = iter(batches)
    next(running)
    state = batches.state_dict()
    forged: list[Any] = [*WRONG, {**state, "more": 1}, {**state, 1: 1}]
    for name in state:
        forged.append({key: value for key, value in state.items() if key != name})
        forged += [{**state, name: value} for value in WRONG if value is not state[name]]
    forged.append({**state, "received": 10**9})
    layout = state["layout"]
    for name in [*layout, "more"]:
        forged += [{**state, "layout": {**layout, name: value}} for value in WRONG if value is not layout.get(name, 0)]
    for each in forged:
        with pytest.raises(StateError) as caught:
            batches.load_state_dict(each)
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 1000
    assert batches.state_dict() == state
    next(running)
    batches.load_state_dict({**json.loads(json.dumps(state)), "received": np.int64(100)})
