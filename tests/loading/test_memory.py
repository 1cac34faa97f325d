"""What the process holds against what the loader was allowed."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.errors import BudgetError, DamagedStore
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.loading.memory import BatchBytes, decoding_bytes, loose_bytes, piece_chunks
from outofcore.order.balanced import Balanced
from outofcore.order.mixture import Mixture
from outofcore.order.plain import PlainSampler, Shuffle
from outofcore.order.sampling import PoolLimits
from outofcore.order.weighted import Weighted
from outofcore.settings.sizes import parse_bytes
from outofcore.store.reader import open_store
from outofcore.system.recycling import Recycler
from tests.cases import long_cases
from tests.loading.conftest import opened_once, write_store
from tests.loading.memory_table import in_a_process


@pytest.mark.parametrize("kept", [0, 1 << 20, 30 << 20, 400 << 20])
@pytest.mark.parametrize("held", [0, 1 << 19, 20 << 20])
def test_batches_are_within_the_room_that_they_are_given(kept: int, held: int) -> None:
    batches = BatchBytes(1 << 20, kept, held, 4)
    for room in (0, 1 << 20, 10 << 20, 100 << 20, 1 << 30):
        groups, size, returns = batches.within(room)
        assert batches.taken(groups, size, returns=returns) <= max(room, batches.least)
        assert not returns or batches.taken(6, 1, returns=False) > room
    assert batches.within(0)[:2] == (1, 1)
    assert batches.within(0)[2] == (kept >= 30 << 20)
    assert batches.within(batches.taken(6, 8, returns=False)) == (6, 8, False)
    assert batches.within(batches.best)[::2] == (6, False)


@pytest.mark.parametrize(
    ("shape", "residency", "threads", "memory", "size"),
    [
        ("map_4", "streamed", 8, "128MiB", 24),
        ("map_16", "streamed", 8, "256MiB", 24),
        ("reset", "streamed", 8, "128MiB", 24),
        ("packed", "streamed", 8, "128MiB", 24),
        ("map_4", "mapped", 8, "0", 24),  # pages of mapped files are not counted
        ("wide", "ram", 8, "0", 64),  # threads keep buffers from pool to pool
        ("foreign", "streamed", 2, "0", 24),  # stored chunks are kept while they are decoded
        ("shards", "streamed", 8, "0", 24),  # chunks are decoded for a part of their rows
    ],
)
def test_what_a_process_holds_is_within_the_budget(
    shape: str, residency: str, threads: int, memory: str, size: int, tmp_path: Path
) -> None:
    budget, grown = in_a_process(tmp_path, shape, residency, threads, memory, size)
    assert grown <= budget


def test_loose_tensors_are_those_that_nobody_uses_again() -> None:
    rows, recycler = np.zeros((4, 10), np.int64), Recycler()
    again = torch.from_numpy(recycler.empty((4, 10), np.dtype(np.int64)))
    assert loose_bytes([torch.from_numpy(rows)[:, 1:], again[2:]], [rows]) == (0, 0)
    assert loose_bytes([torch.from_numpy(rows), again.clone()]) == (640, 320 * 4 + 320 * 20)


ROWS = 300_000
ENTRIES = np.arange(0, ROWS, 10)
ORDERS: dict[str, dict[str, Any]] = {
    "rows": {},
    "overlapping windows": {"shuffle": Shuffle(pool_blocks=16), "window": {"length": 8, "stride": 4}},
    "windows inside sequences": {
        "shuffle": Shuffle(pool_blocks=16),
        "window": {"length": 50, "stride": 2, "mode": "never"},
    },
    "packed sequences": {
        "shuffle": Shuffle(pool_blocks=8),
        "window": {"length": 700, "stride": 699, "mode": "best_fit"},
    },
    "packed short sequences": {
        "shuffle": Shuffle(pool_blocks=4),
        "window": {"length": 4097, "stride": 4096, "mode": "best_fit"},
    },
    "weighted": {"shuffle": Weighted("half")},
    "few draws by weights of sequences": {"shuffle": Weighted("length", 20_000), "batch_size": 20_000},
    "columns": {"shuffle": Shuffle(pool_blocks=4), "columns": ("label", "sequence", "length")},
    "one large batch": {"batch_size": ROWS // 2, "threads": 16},
    "balanced": {
        "shuffle": Balanced(
            ENTRIES // 10 % 40,
            ENTRIES,
            np.full(len(ENTRIES), 10),
            np.ones(len(ENTRIES), np.int64),
            groups=8,
            entries=8,
            rows=8,
        ),
    },
}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("narrow") / "numbers.zarr"
    return write_store(folder, [ROWS // 100] * 100, codec="lz4", chunk_rows=2048, shard_rows=1 << 17)


def fresh(store: Any) -> Any:
    """The same stores, opened, which have read nothing yet."""
    if isinstance(store, dict):
        return {name: fresh(each) for name, each in store.items()}
    return [fresh(each) for each in store] if isinstance(store, list) else open_store(store)


def opener(paths: Any, order: str, **more: Any) -> Callable[..., Loader]:
    kept = opened_once(paths)

    def opened(memory: int | str, store: Any = None) -> Loader:
        options: dict[str, Any] = {"batch_size": 512, "threads": 2, "tensors": ("sparse",), **ORDERS[order], **more}
        return loader(store or kept, memory=memory, residency="streamed", **options)

    return opened


def least(opened: Callable[..., Loader]) -> int:
    """The smallest budget that is accepted."""
    with pytest.raises(BudgetError) as refusal:
        opened(1)
    accepted = parse_bytes(re.search(r"least that works is ([\d.]+ \w+)", str(refusal.value))[1])  # type: ignore[index]
    opened(accepted)
    refused = accepted * 98 // 100  # it names three digits
    with pytest.raises(BudgetError):
        opened(refused)
    while accepted - refused > 1:
        middle = (refused + accepted) // 2
        try:
            opened(middle)
        except BudgetError:
            refused = middle
        else:
            accepted = middle
    return accepted


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twelve stores that end in the middle of a chunk."""
    folder, sizes = tmp_path_factory.mktemp("months"), [ROWS // 1200 + number for number in range(12)]
    options: dict[str, Any] = {"codec": "lz4", "chunk_rows": 2048, "shard_rows": 1 << 17}
    return [write_store(folder / f"{size}.zarr", [size] * 100, first=1000 * size, **options) for size in sizes]


@pytest.mark.parametrize("order", ORDERS)
def test_the_least_budget_that_is_accepted_is_kept(narrow: Path, order: str) -> None:
    check_least_budget(opener(narrow, order), narrow)


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=() if order in ("rows", "windows inside sequences") else pytest.mark.long)
        for order in ORDERS
    ],
)
def test_several_stores_keep_the_least_budget_that_is_accepted(months: list[Path], order: str) -> None:
    check_least_budget(opener(months, order), months)


