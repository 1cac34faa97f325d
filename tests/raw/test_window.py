"""What a compressed file asks for is bounded, before it is allocated."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from outofcore.errors import RawInputError
from outofcore.raw import window
from outofcore.raw.files import RawFile
from outofcore.settings.machine import LEAST_WINDOW, load_machine

CONTENT = os.urandom(4096)


def zstd_asking_for(log: int) -> bytes:
    """A frame of one raw block whose header states a window of 2 ** log bytes."""
    block = (len(CONTENT) << 3 | 1).to_bytes(3, "little")
    return zstandard.FRAME_HEADER + bytes([0, (log - 10) << 3]) + block + CONTENT


def xz_asking_for(size: int) -> bytes:
    return lzma.compress(CONTENT, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": size}])


def tar_zst(log: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("x.pgn.zst")
        entry.size = len(zstd_asking_for(log))
        archive.addfile(entry, io.BytesIO(zstd_asking_for(log)))
    return buffer.getvalue()


GREEDY = {
    "games.pgn.zst": zstd_asking_for(31),
    "games.pgn.xz": xz_asking_for(1 << 30),
    "games.tar": tar_zst(31),
}
USUAL = {
    "games.pgn.zst": zstd_asking_for(27),
    "games.pgn.xz": xz_asking_for(1 << 27),
    "games.tar": tar_zst(27),
}


def read(path: Path) -> bytes:
    with closing(RawFile(path.name, path, path.stat().st_size).members((".pgn",))) as members:
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
    monkeypatch.setattr(window, "load_machine", lambda folder: lookups.append(folder) or load_machine(folder))
    for number in range(50):
        path = tmp_path / f"{number}.pgn.xz"
        path.write_bytes(lzma.compress(CONTENT))
        assert read(path) == CONTENT
    assert len(lookups) == 1


def test_what_every_decompressor_supports_is_read_and_the_limit_itself_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window, "most_window", lambda: 10 << 20)
    for size in (1, LEAST_WINDOW, LEAST_WINDOW + 1, 10 << 20):
        window.require_window(size, "a.zst")
    with pytest.raises(RawInputError, match=r"^a\.zst: decompressing it takes a window of 10\.5 MB"):
        window.require_window((10 << 20) + 1, "a.zst")
    monkeypatch.setattr(window, "most_window", lambda: 0)
    window.require_window(LEAST_WINDOW, "a.zst")
