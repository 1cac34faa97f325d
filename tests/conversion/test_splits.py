"""Splits follow content, keep their shares, and change with the seed."""

from __future__ import annotations

import numpy as np

from outofcore.conversion.splits import SPLITS, assign
from outofcore.domains.sections import SplitSection


def test_shares_are_kept_and_equal_keys_go_together() -> None:
    keys = np.random.default_rng(1).integers(0, 256, (20_000, 16)).astype(np.uint8)
    keys[10_000:] = keys[:10_000]
    split = assign(keys, SplitSection(val=0.2, test=0.1, seed=3))
    assert (split[:10_000] == split[10_000:]).all()
    shares = np.bincount(split, minlength=3) / len(split)
    np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.015)
    assert SPLITS == ("train", "val", "test")


def test_another_seed_chooses_others() -> None:
    keys = np.random.default_rng(1).integers(0, 256, (20_000, 16)).astype(np.uint8)
    first = assign(keys, SplitSection(val=0.5, test=0, seed=0)) == 1
    second = assign(keys, SplitSection(val=0.5, test=0, seed=1)) == 1
    assert abs(np.mean(first & second) - 0.25) < 0.015


def test_the_split_of_a_key_is_settled_for_ever() -> None:
    """Stores of every release agree. The first eight bytes decide, the most significant first, with the seed."""
    section = SplitSection(val=0.3, test=0.3, seed=7)
    known = ["test", "test", "val", "val", "train", "train", "test", "test"]
    keys = np.arange(8 * 16, dtype=np.uint8).reshape(8, 16)
    assert [SPLITS[split] for split in assign(keys, section)] == known
    others = keys.copy()
    others[:, 8:] = 255 - others[:, 8:]
    assert (assign(others, section) == assign(keys, section)).all()
    for byte in range(8):
        many = np.tile(keys, (32, 1))
        many[:, byte] = np.arange(len(many))
        assert len(set(assign(many, section).tolist())) == 3, f"byte {byte} of the key does not count"
