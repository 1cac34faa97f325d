"""The page that defines the order of samples is enough to reproduce those of a loader."""

from __future__ import annotations

from itertools import islice
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from outofcore import loader
from outofcore.order.balanced import Balanced
from outofcore.order.plain import Shuffle
from outofcore.order.weighted import Weighted
from tests.loading.conftest import write_store
from tests.property.order_oracle import page

Rows = npt.NDArray[np.int64]

SEED, EPOCHS, BATCH, CHUNK, POOL_BLOCKS, LANES = 5, 2, 96, 64, 4, 16
LENGTHS = {"a": [300, 1, 64, 700, 35, 1000, 900], "b": [0, 129, 500, 33, 34]}
FIRST = {"a": 0, "b": 10_000}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("stores")
    return [write_store(folder / f"{name}.zarr", LENGTHS[name], first=FIRST[name]) for name in LENGTHS]


def opened(data: Any, **options: Any) -> Any:
    """The samples of a loader as rows with the numbers that they hold."""
    pools = {"shuffle": Shuffle(pool_blocks=POOL_BLOCKS)}
    return loader(data, "train", BATCH, seed=SEED, **{"tensors": ("id",), **pools, **options})


def labels(lengths: list[int]) -> list[int]:
    return [number * 10 // len(lengths) for number in range(len(lengths))]


class Split:
    """Stores as the page sees them: where rows begin, sequences, and the number that each row holds."""

    def __init__(self, names: str = "ab", selected: Any = None) -> None:
        self.origins, self.sequences, self.held = list[int](), list[list[tuple[int, int]]](), dict[int, int]()
        self.label: dict[int, int] = {}  # by the row
        self.selected: list[tuple[int, int]] = []  # runs
        origin = 0
        for name in names:
            ends = np.cumsum(LENGTHS[name]).tolist()
            self.origins.append(origin)
            self.sequences.append(
                [(origin + end - length, length) for end, length in zip(ends, LENGTHS[name], strict=True)]
            )
            self.held.update((origin + row, FIRST[name] + row) for row in range(ends[-1]))
            joined = False
            for label, (first, length) in zip(labels(LENGTHS[name]), self.sequences[-1], strict=True):
                self.label.update(dict.fromkeys(range(first, first + length), label))
                chosen = selected is not None and selected(label)
                if chosen and joined:
                    self.selected[-1] = self.selected[-1][0], self.selected[-1][1] + length
                elif chosen:
                    self.selected.append((first, length))
                joined = chosen
            origin += -(-ends[-1] // CHUNK) * CHUNK
        self.runs = [
            (begin, sum(length for _, length in own)) for begin, own in zip(self.origins, self.sequences, strict=True)
        ]

    def values(self, rows: list[int], n: int, mode: str | None) -> Rows:
        """What the windows hold that begin, or end, at these rows."""
        windows = []
        for row in rows:
            origin = max(origin for origin in self.origins if origin <= row)
            first = row - n + 1 if mode == "reach" else row
            windows.append([self.held[max(place, origin)] for place in range(first, first + n)])
        return np.array(windows, np.int64)


def cut(order: list[Rows], last: str, ranks: int, rank: int) -> list[list[Any]]:
    """A rank's part of the batches of an epoch, from the values at the positions of its pools."""
    values, positions = np.concatenate(order), sum(map(len, order))
    batches = page.spans(positions, BATCH, last, ranks)
    last_pool = len(order[-1])
    again = last_pool // gcd(ranks, LANES) * gcd(ranks, LANES)
    start = positions - last_pool
    return [
        [
            values[g if g < positions else start + (g - start) % again].tolist()
            for g in range(low, high)
            if g % ranks == rank
        ]
        for low, high in batches
    ]


WINDOWS: dict[str, tuple[dict[str, Any], bool]] = {
    "rows": ({}, False),
    "packed, moving": ({"n": 10, "s": 7, "mode": "pack"}, True),
    "inside of sequences, moving": ({"n": 33, "s": 4, "mode": "never"}, True),
    "inside of sequences": ({"n": 33, "s": 4, "mode": "never"}, False),
    "reaching back": ({"n": 70, "mode": "reach"}, False),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "wider blocks": {"block_chunks": 3},
    "of three ranks, padded": {"ranks": 3, "last": "pad"},
    "of four ranks, dropped": {"ranks": 4, "last": "drop"},
    "selected": {"selected": True},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_shuffled(stores: list[Path], windows: str, layout: str) -> None:
    (shape, phase), options = WINDOWS[windows], dict(LAYOUTS[layout])
    selected = options.pop("selected", False)
    split = Split(selected=(lambda label: label in (1, 2, 4, 5, 6, 8)) if selected else None)
    n, mode = shape.get("n", 1), shape.get("mode")
    runs = split.selected if selected else split.runs
    if mode == "never":
        inside = [run for sequences in split.sequences for run in sequences]
        runs = [run for run in inside if not selected or split.label.get(run[0]) in (1, 2, 4, 5, 6, 8)]
    ranks, last = options.pop("ranks", 1), options.pop("last", "keep")
    blocks = options.pop("block_chunks", 4 if shape or selected else 1)
    orders = []
    for epoch in range(EPOCHS):
        shift = page.phase_shift(shape["s"], SEED, epoch) if phase else 0
        begins = page.begin_rows(runs, **shape, phase=phase)
        moved = page.begin_rows(runs, **shape, phase=phase, shift=shift)
        pools = page.shuffled_pools(begins, CHUNK, blocks, POOL_BLOCKS, LANES, SEED, epoch)
        orders.append([split.values([moved[sample] for sample in pool], n, mode) for pool in pools])
    window = {"length": n, "stride": shape.get("s", 1), "mode": mode, "phase": phase} if shape else None
    for rank in range(ranks):
        batches = opened(
            stores,
            window=window,
            shuffle=Shuffle(pool_blocks=POOL_BLOCKS, block_rows=blocks * CHUNK),
            where="label in (1, 2, 4, 5, 6, 8)" if selected else None,
            last=last,
            rank=rank,
            world_size=ranks,
        )
        for order in orders:
            got = [batch["id"].reshape(-1, n).tolist() for batch in batches]
            assert got == cut(order, last, ranks, rank)


@pytest.mark.parametrize("shuffle", [False, Shuffle(full=True)], ids=["as stored", "fully"])
def test_not_in_blocks(stores: list[Path], shuffle: Any) -> None:
    split = Split()
    begins = page.begin_rows(split.runs)
    batches = opened(stores, shuffle=shuffle)
    for epoch in range(EPOCHS):
        places = range(len(begins))
        if shuffle:
            places = [page.fully_shuffled(place, len(begins), SEED, epoch) for place in places]
        got = [row for batch in batches for row in batch["id"].tolist()]
        assert got == [split.held[begins[place]] for place in places]


def test_best_fit(stores: list[Path]) -> None:
    n, split = 40, Split()
    samples = page.best_fit(list(zip(split.origins, split.sequences, strict=True)), n)
    begins = [pieces[0][0] for pieces in samples]
    batches = opened(stores, window={"length": n, "stride": n - 1, "mode": "best_fit"})
    for epoch in range(EPOCHS):
        expected = []
        for pool in page.shuffled_pools(begins, CHUNK, 4, POOL_BLOCKS, LANES, SEED, epoch):
            for sample in pool:
                rows = [row for first, length in samples[sample] for row in range(first, first + length)]
                expected.append([split.held[row] for row in rows + rows[-1:] * (n - len(rows))])
        assert [window for batch in batches for window in batch["id"].tolist()] == expected


@pytest.mark.parametrize("column", ["half", "label"])
def test_weighted(stores: list[Path], column: str) -> None:
    split, draws = Split(), 5000
    begins = page.begin_rows(split.runs)
    values = [split.held[row] % 65521 if column == "half" else split.label[row] for row in begins]
    weights = page.integer_weights(values)
    batches = opened(stores, shuffle=Weighted(column=column, samples=draws, pool_blocks=POOL_BLOCKS))
    for epoch in range(EPOCHS):
        pools = page.weighted_pools(weights, draws, begins, CHUNK, 1, POOL_BLOCKS, LANES, SEED, epoch)
        expected = [split.held[begins[sample]] for pool in pools for sample in pool]
        assert [row for batch in batches for row in batch["id"].tolist()] == expected


@pytest.mark.parametrize("entries", [2, 7])
def test_balanced(stores: list[Path], entries: int) -> None:
    counts = np.arange(260) % 23 + 1
    table = {"group": np.arange(260) % 61 % 7, "first": np.arange(260) * 11, "count": counts, "step": np.full(260, 2)}
    table["group"][:3] = 9  # with fewer entries than are drawn
    shape = {"groups": 5, "entries": entries, "rows": 4, "batches": 60}
    batches = opened(stores[0], shuffle=Balanced(**table, **shape))
    for epoch in range(EPOCHS):
        lists = {name: column.tolist() for name, column in table.items()}
        expected = list(page.balanced_batches(**lists, **shape, seed=SEED, epoch=epoch))
        assert [batch["id"].tolist() for batch in batches] == expected


@pytest.mark.parametrize("turns", ["size", "turn"])
def test_parts_and_steps_left_out(tmp_path: Path, turns: Any) -> None:
    store = write_store(tmp_path / "parts.zarr", [500, 300], parts=("x", "y", "z"))
    batches = opened(store, shuffle=Shuffle(pool_blocks=POOL_BLOCKS, turns=turns), skip=[3, (11, 12)])
    steps: list[tuple[int, list[int]]] = []
    for epoch in range(EPOCHS):
        pools = page.shuffled_pools(list(range(800)), CHUNK, 1, POOL_BLOCKS, LANES, SEED, epoch)
        order = [row for pool in pools for row in pool]
        cuts = [order[low:high] for low, high in page.spans(800, BATCH, "keep")]
        own = {part: iter(cuts) for part in range(3)}
        steps += [(part, next(own[part])) for part in page.turns_of_parts([len(cuts)] * 3, SEED, epoch, turns)]
    expected = [step for number, step in enumerate(steps, 1) if number not in (3, 11, 12)]
    got = [(int(batch["part"][0]), batch["id"].tolist()) for _ in range(EPOCHS) for batch in batches]
    assert got == expected


def test_random_words(stores: list[Path]) -> None:
    class Drawn:
        fields = ("id",)

        def __call__(self, _: Any, draws: Any) -> Any:
            return {"draw": torch.from_numpy(draws.view(np.int64))}

    batches = opened(stores, tensors=Drawn(), shuffle=True)
    got = np.concatenate([batch["draw"].numpy() for batch in islice(batches, 3)]).view(np.uint64)
    assert got.tolist() == [page.random_word(g, page.key(SEED, 0, 32, 0)) for g in range(3 * BATCH)]
