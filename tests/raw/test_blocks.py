"""Blocks of a stream, and what comes before damage."""

from __future__ import annotations

import errno
import gzip
import io
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from outofcore.raw.blocks import read_block
from outofcore.raw.damage import DamagedInput

NOISE = np.random.default_rng(0).bytes(300_000)


class Failing(io.RawIOBase):
    """Bytes, and then an error."""

    def __init__(self, content: bytes, error: Exception) -> None:
        self._content, self._error = io.BytesIO(content), error

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        count = self._content.readinto(target)
        if not count:
            raise self._error
        return count


def stream_of(content: bytes, error: Exception) -> BinaryIO:
    return cast("BinaryIO", Failing(content, error))


@pytest.mark.parametrize("size", [1, 65_536, 100_000, 300_000, 1 << 20])
def test_blocks_are_full_but_the_last(size: int) -> None:
    stream, blocks = io.BytesIO(NOISE), []
    while True:
        block, damage = read_block(stream, size)
        assert damage is None
        if not block:
            break
        blocks.append(block)
    assert b"".join(blocks) == NOISE
    assert {len(block) for block in blocks[:-1]} <= {size}


def test_a_stream_that_gives_less_than_asked_fills_a_block() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    assert read_block(Slow(NOISE), 1000) == (NOISE[:1000], None)


@pytest.mark.parametrize("error", [EOFError("cut short"), OSError("no gzip"), DamagedInput("a bomb", "not_a_file")])
def test_what_comes_before_damage_is_returned_with_it(error: Exception) -> None:
    block, damage = read_block(stream_of(NOISE, error), 1 << 20)
    assert block == NOISE
    assert isinstance(damage, DamagedInput)
    assert str(damage) == str(error)
    assert damage.reason == getattr(error, "reason", "damaged_file")


def test_damage_of_a_compressed_file_costs_little_of_what_can_be_read() -> None:
    packed = gzip.compress(NOISE)
    block, damage = read_block(gzip.GzipFile(fileobj=io.BytesIO(packed[: len(packed) // 2])), 1 << 20)
    assert damage is not None
    assert NOISE.startswith(block)
    assert len(block) > len(NOISE) // 2 - (1 << 17)


def test_an_error_of_the_disk_is_not_damage_of_the_file() -> None:
    with pytest.raises(OSError, match="Input/output error"):
        read_block(stream_of(NOISE, OSError(errno.EIO, "Input/output error")), 1 << 20)
