"""Any number of ranks: together they receive what one would, each the positions of its number."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from outofcore.loading.loader import loader
from outofcore.order.balanced import Balanced
from outofcore.order.mixture import Mixture
from outofcore.order.plain import InOrder, Shuffle
from outofcore.order.weighted import Weighted
from tests.cases import long_cases
from tests.loading.conftest import ROWS, MakeStore, flat, identities, open_once, together

ENTRIES = Balanced(
    group=np.arange(60) % 12,
    first=np.arange(60) * 50,
    count=np.full(60, 25),
    step=np.full(60, 2),
    groups=5,
    entries=3,
    rows=7,
)
SAMPLINGS: dict[str, dict[str, Any]] = {
    "blocks": {},
    "24 lanes": {"shuffle": Shuffle(pool_blocks=8, lanes=24)},
    "store order": {"shuffle": InOrder(pool_blocks=8)},
    "full": {"shuffle": Shuffle(full=True)},
    "windows": {"window": {"length": 33, "stride": 4, "mode": "never"}},
    "packs": {"window": {"length": 33, "stride": 32, "mode": "best_fit"}},
    "weighted": {"shuffle": Weighted("half", 2500, pool_blocks=8)},
    "balanced": {"shuffle": ENTRIES},
    "mixture": {"shuffle": Mixture({"a": 0.7, "b": 0.3}, pool_blocks=8)},
    "mixture of 32 lanes": {"shuffle": Mixture({"a": 0.7, "b": 0.3}, pool_blocks=8, lanes=32)},
}


def opened(make_store: MakeStore, options: dict[str, Any], **others: Any) -> Any:
    store: Any = open_once(make_store())
    if isinstance(options.get("shuffle"), Mixture):
        store = {"a": store, "b": open_once(make_store([500, 400], first=50_000))}
    sizes = {"batch_size": 105, "memory": "8MiB", "shuffle": Shuffle(pool_blocks=8), "tensors": ("id",)}
    return loader(store, **{**sizes, **options, **others})


def counts(batches: Any) -> list[int]:
    return [len(batch["id"]) for batch in batches]


@pytest.mark.parametrize("world", [3, 24, *long_cases(6, 32, 95)])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_together_they_receive_the_epoch_of_one(make_store: MakeStore, sampling: str, world: int) -> None:
    options = SAMPLINGS[sampling]
    expected = identities(opened(make_store, options))
    received = np.full(len(expected), -1)
    for rank in range(world):
        with opened(make_store, options, rank=rank, world_size=world) as batches:
            received[rank::world] = identities(batches)
    assert received.tolist() == expected


@pytest.mark.parametrize("world", [4, 11, 100])
def test_a_batch_is_dealt_evenly_but_for_one_sample(make_store: MakeStore, world: int) -> None:
    sizes = np.array([counts(opened(make_store, {}, rank=rank, world_size=world)) for rank in range(world)])
    assert sizes.sum(0)[:-1].tolist() == [105] * (sizes.shape[1] - 1)
    assert sizes.sum() == ROWS
    assert np.ptp(sizes, axis=0).max() == 1


@pytest.mark.parametrize("last", ["drop", "pad"])
@pytest.mark.parametrize("world", [3, 32, 100])
def test_the_last_batch_is_dropped_or_filled(make_store: MakeStore, last: str, world: int) -> None:
    ranks = [opened(make_store, {"last": last}, rank=rank, world_size=world) for rank in range(world)]
    whole = list(together(ranks))
    assert [len(batch) for batch in whole] == [105] * (28 if last == "drop" else 29)
    assert len(set(flat(whole))) == (28 * 105 if last == "drop" else ROWS)


def test_each_chunk_is_read_as_often_as_the_loader_says(
    make_store: MakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """With 16 lanes, 32 ranks read each block twice, 3 ranks three times; with lanes for each rank, once."""
    store = open_once(make_store([64 * 512], chunk_rows=64, shard_rows=1024))
    read: dict[tuple[int, int], int] = {}
    for world, lanes in [(1, 16), (16, 16), (32, 16), (3, 16), (3, 3), (32, 32)]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "outofcore"):
            for rank in range(world):
                options: dict[str, Any] = {"residency": "streamed", "batch_size": 128, "tensors": ("id",)}
                options |= {"shuffle": Shuffle(pool_blocks=128, block_rows=64, lanes=lanes)}
                batches = loader(store, memory="8MiB", rank=rank, world_size=world, **options)
                counts(batches)
                read[world, lanes] = read.get((world, lanes), 0) + batches.stats.bytes_read
                batches.close()
        assert ("ranks do not divide" in caplog.text) == (lanes % world > 0)
    once = read[1, 16]
    factors = {name: round(each / once, 1) for name, each in read.items()}
    assert factors[16, 16] == factors[3, 3] == factors[32, 32] == 1
    assert factors[32, 16] == 2
    assert factors[3, 16] == 3


def test_lanes_are_part_of_the_order_and_of_the_state(make_store: MakeStore) -> None:
    orders = {
        lanes: identities(opened(make_store, {"shuffle": Shuffle(pool_blocks=8, lanes=lanes)})) for lanes in (8, 16, 24)
    }
    assert all(one != other for one, other in pairwise(orders.values()))
    state = opened(make_store, {"shuffle": Shuffle(pool_blocks=8, lanes=24)}).state_dict()
    with pytest.raises(Exception, match=r"another layout: expected layout\.lanes 16, the state has layout\.lanes 24;"):
        opened(make_store, {}).load_state_dict(state)


@pytest.mark.parametrize(
    "names",
    [
        ("WORLD_SIZE", "LOCAL_RANK"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ],
)
def test_several_processes_without_a_group_are_refused(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    monkeypatch.setenv(names[0], "3")
    opened(make_store, {})  # a job of three tasks, whose script runs in one process
    monkeypatch.setenv(names[1], "0")
    with pytest.raises(Exception, match="one of 3 ranks without it"):
        opened(make_store, {})
