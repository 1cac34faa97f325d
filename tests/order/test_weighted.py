"""Draws in proportion to a weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.arrays import write_store
from outofcore.errors import ParamsError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.weighted import Weighted
from outofcore.order.windows import Window
from tests.loading.conftest import MakeStore, together

LENGTHS = [300, 1, 64, 700, 35, 1000, 900]


def open_weighted(store: Any, column: str = "label", samples: int | None = None, **options: Any) -> Loader:
    return loader(store, batch_size=80, memory="8MiB", shuffle=Weighted(column, samples, pool_blocks=4), **options)


def draws(batches: Loader, field: str = "id") -> np.ndarray[Any, Any]:
    return np.concatenate([batch[field].numpy().reshape(len(batch[field]), -1)[:, -1] for batch in batches])


@pytest.mark.parametrize("column", ["label", "half"])
@pytest.mark.parametrize("samples", [None, 500, 20_000])
def test_each_row_comes_as_often_as_its_weight_says(make_store: MakeStore, column: str, samples: int | None) -> None:
    batches = open_weighted(make_store(), column, samples, tensors=("id",))
    weights = np.arange(3000.0)
    if column == "label":
        weights = np.repeat(np.arange(7) * 10 // 7, LENGTHS).astype(float)
    expected = weights / weights.sum() * batches.samples
    total = np.zeros(3000)
    epochs = 5
    for _ in range(epochs):
        counts = np.bincount(draws(batches), minlength=3000)
        assert counts.sum() == batches.samples == (samples or 3000)
        # Strata: a row is drawn as often as it should be, but for one at either end of its weight.
        assert np.all(np.abs(counts - expected) < 2 + 0.01 * expected)
        total += counts
    assert not total[weights == 0].any()
    heavy = weights > np.median(weights)
    assert total[heavy].sum() / total.sum() == pytest.approx(weights[heavy].sum() / weights.sum(), abs=0.02)


def test_windows_have_the_weight_of_their_last_row(make_store: MakeStore) -> None:
    for window in (
        Window(length=40, mode="reach"),
        Window(length=40, stride=3, mode="never"),
        Window(length=5),
    ):
        batches = open_weighted(make_store(), "half", 20_000, tensors=("half",), window=window)
        last = draws(batches, "half")
        assert np.abs(np.mean(last) - np.sum(np.arange(3000.0) ** 2) / np.sum(np.arange(3000.0))) < 40


@pytest.mark.parametrize(
    ("lengths", "options", "named"),
    [
        (None, {"column": "sparse"}, "negative"),
        (None, {"window": Window(length=3, stride=2, phase=True)}, "phase"),
        ([2000], {}, "no positive weight"),
    ],
    ids=["negative", "moving windows", "all 0"],
)
def test_weights_that_cannot_be(make_store: MakeStore, lengths: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ParamsError, match=named):
        open_weighted(make_store(lengths), **options)


@pytest.mark.parametrize("world", [1, 4])
def test_the_draws_of_a_pool_are_counted_as_those_of_the_heaviest(make_store: MakeStore, world: int) -> None:
    """Enough memory for the order of any pool, and no more than the weights allow."""
    sampler = open_weighted(make_store(), "half", 20_000).readers[0].sampler
    blocks = np.add.reduceat(np.arange(3000), np.arange(0, 3000, 64))
    heaviest = 20_000 * np.sort(blocks)[-4:].sum() / blocks.sum()
    said = sampler.limits(world).samples
    assert heaviest / world <= said <= heaviest / world + 64
    for epoch in range(20):
        assert max(pool.stop - pool.start for pool in sampler.pools(epoch, 0)) / world <= said


@pytest.mark.parametrize("samples", [20, 100, 1000])
def test_a_last_batch_is_padded_where_the_last_pools_have_no_weight(tmp_path: Path, samples: int) -> None:
    weights = np.zeros(1024, np.float32)
    weights[:160] = 1
    write_store(tmp_path / "a.zarr", {"id": np.arange(1024), "w": weights}, chunk_rows=16, shard_rows=1024)
    for seed in range(8):
        epochs = []
        for world in (1, 4):
            ranks = [
                open_weighted(
                    tmp_path / "a.zarr",
                    "w",
                    samples,
                    last="pad",
                    seed=seed,
                    tensors=("id",),
                    rank=rank,
                    world_size=world,
                )
                for rank in range(world)
            ]
            epochs.append(list(together(ranks)))
        assert {len(batch) for batch in epochs[0]} == {80}
        assert max(max(batch) for batch in epochs[0]) < 160
        assert epochs[0][: samples // 80] == epochs[1][: samples // 80]


@pytest.mark.parametrize("scale", [1e-323, 1e-305, 1e-300, 1.0, 1e307])
def test_only_the_ratio_of_weights_counts(tmp_path: Path, scale: float) -> None:
    weights = np.tile([0.0, 5.0, 10.0], 400) * scale
    write_store(tmp_path / "a.zarr", {"id": np.arange(1200), "w": weights}, chunk_rows=16, shard_rows=1024)
    counts = np.bincount(draws(open_weighted(tmp_path / "a.zarr", "w", 12_000, tensors=("id",))) % 3)
    assert counts[0] == 0
    assert counts[1] == pytest.approx(4_000, abs=70)


def test_infinite_weights_are_refused(tmp_path: Path) -> None:
    write_store(tmp_path / "a.zarr", {"w": np.array([1.0, np.inf])})
    with pytest.raises(ParamsError, match="infinite"):
        open_weighted(tmp_path / "a.zarr", "w")
