"""A way of sampling that states its order and nothing else is read exactly, by any ranks, in what memory it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from outofcore.errors import BudgetError
from outofcore.loading.loader import loader
from outofcore.order.sampling import Pool, Sampled, Sampler, Sampling
from tests.loading.conftest import ROWS, MakeStore, flat, identities

SIZE = 250  # samples per pool


class Bootstrap(Sampler):
    """Rows drawn with replacement."""

    def __init__(self, split: Sampled, seed: int) -> None:
        self._rows, self._seed = split.windows.samples, seed

    @property
    def positions(self) -> int:
        return self._rows

    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        for begin in range(start // SIZE * SIZE, self._rows, SIZE):
            end = min(begin + SIZE, self._rows)
            yield Pool(begin, end, partial(self._draw, epoch, begin, end))

    def describe(self) -> dict[str, Any]:
        return {"bootstrap": self._rows}

    def _draw(self, epoch: int, begin: int, end: int, rank: int, world: int) -> npt.NDArray[np.int64]:
        return drawn(self._seed, epoch, self._rows)[begin:end][rank::world]


def drawn(seed: int, epoch: int, rows: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng((seed, epoch)).integers(0, rows, rows)


@dataclass(frozen=True, kw_only=True)
class Bootstrapped(Sampling):
    """What a user passes to the loader."""

    def sampler(self, split: Sampled, seed: int) -> Bootstrap:
        return Bootstrap(split, seed)


@pytest.mark.parametrize("residency", ["ram", "streamed", "hybrid"])
@pytest.mark.parametrize("world", [1, 3])
def test_samples_are_those_that_it_states(make_store: MakeStore, residency: Any, world: int) -> None:
    ranks = []
    for rank in range(world):
        batches = loader(
            make_store(),
            batch_size=99,
            seed=5,
            shuffle=Bootstrapped(),
            tensors=("id",),
            residency=residency,
            rank=rank,
            world_size=world,
        )
        batches.set_epoch(2)
        received = flat(batch["id"].tolist() for batch in islice(batches, 7))
        batches.load_state_dict(batches.state_dict())
        ranks.append(received + identities(batches))
    expected = drawn(5, 2, ROWS)
    for rank, own in enumerate(ranks):
        assert own == expected[rank::world].tolist()


def test_a_budget_that_does_not_hold_the_split_is_refused(make_store: MakeStore) -> None:
    with pytest.raises(BudgetError, match="the least that works is"):
        loader(make_store(), batch_size=99, shuffle=Bootstrapped(), tensors=("id",), memory="20KiB")
