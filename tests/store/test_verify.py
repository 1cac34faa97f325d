"""The full check says damaged where reading does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outofcore.errors import DamagedStore
from outofcore.store import verify as module
from outofcore.store.codecs import ChunkCodec
from outofcore.store.reader import open_store
from outofcore.store.schema import Layout
from outofcore.store.verify import verify
from tests.store.forging import forge_shard

MakeStore = Callable[..., Path]


@pytest.mark.parametrize("together", [1, 300, 4 << 20])
@pytest.mark.parametrize("damaged", [0, 2])
def test_a_chunk_that_was_sealed_damaged_is_found(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, together: int, damaged: int
) -> None:
    monkeypatch.setattr(module, "TOGETHER", together)
    root = make_store(batches=[[256]], layout=Layout(codec="none", chunk_rows=64, shard_rows=256))
    assert not verify(root).problems
    codec = ChunkCodec("none", 0, "uint16")
    chunks = [codec.encode(np.arange(64 * number, 64 * number + 64, dtype=np.uint16)) for number in range(4)]
    chunks[damaged] = bytes([chunks[damaged][0] ^ 1]) + chunks[damaged][1:]
    forge_shard(root, "train/move/c.0", 4, chunks)  # a resumed conversion could do that: digest and seal are right
    with pytest.raises(DamagedStore) as read:
        open_store(root).rows("train")["move"].read()
    assert verify(root).problems == (str(read.value),)
    assert f"shard train/move/c.0, chunk {damaged}" in str(read.value)


def test_every_file_that_is_wrong_is_named(make_store: MakeStore) -> None:
    root = make_store()
    (root / "train/move/c.0").unlink()
    (root / "train/move/c.1").write_bytes(b"short")
    content = bytearray((root / "train/boards/c.0.0").read_bytes())
    content[-9] ^= 1
    (root / "train/boards/c.0.0").write_bytes(content)
    (root / "train/more").write_text("")
    (root / "train/nothing").symlink_to("nowhere")
    problems = verify(root).problems
    assert [problem.split(" ")[1] for problem in problems] == [
        "train/boards/c.0.0",
        "train/more",
        "train/move/c.0",
        "train/move/c.1",
    ]


def test_progress_counts_every_byte(make_store: MakeStore) -> None:
    root, seen = make_store(), []
    assert verify(root, seen.append).bytes == sum(seen) == sum(size for size, _ in open_store(root).seal.files.values())
