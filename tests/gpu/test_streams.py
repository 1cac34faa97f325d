"""Several loaders at once on a busy GPU: nothing is used before it is written, or reused before it was read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from tests.loading.conftest import write_store

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")

LOADERS = 4
DEEP = 8  # batches that a consumer has queued and not read yet
OPTIONS: dict[str, Any] = {"batch_size": 64, "memory": "64MiB", "shuffle": Shuffle(pool_blocks=16), "threads": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store") / "a.zarr", [5000] * 13)


@pytest.mark.parametrize("residency", ["streamed", "ram"])
@pytest.mark.parametrize("window", [None, {"length": 10, "stride": 7}], ids=["rows", "windows"])
def test_batches_of_several_loaders_are_those_of_the_processor(store: Path, residency: Any, window: Any) -> None:
    def consume(number: int) -> int:
        """Two epochs, each batch dropped as soon as work on it is queued behind other work."""
        options = OPTIONS | {"seed": number, "window": window}
        stream, heavy, count = torch.cuda.Stream(), torch.rand(2048, 2048, device="cuda"), 0
        with torch.cuda.stream(stream), loader(store, device="cuda", residency=residency, **options) as there:
            here = loader(store, **options)
            for _ in range(2):
                waiting = []
                for batch, expected in zip(there, here, strict=True):
                    heavy = torch.nn.functional.normalize(heavy @ heavy)
                    waiting.append(({name: tensor.clone() for name, tensor in batch.items()}, expected))
                    del batch
                    if len(waiting) == DEEP:
                        check(waiting)
                    count += 1
                check(waiting)
        return count

    def check(waiting: list[Any]) -> None:
        for copies, expected in waiting:
            assert all(torch.equal(copies[name].cpu(), expected[name]) for name in expected)
        waiting.clear()

    with ThreadPoolExecutor(LOADERS) as pool:
        counts = list(pool.map(consume, range(LOADERS)))
    assert sum(counts) == LOADERS * 2 * len(loader(store, **OPTIONS | {"window": window}))
    torch.cuda.synchronize()
