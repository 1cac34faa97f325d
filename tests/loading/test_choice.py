"""Which residency a budget and a machine get, and whether it stays within the budget."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

from outofcore.errors import BudgetError, StoreError
from outofcore.loading.chunk_cache import ChunkCache
from outofcore.loading.memory import READY_GROUPS, BatchBytes, MemoryEstimate
from outofcore.loading.residency import ResidencyPlan, choose
from outofcore.loading.rows import Rows
from outofcore.order.sampling import PoolLimits
from outofcore.order.windows import Windows
from outofcore.settings.residencies import RESIDENCIES, ResidencyName
from outofcore.store.reader import open_store
from outofcore.system.recycling import Recycler
from tests.loading.conftest import MakeStore

CHUNK = 1 << 20
NEEDS = MemoryEstimate(
    limits=PoolLimits(samples=0, chunks=8, access="pools"),
    batches=BatchBytes(CHUNK // 32, 0, 0, 2),
    chunk=CHUNK,
    chunks=100,
    split_tables=5000,
    decoded_at_once=2 * CHUNK,
)
ANYWHERE: dict[str, Any] = {"limits": replace(NEEDS.limits, access="anywhere")}
MAPPABLE = {"mappable": True}
WHOLE, STREAMED, FIXED = NEEDS.whole, NEEDS.streamed, NEEDS.fixed
GROUPS = NEEDS.batches.best - NEEDS.batches.least
PLENTY = 10 * WHOLE


def chosen(kind: ResidencyName, budget: int, changes: dict[str, Any]) -> ResidencyPlan:
    [plan], batches, room = choose(kind, [replace(NEEDS, **changes)], budget)
    assert NEEDS.tables + NEEDS.decoding + plan.slots * CHUNK + room == budget
    assert room >= batches.least
    return plan


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 chunks fit the page cache exactly."""
    monkeypatch.setattr("outofcore.loading.residency.usable_memory", lambda: SimpleNamespace(value=100 * CHUNK))


@pytest.mark.parametrize(
    ("budget", "changes", "kind"),
    [
        (PLENTY, {}, "ram"),
        (WHOLE + GROUPS, {}, "ram"),
        (WHOLE + GROUPS - 1, {}, "hybrid"),
        (WHOLE, ANYWHERE, "ram"),
        (FIXED + 36 * CHUNK, {"chunks": 36}, "ram"),  # too few chunks to keep some and read the others again
        (STREAMED, {}, "streamed"),
        (PLENTY, MAPPABLE, "ram"),
        (WHOLE + GROUPS, MAPPABLE, "ram"),
        (WHOLE + GROUPS - 1, MAPPABLE, "mapped"),
        (FIXED, MAPPABLE, "mapped"),
        (WHOLE, MAPPABLE | {"chunks": 101}, "hybrid"),
        (FIXED, MAPPABLE | ANYWHERE | {"chunks": 101}, "mapped"),
    ],
)
def test_auto_takes_the_first_that_fits(budget: int, changes: dict[str, Any], kind: str) -> None:
    assert chosen("auto", budget, changes).kind == kind


@pytest.mark.parametrize("access", ["pools", "recurring"])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.8])
def test_a_hybrid_fills_the_budget_and_tells_how_much_stays(share: float, access: str) -> None:
    budget = int(STREAMED + GROUPS + share * 100 * CHUNK)
    for kind in ("auto", "hybrid"):
        plan = chosen(kind, budget, {"limits": replace(NEEDS.limits, access=access)})  # type: ignore[arg-type]
        assert plan.kind == "hybrid"
        assert FIXED + plan.slots * CHUNK > budget - GROUPS - CHUNK
        stay = plan.slots - NEEDS.slots
        assert f" {stay}% of " in plan.reason
        assert plan.pinned == (0 if access == "recurring" else stay)


@pytest.mark.parametrize(
    ("kind", "budget", "changes", "error", "named"),
    [
        ("auto", STREAMED - 1, {}, BudgetError, "least that works"),
        ("streamed", STREAMED - 1, {}, BudgetError, "least that works"),
        ("hybrid", STREAMED - 1, {}, BudgetError, "least that works"),
        ("ram", WHOLE - 1, {}, BudgetError, "too small: all rows"),
        ("mapped", FIXED - 1, MAPPABLE, BudgetError, "too small: batches in flight"),
        ("auto", FIXED - 1, MAPPABLE, BudgetError, "too small: batches in flight"),
        ("auto", WHOLE - 1, ANYWHERE, BudgetError, "draws rows from everywhere"),
        ("streamed", PLENTY, ANYWHERE, BudgetError, "draws rows from everywhere"),
        ("hybrid", PLENTY, ANYWHERE, BudgetError, "draws rows from everywhere"),
        ("mapped", PLENTY, {}, StoreError, "codec 'none'"),
    ],
)
def test_what_does_not_fit_is_refused(
    kind: Any, budget: int, changes: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=re.escape(named)):
        chosen(kind, budget, changes)


