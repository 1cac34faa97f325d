"""Sources mixed by weight, against plain numpy, and against the definition written again in slow, plain Python."""

from __future__ import annotations

import logging
import re
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.errors import BudgetError, ParamsError, StateError, StoreError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.mixture import PLACES, Mixture, MixtureSampler, weigh
from outofcore.order.windows import Windows, touched
from outofcore.settings.sizes import parse_bytes
from tests.loading.conftest import (
    WINDOWS,
    MakeStore,
    identities,
    opened_once,
    rows_of,
)
from tests.property.order_oracle import page

SIZES = {"lichess": [[300, 1, 64, 2000], [700, 35]], "twic": [[1000, 900]], "club": [[130] * 5]}
WEIGHTS = {"lichess": 0.5, "twic": 0.3, "club": 0.2}
FIRST = 10_000  # rows of a source are numbered from a multiple of this


@pytest.fixture
def sources(make_store: MakeStore) -> dict[str, list[Path]]:
    """Three sources, the first of two stores; the number of a row says which source."""
    made: dict[str, list[Path]] = {}
    for number, (name, stores) in enumerate(SIZES.items()):
        firsts = FIRST * number + np.cumsum([0, *map(sum, stores)])
        made[name] = [
            make_store(lengths, first=int(first), codec="none") for lengths, first in zip(stores, firsts, strict=False)
        ]
    return made


def opened(sources: Any, weights: Any = None, stop: Any = "first", pool_blocks: int = 8, **options: Any) -> Loader:
    mixture = Mixture(weights or WEIGHTS, stop, pool_blocks=pool_blocks)
    defaults: dict[str, Any] = {"batch_size": 48, "seed": 5, "memory": "8MiB", "tensors": ("id",)}
    return loader(opened_once(sources), shuffle=mixture, **{**defaults, **options})


def drawn(batches: Loader) -> np.ndarray[Any, Any]:
    """Last row of each sample of an epoch, whose source the batch must know."""
    rows = []
    for batch in batches:
        last = batch["id"].reshape(len(batch["id"]), -1)[:, -1]
        assert (last // FIRST).tolist() == batch["source"].tolist()
        rows.append(last.numpy())
    return np.concatenate(rows)


def sizes() -> list[int]:
    return [sum(map(sum, stores)) for stores in SIZES.values()]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=20))
def test_a_schedule_keeps_every_source_within_one_of_its_share(weights: list[int]) -> None:
    """Within 1 - 1 / (2n - 2) of it for n sources: by Tijdeman, the least bound that holds for all weights."""
    names = {str(number): 1 for number in range(len(weights))}
    sources = weigh(dict(zip(names, weights, strict=True)), names)
    whole, ideal = [source.weight for source in sources], [Fraction(PLACES * each, sum(weights)) for each in weights]
    assert sum(whole) == PLACES
    assert min(ideal) < 1 or all(abs(each - share) < 1 for each, share in zip(whole, ideal, strict=True))
    labels = schedule(whole)
    assert np.bincount(labels, minlength=len(whole)).tolist() == whole
    for number, weight in enumerate(whole):
        ahead = np.cumsum(labels == number) * PLACES - np.arange(1, PLACES + 1) * weight
        assert np.abs(ahead).max() * (2 * len(whole) - 2) <= PLACES * (2 * len(whole) - 3)


def schedule(weights: list[int]) -> np.ndarray[Any, Any]:
    from outofcore.order.mixture import _assign

    labels = np.zeros(PLACES, np.uint8)
    _assign(np.array(weights), labels)
    return labels