@pytest.mark.parametrize("order", ["rows", "overlapping windows", "windows inside sequences"])
def test_a_mixture_keeps_the_least_budget_that_is_accepted(months: list[Path], order: str) -> None:
    sources = {"first": months[:5], "one": months[5], "last": months[6:]}
    check_least_budget(
        opener(sources, order, shuffle=Mixture({"first": 5, "one": 1, "last": 3}, pool_blocks=16)), sources
    )


@pytest.mark.parametrize("order", ["rows", "overlapping windows"])
def test_parts_keep_the_least_budget_that_is_accepted(order: str, tmp_path: Path) -> None:
    """Room for batches is counted once, not by part: each batch comes from one."""
    days = tuple(f"day{number}" for number in range(16))
    store = write_store(tmp_path / "days.zarr", [100] * 80, codec="lz4", chunk_rows=256, shard_rows=1 << 12, parts=days)
    opened = opener(store, order, part=days, batch_size=4096)
    check_least_budget(opened, store)
    budget = least(opened) - 50_000
    with pytest.raises(BudgetError) as refusal:
        opened(budget)
    fits = re.search(r"batch_size=(\d+) with this budget", str(refusal.value))
    assert fits, refusal.value
    opener(store, order, part=days, batch_size=int(fits[1]))(budget)


