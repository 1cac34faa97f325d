"""Whole sequences packed into windows, against best fit over plain lists and the rows as zarr-python reads them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.errors import BudgetError, ParamsError
from outofcore.loading.dataset import ZarrDataset
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.mixture import Mixture
from outofcore.order.packs import STRETCH
from outofcore.order.plain import InOrder, PlainSampler, Shuffle
from outofcore.order.weighted import Weighted
from outofcore.order.windows import Window, Windows
from tests.loading.conftest import MakeStore, opened_once

Sample = list[tuple[int, bool]]  # rows, and whether each is valid

CHUNK_ROWS = 32
LENGTHS = [[300, 1, 64, 2, 35, 700, 33, 17, 65], [90, 35, 12, 90, 0, 9], [0], [64, 64, 1, 900, 66, *range(1, 60)]]
FIRST = [0, *np.cumsum([sum(lengths) for lengths in LENGTHS]).tolist()]
RESIDENCIES = ("ram", "mapped", "streamed", "hybrid")


def packed(lengths: list[int], length: int, first: int = 0, keep: Any = None) -> list[Sample]:
    """The windows of a store, whose rows are numbered from ``first``; ``keep`` selects sequences by number."""
    stretches: dict[int, list[Sample]] = {}
    start = 0
    for number, size in enumerate(lengths):
        rows = list(range(first + start, first + start + size))
        for at in range(0, max(size - 1, min(size, 1)), length - 1) if keep is None or keep(number) else ():
            piece = [(row, at == 0 or row > rows[at]) for row in rows[at : at + length]]
            stretches.setdefault((piece[0][0] - first) // (STRETCH * length), []).append(piece)
        start += size
    windows: list[Sample] = []
    for _, pieces in sorted(stretches.items()):
        bins: list[list[Sample]] = []
        for piece in sorted(pieces, key=lambda piece: (-len(piece), piece)):
            fitting = [each for each in bins if sum(map(len, each)) + len(piece) <= length]
            if fitting:
                max(fitting, key=lambda each: sum(map(len, each))).append(piece)
            else:
                bins.append([piece])
        for each in sorted(sorted(bin_) for bin_ in bins):
            rows = list(itertools.chain.from_iterable(each))
            windows.append(rows + [(rows[-1][0], False)] * (length - len(rows)))
    return sorted(windows)


def windows_of(lengths: list[int], length: int) -> Windows:
    sizes = np.array(lengths, np.int64)
    window = Window(length=length, stride=length - 1, mode="best_fit")
    return Windows(sum(lengths), window, sequences=lambda: (np.cumsum(sizes) - sizes, sizes))


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.one_of(st.integers(0, 12), st.integers(0, 90)), max_size=120),
    st.integers(2, 20),
)
def test_windows_are_those_of_best_fit(lengths: list[int], length: int) -> None:
    windows, expected = windows_of(lengths, length), packed(lengths, length)
    assert windows.packs is not None
    first = windows.first_rows(np.arange(windows.samples))
    rows, valid = windows.packs.rows(first), windows.packs.runs(first)[2]
    got = [list(zip(*each, strict=True)) for each in zip(rows.tolist(), valid.tolist(), strict=True)]
    assert [[(row, of) for row, of in each] for each in got] == expected
    # Every row once, but the first of a rest, which ends the window before.
    assert sorted(row for sample in expected for row, of in sample if of) == list(range(sum(lengths)))
    assert windows.packs.filled == sum(len(dict(sample)) for sample in expected)
    assert windows.packs.extent == max((max(sample)[0] - sample[0][0] + 1 for sample in expected), default=0)
    places = {row: number for number, sample in enumerate(got) for row, of in sample if of}
    for start, size in zip(itertools.accumulate(lengths, initial=0), lengths, strict=False):
        assert size > length or len({places[row] for row in range(start, start + size)}) <= 1


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.one_of(st.integers(0, 40), st.integers(0, 400)), min_size=1, max_size=150),
    st.integers(2, 40),
    st.sampled_from([True, False]),
    st.integers(1, 5),
    st.sampled_from([None, 16, 64, 100]),
    st.sampled_from([1, 4, 16]),
)
def test_no_pool_touches_more_chunks_than_are_said(
    lengths: list[int], length: int, shuffle: bool, pool_blocks: int, block_rows: int | None, world: int
) -> None:
    windows = windows_of(lengths, length)
    assert windows.packs is not None
    sampling = (Shuffle if shuffle else InOrder)(pool_blocks=pool_blocks, block_rows=block_rows)
    plain = PlainSampler(windows, CHUNK_ROWS, 0, sampling)
    for number in range(3):
        epoch, seen = plain.epoch(number), []
        for pool in range(epoch.pools):
            for rank in range(world):
                samples = epoch.samples(pool, rank, world)
                rows = windows.packs.rows(windows.first_rows(samples))
                assert len(np.unique(rows // CHUNK_ROWS)) <= plain.pool_chunks(world)
                assert len(samples) <= plain.pool_samples(world)
                seen += samples.tolist()
        assert sorted(seen) == list(range(windows.samples))


def opened(stores: Any, length: int = 33, **options: Any) -> Loader:
    shared = {
        "batch_size": 24,
        "seed": 5,
        "memory": "8MiB",
        "shuffle": Shuffle(pool_blocks=4),
        "tensors": ("id", "sparse"),
    }
    return loader(opened_once(stores), **{**shared, "window": best_fit(length), **options})


def best_fit(length: int) -> dict[str, Any]:
    return {"length": length, "stride": length - 1, "mode": "best_fit"}


@pytest.fixture
def months(make_store: MakeStore) -> list[Path]:
    """Four stores; the number of a row says which."""
    return [make_store(lengths, first=first, codec="none") for lengths, first in zip(LENGTHS, FIRST, strict=False)]


def of_months(length: int, **more: Any) -> list[Sample]:
    pairs = zip(LENGTHS, FIRST, strict=False)
    return list(itertools.chain.from_iterable(packed(lengths, length, first, **more) for lengths, first in pairs))


def read(batches: Any) -> list[Sample]:
    """The samples of an epoch, in order."""
    got = []
    for batch in batches:
        for rows, valid in zip(batch["id"].tolist(), batch["valid"].tolist(), strict=True):
            got.append(list(zip(rows, valid, strict=True)))
    return got


@pytest.mark.parametrize("residency", RESIDENCIES)
@pytest.mark.parametrize(("length", "shuffle"), [(2, True), (33, True), (33, False), (120, True)])
def test_an_epoch_is_every_window_once(months: list[Path], residency: str, length: int, shuffle: bool) -> None:
    raw = np.concatenate([zarr.open_array(f"{path}/train/sparse")[:] for path in months])
    expected = of_months(length)
    for epoch in (0, 1):
        with opened(months, length, residency=residency, shuffle=shuffle) as batches:
            batches.set_epoch(epoch)
            received = list(batches)
            for batch in received:
                assert np.array_equal(batch["sparse"].numpy(), raw[batch["id"].numpy()])
            got = read(received)
            assert (got == expected) if not shuffle else (sorted(got) == sorted(expected))
    assert len(opened(months, length).notes) >= 1


def test_only_selected_sequences(months: list[Path]) -> None:
    got = read(opened(months, where="label >= 3", residency="streamed"))
    sizes = [len(lengths) for lengths in LENGTHS]
    expected = [
        sample
        for lengths, first, size in zip(LENGTHS, FIRST, sizes, strict=False)
        for sample in packed(lengths, 33, first, keep=lambda number, size=size: number * 10 // size >= 3)
    ]
    assert sorted(got) == sorted(expected)


def test_a_mixture_draws_windows_of_each_source(months: list[Path]) -> None:
    sources = {"a": months[0], "b": months[3]}
    with opened(sources, 17, shuffle=Mixture({"a": 0.5, "b": 0.5}, stop="all"), residency="streamed") as batches:
        got = {tuple(sample) for sample in read(batches)}
    assert got == {tuple(sample) for number in (0, 3) for sample in packed(LENGTHS[number], 17, FIRST[number])}


def test_a_dataset_has_the_windows_by_number(months: list[Path]) -> None:
    dataset = ZarrDataset(months, tensors=("id",), columns=("sequence",), window=best_fit(33), memory="40kB")
    expected = of_months(33)
    places = np.random.default_rng(0).permutation(len(expected))
    batch = dataset[places]
    assert read([batch]) == [expected[place] for place in places]
    ends = np.cumsum([size for lengths in LENGTHS for size in lengths])
    assert batch["sequence"].tolist() == np.searchsorted(ends, batch["id"][:, 0].numpy(), "right").tolist()


def test_a_line_says_how_full_windows_are(months: list[Path]) -> None:
    expected = [len(dict(sample)) for sample in of_months(33)]
    share = sum(expected) / (33 * len(expected))
    sizes = [size for lengths in LENGTHS for size in lengths if size]
    cut = sum(size > 33 for size in sizes)
    (line,) = [note for note in opened(months).notes if "best fit" in note]
    assert f"fill {share:.2%} of the windows" in line
    assert f"{cut} of {len(sizes)} ({cut / len(sizes):.1%}) are longer than a window and cut" in line
    firsts = {sample[0][0] for sample in map(list, of_months(33))}
    begin = np.cumsum([0, *[size for lengths in LENGTHS for size in lengths]])
    assert f"{len(firsts & set(begin.tolist()))} begin a window, so that their first rows are no targets" in line


def test_lengths_like_those_of_a_crawl_fill_98_percent() -> None:
    """A median of 400 tokens, a mean of 1,000."""
    draws = np.random.default_rng(0).normal(np.log(400), np.sqrt(2 * np.log(2.5)), 50_000)
    for length in (257, 1025, 2049):
        windows = windows_of(np.maximum(1, np.exp(draws).astype(np.int64)).tolist(), length)
        assert windows.packs is not None
        assert windows.packs.filled > 0.98 * windows.samples * length


def test_what_does_not_go_together_is_refused(months: list[Path]) -> None:
    with pytest.raises(ParamsError, match="stride must be length - 1, got 33 and a length of 33"):
        opened(months, window={"length": 33, "stride": 33, "mode": "best_fit"})
    with pytest.raises(ParamsError, match="windows of consecutive rows"):
        opened(months, shuffle=Weighted(column="half"), tensors=("id", "half"))
    with pytest.raises(BudgetError, match=re.escape("does not hold the")):
        ZarrDataset(months, tensors=("id",), window=best_fit(33), memory=1000)
