"""The batch that is named is the one that is delivered, against rows that carry their own numbers."""

from __future__ import annotations

import bisect
import json
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from outofcore.errors import ParamsError, StateError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.loading.origins import Origin
from outofcore.order.balanced import Balanced
from outofcore.order.mixture import Mixture
from outofcore.order.plain import Shuffle
from outofcore.order.weighted import Weighted
from tests.cases import long_cases
from tests.loading.conftest import WINDOWS, MakeStore, opened_once

LENGTHS = [[300, 1, 64, 700, 35, 0, 400], [90, 500, 12], [64, 64, 1, 600]]
FIRST = [0, 10_000, 20_000]  # number of the first row of each store
ENTRIES = np.arange(40)
BALANCED = Balanced(ENTRIES % 8, ENTRIES * 30, np.full(40, 15), np.full(40, 2), groups=4, entries=3, rows=5)
PACKED = {"length": 40, "stride": 39, "mode": "best_fit"}
ONE = {"stores": 1}
DAYS = {"stores": 1, "parts": ("monday", "tuesday")}
MIXED = {"shuffle": Mixture({"a": 0.5, "b": 0.3, "c": 0.2}, pool_blocks=4)}
CASES: dict[str, dict[str, Any]] = {
    "rows": {},
    "one store": {**ONE, "last": "drop"},
    "full": {"shuffle": Shuffle(full=True)},
    "order of the store": {"shuffle": False, "last": "pad"},
    "where": {"where": "label >= 3"},
    "weighted": {"shuffle": Weighted("half", 900, pool_blocks=4)},
    "weighted by sequence": {"shuffle": Weighted("label", pool_blocks=4), "last": "pad"},
    "balanced": {"shuffle": BALANCED},
    "parts in turn": {**DAYS, "shuffle": Shuffle(pool_blocks=4, turns="turn")},
    "parts by size": {**DAYS, "last": "pad"},
    "mixture": {**MIXED},
    "mixture of windows": {**MIXED, "window": replace(WINDOWS["pack"], phase=True)},
    "pack": {"window": replace(WINDOWS["pack"], phase=True)},
    "never": {"window": replace(WINDOWS["never"], phase=True)},
    "reach": {"window": WINDOWS["reach"], "where": "label < 8", "last": "pad"},
    "packs": {"window": PACKED},
    "packs where": {"window": PACKED, "where": "label >= 3"},
}


def stores_of(make_store: MakeStore, case: dict[str, Any]) -> list[Path]:
    layout = {"parts": case.get("parts", ("",)), "chunk_rows": 32, "shard_rows": 64}
    stores = [make_store(lengths, first=first, **layout) for lengths, first in zip(LENGTHS, FIRST, strict=True)]
    return stores[: case.get("stores", 3)]


def opened(make_store: MakeStore, case: dict[str, Any], **options: Any) -> Loader:
    stores: Any = stores_of(make_store, case)
    own = {name: value for name, value in case.items() if name not in ("stores", "parts")}
    common = {"batch_size": 48, "seed": 5, "memory": "8MiB", "shuffle": Shuffle(pool_blocks=4), "tensors": ("id",)}
    named = dict(zip("abc", stores, strict=True)) if isinstance(case.get("shuffle"), Mixture) else stores
    return loader(opened_once(named), **{**common, **own, **options})


def expected(origins: list[Origin], stores: list[Path]) -> list[list[int]]:
    """The rows of each sample, by the numbers that they carry, each in the sequence that is named."""
    samples: list[list[int]] = [[] for _ in range(origins[-1].sample + 1)]
    for origin in origins:
        number = [str(store) for store in stores].index(origin.store)
        starts = [0, *accumulate(LENGTHS[number])]
        for row in range(origin.row, origin.row + origin.rows):
            assert bisect.bisect_right(starts, row) - 1 == origin.sequence
            samples[origin.sample].append(FIRST[number] + row)
        assert origin.sequence is not None
        assert origin.place == origin.row - starts[origin.sequence]
        assert origin.columns["name"] == f"sequence {origin.sequence}"
        assert (origin.file, origin.split) == (None, "train")
    return samples


def shared_out(samples: list[list[int]], world: int) -> list[list[list[list[int]]]]:
    """The samples of each rank, for each rank that may have the first."""
    return [[samples[(rank - first) % world :: world] for rank in range(world)] for first in range(world)]


