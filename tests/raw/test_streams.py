"""Streams: what a compressed file asks for is bounded, before it is allocated; blocks, and what comes before damage."""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import os
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
import zstandard

from outofcore.errors import RawInputError
from outofcore.raw import streams
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.streams import read_block
from outofcore.settings.machine import LEAST_WINDOW, load_machine
from tests.raw.packing import tar

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


CONTENT = os.urandom(4096)


def zstd_asking_for(log: int) -> bytes:
    """A frame of one raw block whose header states a window of 2 ** log bytes."""
    block = (len(CONTENT) << 3 | 1).to_bytes(3, "little")
    return zstandard.FRAME_HEADER + bytes([0, (log - 10) << 3]) + block + CONTENT


def xz_asking_for(size: int) -> bytes:
    return lzma.compress(CONTENT, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": size}])


GREEDY = {
    "games.pgn.zst": zstd_asking_for(31),
    "games.pgn.xz": xz_asking_for(1 << 30),
    "games.tar": tar({"x.pgn.zst": zstd_asking_for(31)}),
}
USUAL = {
    "games.pgn.zst": zstd_asking_for(27),
    "games.pgn.xz": xz_asking_for(1 << 27),
    "games.tar": tar({"x.pgn.zst": zstd_asking_for(27)}),
}


def read(path: Path) -> bytes:
    with closing(RawFile(path.name, str(path), path.stat().st_size).members((".pgn",))) as members:
        return b"".join(member.stream.read() for member in members)


@pytest.mark.parametrize("name", GREEDY)
def test_a_window_of_gigabytes_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(GREEDY[name])
    with pytest.raises(RawInputError, match=r"this machine allows.*decompression in machine.yaml") as told:
        read(path)
    assert "\n" not in str(told.value)
    assert not isinstance(told.value, EOFError)  # no damage, which would count as a reject
    monkeypatch.setenv("OUTOFCORE_DECOMPRESSION", "2GiB")
    assert read(path) == CONTENT


@pytest.mark.parametrize("name", USUAL)
def test_128_mib_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(USUAL[name])
    assert read(path) == CONTENT
    (tmp_path / "machine.yaml").write_text("decompression: 64MiB\n")
    with pytest.raises(RawInputError, match="this machine allows"):
        read(path)


def test_settings_of_the_machine_are_read_once_for_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lookups = []
    monkeypatch.setattr(streams, "load_machine", lambda folder: lookups.append(folder) or load_machine(folder))
    for number in range(50):
        path = tmp_path / f"{number}.pgn.xz"
        path.write_bytes(lzma.compress(CONTENT))
        assert read(path) == CONTENT
    assert len(lookups) == 1


def test_what_every_decompressor_supports_is_read_and_the_limit_itself_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "most_window", lambda: 10 << 20)
    for size in (1, LEAST_WINDOW, LEAST_WINDOW + 1, 10 << 20):
        streams.require_window(size, "a.zst")
    with pytest.raises(RawInputError, match=r"^a\.zst: decompressing it takes a window of 10\.5 MB"):
        streams.require_window((10 << 20) + 1, "a.zst")
    monkeypatch.setattr(streams, "most_window", lambda: 0)
    streams.require_window(LEAST_WINDOW, "a.zst")
