"""Orders of samples as version 2 defines them: a saved state must lead to the same samples in every later release."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.loading.loader import loader
from outofcore.order.balanced import Balanced
from outofcore.order.plain import InOrder, Shuffle
from outofcore.order.weighted import Weighted
from tests.loading.conftest import MakeStore, identities

ENTRIES = Balanced(
    np.arange(60) // 10, np.arange(60) * 50, np.full(60, 25), np.full(60, 2), groups=3, entries=2, rows=4
)
ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    "rows": ({}, "13cedbb4cec944a60ca24daadd44f8dcc8fab9ce25669c96a6de916e586b7056"),
    "rows, another seed": ({"seed": 6}, "3be616be3cdaed203157c4e1bd161e957a2813f32ab1d1e1671273209ad8bc61"),
    "rows, wider blocks": (
        {"shuffle": Shuffle(block_rows=256, pool_blocks=2)},
        "a5628c30acb1aa3c7c875a503ede5be869fdb405a6ad2a4878103e80fcbf4bf4",
    ),
    "rows, full": (
        {"shuffle": Shuffle(full=True, pool_blocks=4)},
        "f0883850d3a85088c017f4197f5b6591eea4b88f645bcc5f14f2fdebf0084bd3",
    ),
    "rows, as stored": (
        {"shuffle": InOrder(pool_blocks=4)},
        "06d1fc2c13636946f90d158e668b17f7bc94d02670108b063b2ba1fc0a36179f",
    ),
    "windows, packed": (
        {"window": {"length": 10, "stride": 7, "phase": True}},
        "a0ab6d613cd5b75fe24f0cfa2bbcf0e7567063029a45a4053b7fad6ec4be1ca9",
    ),
    "windows, inside": (
        {"window": {"length": 33, "stride": 4, "mode": "never", "phase": True}},
        "caf60cd858b886a67f7e47bf3a3a01a6fa1bac6141dd251883ae939c148a3b29",
    ),
    "windows, reaching": (
        {"window": {"length": 70, "mode": "reach"}},
        "1c8d6ac91163fe8e0deb5aff9c8ff011a7169a10dd45672aec81d28173af83fa",
    ),
    "weighted": (
        {"shuffle": Weighted("half", 2500, pool_blocks=4)},
        "c378ed47cb17a52123a3d8b546e6c6e45d63be7e55d72ea671c11f33f33d1487",
    ),
    "balanced": ({"shuffle": ENTRIES}, "f51eb0a209f03112fd59e20194302485ea55696e472fcb30f79c7dc38d6e9dfa"),
    "parts by size": ({"part": ("a", "b")}, "f97d0fbd4739db17c0333adbc039e2b7fab971c2bb068bf53b9f043fe7debd1e"),
    "parts in turn": (
        {"part": ("a", "b"), "shuffle": Shuffle(pool_blocks=4, turns="turn")},
        "a4633c9a90c824e06bba0c8491ca0a5e0404b84453466db89a7979015d3e78c9",
    ),
    "rank 1 of 4": ({"rank": 1, "world_size": 4}, "834efa2808b7113d86e28ee240effef6ff1c978c2027d7c60e5695aff5f7791b"),
    "padded": ({"last": "pad"}, "2e6f7f01125eb7a9119875db7b74512b96bb570e1df14ab4f72b0e28cf29d416"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_what_it_was(make_store: MakeStore, name: str) -> None:
    options, expected = ORDERS[name]
    store = make_store(parts=("a", "b")) if "part" in options else make_store()
    batches = loader(
        store, **{"batch_size": 96, "seed": 5, "memory": "8MiB", "shuffle": Shuffle(pool_blocks=4), **options}
    )
    orders = np.array([identities(batches) for _ in range(2)], "<i8")
    assert hashlib.sha256(orders.tobytes()).hexdigest() == expected


def test_random_words_are_what_they_were(make_store: MakeStore) -> None:
    class Drawn:
        fields = ("id",)

        def __call__(self, rows: Any, draws: Any) -> Any:
            return {"id": torch.from_numpy(rows["id"]), "draw": torch.from_numpy(draws.view(np.int64))}

    batches = loader(make_store(), batch_size=96, seed=5, memory="8MiB", tensors=Drawn())
    words = np.concatenate([batch["draw"].numpy() for _ in range(2) for batch in batches]).astype("<i8")
    assert (
        hashlib.sha256(words.tobytes()).hexdigest()
        == "3d4365d418889b0cdb7da3b5fd51a67afb1ec219863cc546fffd05d3239b64dd"
    )
