"""What a stopped process has left of a shard is checked before it is used."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.codecs import ChunkCodec
from outofcore.store.shards import ShardFile, check_unfinished, index_bytes

CHUNKS = 8


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Path, list[int]]:
    """A shard of which three chunks are written, the second empty; its path and their lengths."""
    codec = ChunkCodec("zstd", 1, "int64")
    shard = ShardFile(tmp_path / "c.0", CHUNKS)
    for chunk in (codec.encode(np.arange(100)), b"", codec.encode(np.arange(100, 200))):
        shard.append(chunk)
    shard.sync()
    shard.close()
    return shard.path, shard.lengths


def test_an_untouched_shard_is_accepted(begun: tuple[Path, list[int]]) -> None:
    path, lengths = begun
    check_unfinished(path, CHUNKS, lengths)
    path.with_name("c.0.partial").rename(path)  # finished after the state that names these lengths
    check_unfinished(path, CHUNKS, lengths)
    check_unfinished(path.with_name("c.1"), CHUNKS, [0, 0])


@pytest.mark.parametrize("chunk", [0, 2])
def test_any_changed_byte_is_noticed(begun: tuple[Path, list[int]], chunk: int) -> None:
    path, lengths = begun
    partial = path.with_name("c.0.partial")
    whole = partial.read_bytes()
    start = index_bytes(CHUNKS) + sum(lengths[:chunk])
    for place in (start, start + lengths[chunk] // 2, start + lengths[chunk] - 1):
        content = bytearray(whole)
        content[place] ^= 1
        partial.write_bytes(content)
        with pytest.raises(DamagedStore, match=rf"c\.0\.partial: chunk {chunk} that a stopped run has left"):
            check_unfinished(path, CHUNKS, lengths)


def test_a_short_or_missing_shard_is_noticed(begun: tuple[Path, list[int]]) -> None:
    path, lengths = begun
    partial = path.with_name("c.0.partial")
    partial.write_bytes(partial.read_bytes()[:-1])
    with pytest.raises(DamagedStore, match=r"chunk 2 .* 1 bytes are missing"):
        check_unfinished(path, CHUNKS, lengths)
    partial.unlink()
    with pytest.raises(DamagedStore, match="is gone"):
        check_unfinished(path, CHUNKS, lengths)


@pytest.mark.parametrize("code", [errno.EIO, errno.EFBIG, errno.ESTALE])
def test_what_the_filesystem_does_not_write_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    shard = ShardFile(tmp_path / "c.0", CHUNKS)
    shard.append(ChunkCodec("zstd", 1, "int64").encode(np.arange(100)))
    monkeypatch.setattr(os, "fsync", refuse)
    told = rf"^{shard.path} cannot be written: {os.strerror(code)}; [^\n]+, and run again$"
    with pytest.raises(StoreError, match=told):
        shard.finish()
    shard.close()


def test_a_full_disk_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    shard = ShardFile(tmp_path / "c.0", CHUNKS)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        shard.sync()
    shard.close()