def test_shares_are_exact_over_any_span(sources: dict[str, list[Path]]) -> None:
    order = drawn(opened(sources, stop="all", batch_size=256)) // FIRST
    for name, source in zip(SIZES, range(3), strict=True):
        counts = np.append(0, np.cumsum(order == source))
        for span in (256, 1024, len(order) // 2):
            got = counts[span:] - counts[:-span]
            assert np.abs(got - WEIGHTS[name] * span).max() <= 2 * 8  # 16 positions are permuted together
            if span % 16 == 0:
                assert np.abs(got[::16] - WEIGHTS[name] * span).max() <= 2


@pytest.mark.parametrize("stop", ["first", "all"])
def test_each_source_once_or_evenly_again(sources: dict[str, list[Path]], stop: Any) -> None:
    batches = opened(sources, stop=stop)
    epochs = [drawn(batches) for _ in range(3)]
    assert len({epoch.tobytes() for epoch in epochs}) == 3
    for epoch in epochs:
        assert len(epoch) == batches.samples
        passes = []
        for number, size in enumerate(sizes()):
            counts = np.bincount(epoch[epoch // FIRST == number] - FIRST * number, minlength=size)
            assert len(counts) == size
            passes.append(counts.sum() / size)
            assert counts.max() - counts.min() <= 1
            if stop == "all":
                assert counts.min() >= 1
            else:
                assert counts.max() == 1
        edge = min(passes) if stop == "all" else max(passes)
        assert edge == pytest.approx(1, abs=0.05)
    reached = set(epochs[0].tolist()) | set(epochs[1].tolist())
    assert len(reached) > len(set(epochs[0].tolist())) or stop == "all"  # another part of what is not read whole


@pytest.mark.parametrize("kind", WINDOWS)
def test_one_order_wherever_rows_are(sources: dict[str, list[Path]], kind: str) -> None:
    orders = set()
    for residency, threads in (("ram", 1), ("mapped", 2), ("streamed", 3), ("hybrid", 2)):
        batches = opened(sources, window=WINDOWS[kind], residency=residency, threads=threads, tensors=("id", "picture"))
        got = []
        for batch in batches:
            assert (rows_of(batch["id"].numpy())["picture"] == batch["picture"].numpy()).all()
            got.append(batch["id"].tolist())
        orders.add(repr(got))
    assert len(orders) == 1


@pytest.mark.parametrize("stop", ["first", "all"])
def test_is_what_the_page_says(sources: dict[str, list[Path]], stop: Any) -> None:
    """docs/order.md, whose code is run; it knows no pools, so that a loader's memory decides nothing."""
    rows: list[list[int]] = []  # of each source
    begins: list[list[int]] = []  # the same, where each store begins with a chunk of its own
    for number, stores in enumerate(SIZES.values()):
        sizes_of_stores = list(map(sum, stores))
        rows.append(list(range(FIRST * number, FIRST * number + sum(sizes_of_stores))))
        firsts = np.cumsum([0, *(-(-size // 64) * 64 for size in sizes_of_stores)]).tolist()
        begins.append(
            [first + row for first, size in zip(firsts, sizes_of_stores, strict=False) for row in range(size)]
        )
    weights = page.whole_weights(WEIGHTS.values())

    def order_of(source: int, seed: int) -> list[int]:
        pools = page.shuffled_pools(begins[source], 64, 1, -(-8 * weights[source] // PLACES), 16, seed, 3)
        return [rows[source][sample] for pool in pools for sample in pool]

    batches = opened(sources, stop=stop)
    batches.set_epoch(3)
    expected = page.mixture(sizes(), weights, stop, order_of, 5, 3)
    assert drawn(batches).tolist() == [row for _, row in expected]


def test_a_state_of_another_mixture_is_refused(sources: dict[str, list[Path]]) -> None:
    batches = opened(sources)
    next(iter(batches))
    state = batches.state_dict()
    for other, named in (
        (opened(sources, {**WEIGHTS, "club": 0.1}), "layout"),
        (opened(sources, stop="all"), "layout"),
        (opened(dict(reversed(sources.items()))), "store"),
        (opened({**sources, "club": sources["twic"], "twic": sources["club"]}), "store"),
    ):
        with pytest.raises(StateError, match=f"the saved state belongs to another {named}"):
            other.load_state_dict(state)


def test_says_how_often_each_source_is_read(sources: dict[str, list[Path]], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outofcore")
    for stop in ("first", "all"):
        caplog.clear()
        order = drawn(opened(sources, stop=stop))
        for number, (name, size) in enumerate(zip(SIZES, sizes(), strict=True)):
            own = order[order // FIRST == number]
            (line,) = [line for line in caplog.messages if line.startswith(f"train: {name}: ")]
            assert f"asked for {WEIGHTS[name]:.3%}" in line
            assert f"{len(own):,} of {size:,}, passes {len(own) / size:.2f}" in line
            named = re.search(r", ([\d,]+) are not reached", line)
            assert int(named[1].replace(",", "") if named else 0) == size - len(set(own.tolist()))


def test_a_source_much_smaller_than_a_batch_comes_again_and_again(make_store: MakeStore) -> None:
    sources = {"large": make_store([9000]), "small": make_store([20], first=FIRST)}
    order = drawn(opened(sources, {"large": 9, "small": 1}, stop="all"))
    assert set(order[order < FIRST].tolist()) == set(range(9000))
    counts = np.bincount(order[order >= FIRST] - FIRST, minlength=20)
    assert counts.sum() == pytest.approx(1000, abs=20)
    assert counts.max() - counts.min() <= 1


def test_two_pools_touch_no_more_chunks_than_are_said(make_store: MakeStore) -> None:
    made = {name: make_store([size], first=size) for name, size in (("a", 5000), ("b", 2500), ("c", 100), ("d", 700))}
    for weights in ((1, 1, 1, 1), (1, 30, 3, 9), (90, 9, 1, 1)):
        for pool_blocks in (1, 16):
            batches = opened(made, dict(zip(made, weights, strict=True)), stop="all", pool_blocks=pool_blocks)
            (reader,) = batches.readers
            split, sampler = reader.split, reader.sampler
            origins = np.zeros(split.rows.chunks, np.int64)
            limits, before = sampler.limits(1), np.empty(0, np.int64)
            for pool in islice(sampler.pools(0, 0), 40):
                first = split.windows.first_rows(pool.draw(0, 1))
                chunks = touched(first, 1, split.rows.chunk_rows, origins)
                assert len(np.union1d(before, chunks)) <= min(2 * limits.chunks, split.rows.chunks)
                assert len(first) <= limits.samples
                before = chunks


def test_a_budget_that_is_too_small_names_one_that_works_and_a_pool(make_store: MakeStore) -> None:
    names = "abcde"
    sizes = {
        name: make_store([20_000], first=number, chunk_rows=256, shard_rows=1024) for number, name in enumerate(names)
    }
    for weights in ((2, 1), (1, 1, 1, 1, 1), (100, 1, 1)):
        sources = {name: sizes[name] for name, _ in zip(names, weights, strict=False)}

        def attempt(memory: int | str, blocks: int, sources: Any = sources, weights: Any = weights) -> Loader:
            shares = dict(zip(names, weights, strict=False))
            return opened(sources, shares, memory=memory, pool_blocks=blocks, residency="streamed", threads=2)

        with pytest.raises(BudgetError) as refused:
            attempt("50kB", 32)
        named = re.search(r"least that works is ([\d.]+ \w+)", str(refused.value))
        assert named
        assert len(identities(attempt(named[1], 32))) > 20_000 / 2
        for share in (0.9, 0.6):
            memory = int(share * parse_bytes(named[1]))
            with pytest.raises(BudgetError, match=r"or pool_blocks=\d+ with this budget") as refused:
                attempt(memory, 32)
            attempt(memory, int(re.findall(r"pool_blocks=(\d+)", str(refused.value))[0]))


@pytest.mark.parametrize(
    ("weights", "options", "named"),
    [
        ({"lichess": 1, "twic": 1}, {}, "weights: expected a weight for each source (lichess, twic, club)"),
        ({**WEIGHTS, "chess": 1}, {}, "weights: expected a weight for each source"),
        ({**WEIGHTS, "club": 0}, {}, "weights['club']: expected a number above 0, got 0"),
        ({**WEIGHTS, "club": -0.5}, {}, "weights['club']: expected a number above 0"),
        ({**WEIGHTS, "club": float("nan")}, {}, "weights['club']: expected a number above 0, got nan"),
        ({**WEIGHTS, "club": float("inf")}, {}, "weights['club']: expected a number above 0, got inf"),
        ({**WEIGHTS, "club": True}, {}, "weights['club']: expected a number above 0"),
        ({**WEIGHTS, "club": "much"}, {}, "weights['club']: expected a number above 0"),
        ([1, 2, 3], {}, "weights: expected a weight for each source"),
        (WEIGHTS, {"stop": "last"}, "stop: expected one of first, all"),
        (WEIGHTS, {"columns": ("source",)}, "columns: expected no 'source'"),
    ],
)
def test_what_cannot_be_mixed_is_refused(
    sources: dict[str, list[Path]], weights: Any, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ParamsError, match=re.escape(named)) as refused:
        opened(sources, weights, **options)
    assert "\n" not in str(refused.value)


def test_sources_that_cannot_be_mixed_are_refused(make_store: MakeStore) -> None:
    equal = {"a": 1, "b": 1}
    a = make_store([1900])
    for other, error, named in (
        (make_store([0]), ParamsError, "b: expected samples, got none"),
        ([], ParamsError, "data: expected at least one store"),
        (a, StoreError, "hold the same rows"),
        (make_store([500], chunk_rows=32), StoreError, "differ in rows per chunk of train (64 and 32)"),
        (make_store([500], parts=("x", "y")), StoreError, "differ in parts"),
    ):
        with pytest.raises(error, match=re.escape(named)):
            opened({"a": a, "b": other}, equal)
    parts = make_store([500], parts=("x", "y")), make_store([600], parts=("x", "y"), first=FIRST)
    with pytest.raises(ParamsError, match="part: expected one part, where sources are mixed"):
        opened(dict(zip("ab", parts, strict=True)), equal)
    assert len(drawn(opened(dict(zip("ab", parts, strict=True)), equal, part="y"))) > 900
    for data, shuffle in ((a, Mixture(equal)), ({"a": a}, True)):
        with pytest.raises(ParamsError, match=r"data: expected stores by name, .* with shuffle=Mixture"):
            loader(data, shuffle=shuffle)
    with pytest.raises(ParamsError, match="data: expected at least one source"):
        opened({})
    alone = drawn(opened({"only": a}, {"only": 3})).tolist()
    assert len(set(alone)) == len(alone) == 1900


@pytest.mark.parametrize("rows", [2**24, 2**31, 2**40])
def test_shares_are_exact_however_many_rows(rows: int) -> None:
    sizes, weights = [rows, rows // 3, 5 * rows], {"a": 5, "b": 1, "c": 3}
    chunk_rows = max(4096, rows >> 20)
    firsts = np.cumsum([0, *(-(-size // chunk_rows) for size in sizes[:-1])]) * chunk_rows
    windows = [
        Windows(size, runs=(np.array([first]), np.array([size]))) for first, size in zip(firsts, sizes, strict=True)
    ]
    chunks = [-(-size // chunk_rows) for size in sizes]
    sources = weigh(weights, dict.fromkeys(weights, 1))
    pool_blocks = 64 if rows < 2**40 else 4
    sampler = MixtureSampler(
        Mixture(weights, pool_blocks=pool_blocks), Windows(sum(sizes)), sources, windows, chunks, chunk_rows, 3
    )
    firsts, size = np.cumsum([0, *sizes]), sampler.pool_positions
    assert sampler.positions == pytest.approx(9 * rows / 5, rel=1e-4)
    pools = -(-sampler.positions // size)
    for begin in (0, (pools - 2) * size) if rows < 2**40 else (pools // 2 * size,):
        pool, same = (next(sampler.pools(2, place)) for place in (begin, begin + size - 1))
        end = begin + size
        assert (pool.start, pool.stop) == (same.start, same.stop) == (begin, end)
        samples = pool.draw(0, 1)
        counts, _ = np.histogram(samples, firsts)
        assert (np.diff(np.sort(samples)) > 0).all()
        assert len(samples) == end - begin
        shares = np.array([source.weight for source in sources]) / PLACES
        np.testing.assert_allclose(counts, shares * len(samples), atol=32)


def test_a_state_of_an_earlier_order_is_refused_by_its_version(sources: dict[str, list[Path]]) -> None:
    state = opened(sources).state_dict()
    state["layout"]["order"] = 2
    with pytest.raises(StateError, match="is of version 2 of the order of samples, expected version 3"):
        opened(sources).load_state_dict(state)