def rows(batch: Any) -> list[list[int]]:
    """The rows of each sample; padding and rows before a store repeat one."""
    return [list(dict.fromkeys(sample)) for sample in batch["id"].reshape(len(batch["id"]), -1).tolist()]


@pytest.mark.parametrize("seed", [0, *long_cases(*range(1, 5))])
@pytest.mark.parametrize("name", CASES)
def test_the_batch_that_is_named_is_the_one_that_comes(make_store: MakeStore, name: str, seed: int) -> None:
    """On ranks that are stopped at random and resumed as any number of others, in any epoch, wherever rows are."""
    case, rng = CASES[name], np.random.default_rng(seed)
    stores, epoch, step, state = stores_of(make_store, case), int(rng.integers(9)), 0, None
    while True:
        world = int(rng.choice([1, 2, 3, 4, 5, 8] if "parts" in case else [1, 2, 3, 5, 16]))
        residency = "ram" if name == "full" else str(rng.choice(["ram", "streamed", "hybrid"]))
        ranks = [opened(make_store, case, rank=rank, world_size=world, residency=residency) for rank in range(world)]
        for rank in ranks:
            rank.load_state_dict(json.loads(json.dumps(state))) if state else rank.set_epoch(epoch)
        count, last = 0, int(rng.integers(1, 12))
        for shares in zip(*ranks, strict=True):
            if ranks[0].epoch != epoch:
                return
            step, count = step + 1, count + 1
            own = int(rng.integers(world))
            named = expected(ranks[own].trace(epoch, step), stores)
            assert [rows(share) for share in shares] in shared_out(named, world)
            if count == last:
                break
        state = ranks[0].state_dict()
        if count < last:
            assert step == len(ranks[0])
            return
        for rank in ranks:
            rank.close()


@pytest.mark.parametrize("name", ["rows", "parts in turn", "parts by size", "mixture"])
def test_steps_count_on_through_the_epochs(make_store: MakeStore, name: str) -> None:
    batches = opened(make_store, CASES[name])
    step = 0
    for _ in range(2):
        for batch in batches:
            step += 1
            if step % 7 == 0:
                named = batches.trace(0, step)
                assert rows(batch) == expected(named, stores_of(make_store, CASES[name]))
                assert named == batches.trace(batches.epoch, step - batches.epoch * len(batches))
    assert step == 2 * len(batches)


def test_no_row_is_read(make_store: MakeStore) -> None:
    batches = opened(make_store, {}, where="label >= 3")
    assert len(batches.trace(7, 12)) == 48
    assert batches.stats.bytes_read == 0


def test_of_a_foreign_zarr_it_names_rows(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "a.zarr", np.arange(500))
    batches = loader(tmp_path / "a.zarr", batch_size=64)
    batches.set_epoch(3)
    for step, batch in enumerate(batches, 1):
        origins = batches.trace(3, step)
        (values,) = batch.values()
        assert [origin.row for origin in origins] == values.tolist()
        assert {(origin.sequence, origin.file, origin.record) for origin in origins} == {(None, None, "")}


@pytest.mark.parametrize(("epoch", "step"), [(0, 0), (-1, 1), (0, 1.5), ("0", 1)])
def test_numbers_that_are_none_are_refused(make_store: MakeStore, epoch: Any, step: Any) -> None:
    with pytest.raises(ParamsError, match=r"(epoch|step): expected a whole number"):
        opened(make_store, {}).trace(epoch, step)


def test_a_loader_without_batches_has_no_steps(make_store: MakeStore) -> None:
    with pytest.raises(ParamsError, match="no batch"):
        opened(make_store, {}, where="label > 10").trace(0, 1)