@pytest.mark.parametrize(
    ("kind", "budget"),
    [("ram", WHOLE), ("streamed", STREAMED), ("hybrid", STREAMED), ("mapped", FIXED)],
)
def test_what_is_asked_for_is_given_where_it_fits_exactly(kind: Any, budget: int) -> None:
    plan = chosen(kind, budget, MAPPABLE)
    assert (plan.kind, FIXED + plan.slots * CHUNK) == (kind, budget)


@pytest.mark.parametrize("kind", [name for name in get_args(ResidencyName) if name != "auto"])
def test_tables_are_read_within_the_budget_wherever_rows_are(kind: Any) -> None:
    """Reading them may take more than all that an epoch holds."""
    tables = MAPPABLE | {"split_opening": PLENTY}
    assert chosen(kind, PLENTY, tables).kind == kind
    with pytest.raises(BudgetError, match="the least that works is"):
        chosen(kind, PLENTY - 1, tables)


def test_the_table_has_every_residency() -> None:
    assert ("auto", *RESIDENCIES) == get_args(ResidencyName)


def least_of(parts: list[MemoryEstimate], rows: list[int]) -> int:
    """Threads, chunks that they decode, and batches are there once: each batch comes from one part."""
    tables = sum(each.tables for each in parts)
    return tables + parts[0].decoding + max(each.batches.least for each in parts) + sum(rows)


def test_splits_that_are_read_together_share_the_budget_the_smallest_first() -> None:
    parts = [replace(NEEDS, chunks=chunks) for chunks in (100, 30, 60)]
    least = least_of(parts, [each.slots * CHUNK for each in parts])
    plans, _, room = choose("auto", parts, least + GROUPS + 60 * CHUNK)
    assert [plan.kind for plan in plans] == ["streamed", "ram", "ram"]
    assert room >= parts[0].batches.best
    whole = least_of(parts, [each.decoded for each in parts])
    assert [plan.kind for plan in choose("ram", parts, whole)[0]] == ["ram"] * 3
    anywhere = [replace(each, **ANYWHERE) for each in parts]
    assert [plan.kind for plan in choose("auto", anywhere, whole)[0]] == ["ram"] * 3
    with pytest.raises(BudgetError, match="too small: all rows"):
        choose("ram", parts, whole - 1)
    with pytest.raises(BudgetError, match="for each of 3 parts"):
        choose("auto", parts, least - 1)


@pytest.mark.parametrize("kind", ["ram", "mapped", "hybrid", "streamed"])
def test_parts_need_together_what_each_needs_where_its_rows_are(kind: Any) -> None:
    parts = [replace(NEEDS, chunk=CHUNK // 4, chunks=chunks, mappable=True) for chunks in (100, 3, 60)]
    rows = {"ram": [each.decoded for each in parts], "mapped": [0, 0, 0]}
    least = least_of(parts, rows.get(kind, [each.slots * each.chunk for each in parts]))
    assert [plan.kind for plan in choose(kind, parts, least)[0]] == [kind] * 3
    with pytest.raises(BudgetError, match="the least that works is"):
        choose(kind, parts, least - 1)


@pytest.mark.parametrize("budget", [STREAMED + GROUPS + 20 * CHUNK, WHOLE, WHOLE + GROUPS - 1, WHOLE + GROUPS])
def test_kept_chunks_leave_room_for_full_groups_of_batches(budget: int) -> None:
    """Small groups take longer to hand over than kept chunks save: more memory must not be slower."""
    [plan], batches, room = choose("auto", [NEEDS], budget)
    assert plan.pinned >= 20
    assert batches.within(room)[:2] == (batches.threads + READY_GROUPS, batches.group_batches)


def test_an_empty_split_has_nothing_to_keep() -> None:
    assert chosen("hybrid", PLENTY, {"chunks": 0}).slots == 0


def test_a_cache_keeps_the_chunks_that_it_was_given_room_for(make_store: MakeStore) -> None:
    fields = {"id": open_store(make_store()).rows("train")["id"]}
    for kept in (0, 1, 7, 46, 47, 99):
        split: Any = SimpleNamespace(rows=Rows([fields]), windows=Windows(len(fields["id"])), used=None)
        plan = ResidencyPlan(kind="hybrid", reason="", slots=4 + kept, pinned=kept)
        cache = ChunkCache(split, plan, defaultdict(Recycler))
        chunks = np.arange(cache.chunks)
        assert cache.chunks == 47
        for start in (*range(0, 47, 4), *range(0, 47, 4)):
            some = chunks[start : start + 4]
            for work in cache.bring(some):
                work()
            cache.release(some)
        there = np.flatnonzero(cache.addresses[0] != 0)
        assert len(there) == min(47, kept + 4)
        before = cache.bytes_read
        for start in range(0, 47, 4):
            some = chunks[start : start + 4]
            for work in cache.bring(some):
                work()
            cache.release(some)
        assert (cache.bytes_read == before) == (kept >= 43)
        assert np.diff(np.flatnonzero(cache.addresses[0] != 0)).max() <= 47 // max(kept, 1) + 1 or kept < 7
