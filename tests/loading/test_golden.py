"""Orders of samples as they have always been: a saved state must lead to the same samples in every later version."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.loading.loader import loader
from tests.loading.conftest import MakeStore, identities

ENTRIES = {
    "group": np.arange(60) // 10,
    "first": np.arange(60) * 50,
    "count": np.full(60, 25),
    "step": np.full(60, 2),
    "groups": 3,
    "entries": 2,
    "rows": 4,
}
ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    "rows": ({}, "ca3e356317d7323ee8f69865869fae4442d5785f0e30644b1f026e2a121a31e6"),
    "rows, another seed": ({"seed": 6}, "602df759e94f2d42066b800ac352a0151fb431c18f320889ceeb5cb519bcd73c"),
    "rows, wider blocks": (
        {"block_rows": 256, "pool_blocks": 2},
        "9571087e04207fb726a62876c23fb749daebe19f5cbe612dd6cdef6c56d6fcb2",
    ),
    "rows, full": ({"shuffle": "full"}, "f0883850d3a85088c017f4197f5b6591eea4b88f645bcc5f14f2fdebf0084bd3"),
    "rows, as stored": ({"shuffle": False}, "06d1fc2c13636946f90d158e668b17f7bc94d02670108b063b2ba1fc0a36179f"),
    "windows, packed": (
        {"window": {"length": 10, "stride": 7}, "phase": True},
        "b6c9b05003b89d85b87085886c989d5ebe0bcf4d3a983ef9876741a5197917b0",
    ),
    "windows, inside": (
        {"window": {"length": 33, "stride": 4, "mode": "never"}, "phase": True},
        "935168694e6efd09cb9c1a7c67c0c628ce0025182b38958624a5ac6e9cf6b67f",
    ),
    "windows, reaching": (
        {"window": {"length": 70, "mode": "reach"}},
        "a9699e8738367dd8cdc975dfaa746e5d226ccf4da14cc1c123c8ea09682344a7",
    ),
    "weighted": (
        {"weighted": {"column": "half", "samples": 2500}},
        "04fc391a4ac05d7e8d7bb42d8b72aa5ce34f25ab03963a44be6fa72c7c8a38cd",
    ),
    "balanced": ({"balanced": ENTRIES}, "f51eb0a209f03112fd59e20194302485ea55696e472fcb30f79c7dc38d6e9dfa"),
    "parts by size": ({"part": ("a", "b")}, "63df45e6761ee6e4aed2636e2833f08c9c5b374e5b1768adca29091dda568ace"),
    "parts in turn": (
        {"part": ("a", "b"), "turns": "turn"},
        "0f04e6e2eb9741e7da54b1318a93e66b13b0d3a8f19f0d5617036460a9c7a94b",
    ),
    "rank 1 of 4": ({"rank": 1, "world_size": 4}, "6232786b91f8128ececc04d554c842d09f721670b6848a550874f18753ab07c0"),
    "padded": ({"last": "pad"}, "b8d635cc55fe5f8fc682de43f21a26bd925a34c56e61ba7e90878cf2f52a298a"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_what_it_was(make_store: MakeStore, name: str) -> None:
    options, expected = ORDERS[name]
    store = make_store(parts=("a", "b")) if "part" in options else make_store()
    batches = loader(store, **{"batch_size": 96, "seed": 5, "memory": "8MiB", "pool_blocks": 4, **options})
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
