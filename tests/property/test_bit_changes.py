"""No bit of a store can change without being noticed, by ``verify`` and by any reader."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from outofcore.store.codecs import CodecName
from outofcore.store.seal import ADVICE
from outofcore.store.verify import verify
from tests.property.bit_changes import CODECS, change, small_store


@pytest.mark.parametrize("codec", CODECS)
def test_a_changed_bit_is_found_by_verify_and_by_reading(codec: CodecName, tmp_path: Path) -> None:
    store = small_store(tmp_path / "a.zarr", codec)
    dice = random.Random(codec)
    for _ in range(40):
        changed = change(store, dice)
        assert changed.file in changed.verified or "seal.json" in changed.verified
        assert changed.read.startswith("DamagedStore: ") or "expected store format" in changed.read
        assert ADVICE in changed.verified
        assert ADVICE in changed.read or "expected store format" in changed.read
        assert str(store) in changed.read
        assert "\n" not in changed.read
    assert verify(store).problems == ()