@pytest.mark.parametrize("seed", [0, *long_cases(*range(1, 5))])
@pytest.mark.parametrize("name", CASES)
def test_steps_are_left_out_and_nothing_else(make_store: MakeStore, name: str, seed: int) -> None:
    """On ranks that are stopped at random and resumed as others, over three epochs: the rest comes as without them."""
    case, rng = CASES[name], np.random.default_rng(seed)
    with opened(make_store, case) as whole:
        count = len(whole)
        every = [sorted(rows(batch)) for _ in range(3) for batch in whole]
    skip: list[Any] = [
        1,
        [max(1, count - 2), count + 1],
        (2 * count, 2 * count),
        (2 * count + 3, 2 * count + 5),
        3 * count,
    ]
    skip += rng.integers(1, 3 * count, 3).tolist()
    ranges = [item if isinstance(item, list | tuple) else (item, item) for item in skip]
    skipped = {step for first, last in ranges for step in range(first, last + 1)}
    wanted = [batch for step, batch in enumerate(every, 1) if step not in skipped]
    got: list[list[list[int]]] = []
    state: Any = None
    while len(got) < len(wanted):
        world = int(rng.choice([1, 2, 3, 4]))
        ranks = [opened(make_store, case, rank=rank, world_size=world, skip=skip) for rank in range(world)]
        if len(ranks[0]) != count:  # the last samples of an epoch are too few for so many ranks
            continue
        for rank in ranks if state else ():
            rank.load_state_dict(json.loads(json.dumps(state)))
        last = int(rng.integers(1, count))
        while last > 0 and len(got) < len(wanted):
            for shares in zip(*ranks, strict=True):
                got.append(sorted(row for share in shares for row in rows(share)))
                last -= 1
                if not last:
                    break
        state = ranks[int(rng.integers(world))].state_dict()
        for rank in ranks:
            rank.close()
    assert got == wanted


@pytest.mark.parametrize(("case", "batch_size"), [("rows", 283), ("parts in turn", 107), ("parts by size", 107)])
def test_a_step_has_the_same_number_on_any_ranks(make_store: MakeStore, case: str, batch_size: int) -> None:
    """Where the last samples of an epoch are fewer than the ranks, one rank has a batch of them, and several do not."""
    what = {**CASES[case], "last": "keep", "batch_size": batch_size}
    whole = opened(make_store, what)
    every = [[sorted(rows(batch)) for batch in whole] for _ in range(2)]
    full = [number for number, batch in enumerate(every[0] + every[1], 1) if len(batch) == batch_size]
    alone = [number for number, batch in enumerate(every[0], 1) if len(batch) < batch_size]
    for skip in (full[1], full[len(full) // 2 + 3]):
        wanted = sorted(row for number, batch in enumerate(every[0] + every[1], 1) if number != skip for row in batch)
        ranks = [opened(make_store, what, rank=rank, world_size=3, skip=[skip]) for rank in range(3)]
        got = [row for rank in ranks for _ in range(2) for batch in rank for row in rows(batch)]
        assert sorted(got) == wanted
        assert ranks[0].state_dict()["skip"] == whole.state_dict().get("skip", ranks[1].state_dict()["skip"])
        traced = [origin.row for origin in ranks[0].trace(0, full[3])]
        assert traced == [origin.row for origin in whole.trace(0, full[3])]
    last = [origin.row for origin in whole.trace(0, alone[0])]
    assert [origin.row for origin in ranks[0].trace(0, alone[0])][-len(last) :] == last


def test_a_trace_does_not_read_the_table_of_all_sequences(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = loader(make_store([7, 0] * 6000), "train", 48, seed=1, tensors=("id",), memory="8MiB")
    first = next(iter(batches))["id"].tolist()
    monkeypatch.setattr(type(batches.readers[0].split.stores[0]), "extents", None)
    origins = batches.trace(0, 1)
    assert [(origin.row, origin.sequence, origin.place) for origin in origins] == [
        (row, row // 7 * 2, row % 7) for row in first
    ]


def test_a_state_knows_which_steps_were_left_out(make_store: MakeStore) -> None:
    batches = opened(make_store, {}, skip=[3, (5, 6)])
    for _, _ in zip(range(3), batches, strict=False):
        pass
    state = batches.state_dict()
    assert state["skip"] == {"batch_size": 48, "steps": [[3, 3]]}
    opened(make_store, {}, skip=[3, 9]).load_state_dict(state)  # what is still to come may differ
    for other in ({}, {"skip": [2]}, {"skip": [3, 4]}, {"skip": [3], "batch_size": 64}):
        with pytest.raises(StateError, match="left out"):
            opened(make_store, {}, **other).load_state_dict(state)  # type: ignore[arg-type]
    plain = opened(make_store, {})
    next(iter(plain))
    opened(make_store, {}, skip=[2]).load_state_dict(plain.state_dict())
    with pytest.raises(StateError, match="left out"):
        opened(make_store, {}, skip=[1]).load_state_dict(plain.state_dict())


@pytest.mark.parametrize("skip", [340, "340", [0], [1.5], [(3, 2)], [(1, 2, 3)], [True], [None]])
def test_steps_that_are_none_are_refused(make_store: MakeStore, skip: Any) -> None:
    with pytest.raises(ParamsError, match="skip: expected"):
        opened(make_store, {}, skip=skip)