def check_least_budget(opened: Callable[..., Loader], paths: Any) -> None:
    memory, store = least(opened), fresh(paths)
    for _ in islice(opened(memory), 3):  # what is compiled and imported once is no part of the budget
        pass
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        batches = opened(memory, store)
        for _ in batches:
            pass
        for _ in islice(batches, len(batches) // 4):  # while the first epoch ends, the next one begins
            pass
        _, most = tracemalloc.get_traced_memory()
        assert most - before <= memory
    finally:
        tracemalloc.stop()


def test_tables_of_small_chunks_and_short_sequences_are_counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("small") / "numbers.zarr"
    small = write_store(folder, [3] * 10_000, codec="lz4", chunk_rows=16, shard_rows=1 << 14)
    for more in ({}, {"window": {"length": 2, "mode": "never"}}, {"columns": ("label",)}):
        check_least_budget(opener(small, "rows", shuffle=Shuffle(pool_blocks=16), **more), small)


def test_a_refusal_reads_no_chunk(tmp_path: Path) -> None:
    """Shards of which nothing can be decoded are not noticed before the refusal."""
    path = write_store(tmp_path / "a.zarr", [3000], codec="lz4", chunk_rows=128, shard_rows=1 << 13)
    for shard in path.glob("train/*/c.0"):
        if shard.parent.name != "sequences":
            shard.write_bytes(bytes(shard.stat().st_size))
    with pytest.raises(BudgetError):
        loader(path, batch_size=64, memory=5000, residency="streamed", tensors=("id",))
    with pytest.raises(DamagedStore):
        next(iter(loader(path, batch_size=64, residency="streamed", tensors=("id",))))


@pytest.mark.parametrize(
    ("chunks", "parts"),
    [
        (1, 1),
        (200, 1),
        (3, 4),
        *long_cases((3, 1), (29, 1), (1000, 1), (1, 20), (29, 20)),
    ],
)
@pytest.mark.parametrize("window", [None, {"length": 10, "mode": "reach"}], ids=["rows", "windows"])
def test_what_a_refusal_advises_is_accepted(chunks: int, parts: int, window: Any, tmp_path: Path) -> None:
    days = tuple(f"day{number}" for number in range(parts)) if parts > 1 else None
    lengths = [128 * chunks - 5]

    def written(rows: int) -> Path:
        path = tmp_path / f"{rows}.zarr"
        layout: Any = {"chunk_rows": rows, "shard_rows": 1 << 13, **({"parts": days} if days else {})}
        return path if path.exists() else write_store(path, lengths, codec="lz4", **layout)

    def opened(memory: int, rows: int = 128, **changes: Any) -> Loader:
        options: dict[str, Any] = {
            "tensors": ("id", "half"),
            "window": window,
            "batch_size": 64,
            "part": days,
            **changes,
        }
        return loader(opened_once(written(rows)), memory=memory, residency="streamed", threads=2, **options)

    followed = 0
    memory = least(opened)
    for share in (99, 95, 80, 65, 50, 35, 20):
        budget = memory * share // 100
        with pytest.raises(BudgetError) as refusal:
            opened(budget)
        for name, value in re.findall(r"(pool_blocks|batch_size)=(\d+)", str(refusal.value)):
            change: Any = int(value)
            opened(budget, **({"shuffle": {name: change}} if name == "pool_blocks" else {name: change}))
            followed += 1
    assert followed


def test_a_refusal_that_nothing_cures_asks_for_pools_twice(narrow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a billion rows each answer takes a tenth of a second."""
    asked = list[int]()
    answer = PlainSampler.limits

    def limits(sampler: PlainSampler, world: int) -> PoolLimits:
        asked.append(world)
        return answer(sampler, world)

    monkeypatch.setattr(PlainSampler, "limits", limits)
    with pytest.raises(BudgetError, match="no smaller pool or batch fits this budget"):
        loader(narrow, memory=10_000, residency="streamed", tensors=("id",), window={"length": 2, "mode": "never"})
    assert len(asked) == 2


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("pool_chunks", [1, 3, 64, 5000])
def test_pieces_of_work_that_a_remote_store_sends_whole_are_counted(threads: int, pool_chunks: int) -> None:
    chunk = 100_000
    piece = piece_chunks(pool_chunks, chunk)
    pieces = [len(range(pool_chunks)[start : start + piece]) for start in range(0, pool_chunks, piece)]
    counted = decoding_bytes(threads, chunk, 10_000, pool_chunks, local=False)
    assert sum(sorted(pieces)[-threads:]) * chunk <= counted <= pool_chunks * chunk
    assert max(pieces) * chunk <= 4 << 20
