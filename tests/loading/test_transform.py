"""A function of batches in the loader's threads, against the same function applied to batches afterwards."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.errors import BudgetError, ParamsError
from outofcore.loading.loader import loader
from outofcore.loading.transform import AllocatedBytes
from outofcore.order.plain import Shuffle
from tests.loading.conftest import MakeStore

Batch = dict[str, torch.Tensor]


def centred(batch: Batch) -> Batch:
    """Depends on all samples of a batch."""
    half = batch["half"].float()
    return {"id": batch["id"], "half": half - half.mean(), "wide": batch["label"][:, None] * torch.ones(3)}


def in_place(batch: Batch) -> Batch:
    batch["half"] += 1
    return batch


@pytest.mark.parametrize("function", [centred, in_place])
@pytest.mark.parametrize("residency", ["ram", "streamed"])
def test_each_batch_is_what_the_function_returns(make_store: MakeStore, function: Any, residency: Any) -> None:
    options: dict[str, Any] = {"tensors": ("id", "half"), "columns": ("label",), "seed": 3, "residency": residency}
    mapped = loader(make_store(), "train", 100, map=function, **options)
    plain = loader(make_store(), "train", 100, **options)
    state = None
    for number, (got, batch) in enumerate(zip(mapped, plain, strict=True)):
        expected = function(batch)
        assert got.keys() == expected.keys()
        assert all(torch.equal(got[name], expected[name]) for name in expected)
        state = mapped.state_dict() if number == 9 else state
    plain.load_state_dict(state)  # the function is no part of a state
    mapped.load_state_dict(state)
    assert [batch["id"].tolist() for batch in mapped] == [batch["id"].tolist() for batch in plain]


def test_it_is_called_in_the_loaders_threads_with_the_samples_of_the_rank(make_store: MakeStore) -> None:
    seen: list[tuple[bool, int]] = []

    def note(batch: Batch) -> Batch:
        seen.append((threading.current_thread() is threading.main_thread(), len(batch["id"])))
        return batch

    got = [
        len(batch["id"])
        for batch in loader(make_store(), "train", 100, tensors=("id",), map=note, rank=0, world_size=4)
    ]
    assert seen[:2] == [(True, 2)] * 2  # the check
    assert sorted(seen[2:]) == sorted((False, count) for count in got)


def test_parts_have_their_place(make_store: MakeStore) -> None:
    path = make_store([300, 64], parts=("monday", "tuesday"))
    for batch in loader(path, "train", 32, tensors=("id",), map=lambda batch: {"p": batch["part"] * 2}):
        assert set(batch["p"].tolist()) in ({0}, {2})


def test_the_budget_counts_its_result(make_store: MakeStore) -> None:
    def wide(batch: Batch) -> Batch:
        return {"x": torch.zeros(len(batch["id"]), 1 << 14)}

    options: dict[str, Any] = {"tensors": ("id",), "memory": "4MiB", "shuffle": Shuffle(pool_blocks=4)}
    assert len(loader(make_store(), "train", 64, map=in_id, **options)) == 47
    with pytest.raises(BudgetError, match="batches in flight"):
        loader(make_store(), "train", 64, map=wide, **options)


def in_id(batch: Batch) -> Batch:
    return {"id": batch["id"]}


def drawn(batch: Batch) -> Batch:
    return {"x": torch.rand(len(batch["id"]))}


def failing(_: Batch) -> Batch:
    raise KeyError("no\nsuch")


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (3, "map: expected a function of a batch, got 3"),
        (drawn, r"map: .*test_transform\.drawn returned two results for the same batch"),
        (failing, r"map: .*test_transform\.failing raised KeyError: 'no.*such'"),
        (lambda _: None, r"map: .*<lambda> returned None, expected a dict"),
        (lambda _: {}, "expected a dict of names and tensors"),
        (lambda _: {"x": np.zeros(2)}, "expected a dict of names and tensors"),
        (lambda batch: {"x": batch["id"].sum()}, re.escape("returned 'x' of shape (), expected 2 samples first")),
        (lambda batch: {"x": batch["id"][:1]}, re.escape("returned 'x' of shape (1,), expected 2 samples first")),
    ],
)
def test_what_is_refused_before_the_first_batch(make_store: MakeStore, function: Any, named: str) -> None:
    with pytest.raises(ParamsError, match=named) as error:
        loader(make_store(), "train", 64, tensors=("id",), map=function)
    assert "\n" not in str(error.value)


def test_a_later_batch_of_another_shape_ends_the_epoch(make_store: MakeStore) -> None:
    batches = loader(
        make_store(),
        "train",
        64,
        tensors=("id",),
        map=lambda batch: {"x": batch["id"][:, None].expand(-1, len(batch["id"]))},
    )
    with pytest.raises(ParamsError, match=re.escape("returned 'x' of (torch.int64, (64,)), and (torch.int64, (2,))")):
        next(iter(batches))


def test_an_empty_selection_never_calls_it(make_store: MakeStore) -> None:
    assert list(loader(make_store(), "train", 64, tensors=("id",), where="length < 0", map=failing)) == []


def test_nan_is_equal_to_itself(make_store: MakeStore) -> None:
    path: Path = make_store()
    batch = next(iter(loader(path, "train", 64, tensors=("id",), map=lambda batch: {"x": batch["id"] * torch.nan})))
    assert batch["x"].isnan().all()


def test_the_most_that_a_function_allocates_at_once_is_measured() -> None:
    given = torch.zeros(1000, 100, dtype=torch.uint8)
    with AllocatedBytes([given]) as allocated:
        wide = given.float()
        other = (wide / 255)[:, ::2]
        del wide
        given += 1
    assert allocated.bytes == 800_000
    assert len(other) == 1000
    with AllocatedBytes([given]) as allocated:
        array = given.numpy().astype(np.float64)
    assert 780_000 <= allocated.bytes <= 810_000
    assert len(array) == 1000
