"""Threads read and make batches ahead of the consumer: how far, and what happens to an error of theirs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from tests.loading.conftest import ROWS, MakeStore, Plain, flat, identities


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_in_its_place_and_again_after_a_resume(make_store: MakeStore, threads: int) -> None:
    options: dict[str, Any] = {
        "batch_size": 50,
        "residency": "streamed",
        "memory": "400KB",
        "shuffle": Shuffle(pool_blocks=2),
        "threads": threads,
    }
    expected = identities(loader(make_store(), tensors=("id", "half"), **options))

    class Failing(Plain):
        def __call__(self, rows: Mapping[str, Any], draws: Any) -> dict[str, torch.Tensor]:
            if expected[2000] in rows["id"]:
                message = "no such row"
                raise KeyError(message)
            return super().__call__(rows, draws)

    batches = loader(make_store(), tensors=Failing(), **options)
    received: list[list[int]] = []
    for _ in range(2):
        with pytest.raises(KeyError, match="no such row"):
            received.extend(batch["id"].tolist() for batch in batches)
        batches.load_state_dict(batches.state_dict())
    assert 0 < len(flat(received)) <= 2000  # those of its group may be missing
    assert flat(received) == expected[: len(flat(received))]


def test_batches_are_made_no_further_ahead_than_the_budget_allows(make_store: MakeStore) -> None:
    samples = 0

    class Counting(Plain):
        def __call__(self, rows: Mapping[str, Any], draws: Any) -> dict[str, torch.Tensor]:
            nonlocal samples
            samples += len(rows["id"])
            return super().__call__(rows, draws)

    batches = loader(
        make_store(), batch_size=100, memory="400KB", shuffle=Shuffle(pool_blocks=2), threads=2, tensors=Counting()
    )
    most = 0
    for number, _ in enumerate(batches):
        if number < 10:
            time.sleep(0.02)
        most = max(most, samples - 100 * number)
    assert samples == ROWS + 1  # the first sample is made to know how large it is
    assert most < 2500


@pytest.mark.parametrize("batch_size", [16, 1000])
def test_one_thread_is_enough_where_batches_span_pools(make_store: MakeStore, batch_size: int) -> None:
    options: dict[str, Any] = {
        "memory": "1MiB",
        "tensors": ("id",),
        "shuffle": Shuffle(pool_blocks=1),
        "residency": "streamed",
    }
    one = loader(make_store(), batch_size=batch_size, threads=1, **options)
    assert identities(one) == identities(loader(make_store(), batch_size=100, threads=8, **options))
