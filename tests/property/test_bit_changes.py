"""No bit of a store can change without being noticed, by ``verify`` and by any reader."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import get_args

import pytest

from outofcore.errors import StoreError
from outofcore.store.codecs import CodecName
from outofcore.store.reader import open_store
from outofcore.store.seal import ADVICE
from outofcore.store.verify import verify
from tests.loading.conftest import write_store

CHANGES = int(os.environ.get("OUTOFCORE_TRIES", "40"))


def flip(path: Path, place: int, bit: int) -> None:
    """Change a bit of a file."""
    with path.open("r+b") as stream:
        stream.seek(place)
        (value,) = stream.read(1)
        stream.seek(place)
        stream.write(bytes([value ^ 1 << bit]))


def read_all(path: Path) -> str:
    """Open a store and read every chunk, as a loader does; the error, if there is one."""
    try:
        store = open_store(path)
        store.sources.read()
        for split in store.splits:
            store.rows(split).read()
            store.sequences(split).read()
    except StoreError as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_a_changed_bit_is_found_by_verify_and_by_reading(codec: CodecName, tmp_path: Path) -> None:
    """Of files chosen by their size: several shards, with fields that compress and fields that do not."""
    store, dice = write_store(tmp_path / "a.zarr", [50] * 60, codec=codec, shard_rows=512), random.Random(codec)
    for _ in range(CHANGES):
        files = [path for path in sorted(store.rglob("*")) if path.is_file()]
        (path,) = dice.choices(files, [path.stat().st_size for path in files])
        place, bit = dice.randrange(path.stat().st_size), dice.randrange(8)
        flip(path, place, bit)
        verified, read = "; ".join(verify(store).problems), read_all(store)
        flip(path, place, bit)
        assert path.relative_to(store).as_posix() in verified or "seal.json" in verified
        assert read.startswith("DamagedStore: ") or "expected store format" in read
        assert ADVICE in verified
        assert ADVICE in read or "expected store format" in read
        assert str(store) in read
        assert "\n" not in read
    assert verify(store).problems == ()
