"""Batches on a GPU: where they should be, and what they should hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from tests.loading.conftest import identities, write_store

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store") / "a.zarr", [300, 1, 64, 700, 35, 1000, 900])


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
@pytest.mark.parametrize("residency", ["auto", "streamed", "ram"])
def test_batches_are_those_of_the_processor(store: Path, device: str, residency: Any) -> None:
    options: dict[str, Any] = {"batch_size": 96, "seed": 5, "memory": "8MiB", "shuffle": Shuffle(pool_blocks=4)}
    batches = loader(store, device=device, residency=residency, **options)
    for there, here in zip(batches, loader(store, **options), strict=True):
        assert {tensor.device for tensor in there.values()} == {torch.device("cuda:0")}
        assert all(torch.equal(there[name].cpu(), here[name]) for name in here)
    assert sorted(identities(batches)) == list(range(3000))
