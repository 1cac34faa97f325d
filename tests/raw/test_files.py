"""Raw files are found in one order everywhere, and read alike through every compression and archive."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from outofcore.errors import RawInputError
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile, find_files

TEXT = b'[Event "x"]\n\n1. e4 e5 1-0\n' * 1000
PACK = {
    "": lambda data: data,
    ".zst": zstandard.ZstdCompressor().compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
}


def tar_bytes(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def read_all(path: Path) -> dict[str, bytes]:
    file = RawFile(path.name, path, path.stat().st_size)
    return {member.name: member.stream.read() for member in file.members((".pgn",))}


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_file_reads_as_the_plain_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"games.pgn{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    assert read_all(path) == {path.name: TEXT}


def test_frames_and_members_one_after_another_are_read_to_the_end(tmp_path: Path) -> None:
    for suffix in (".zst", ".gz", ".bz2"):
        path = tmp_path / f"games.pgn{suffix}"
        path.write_bytes(PACK[suffix](TEXT) + PACK[suffix](b"more"))
        assert read_all(path) == {path.name: TEXT + b"more"}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tar.zst", "a.zip"])
def test_archives_are_streamed_in_their_own_order(tmp_path: Path, name: str) -> None:
    members = {"z.pgn": TEXT, "d/10.pgn.zst": PACK[".zst"](b"ten"), "notes.txt": b"no", "d/2.pgn": b"two"}
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
    else:
        pack = PACK["." + name.rsplit(".", 1)[1]] if name.count(".") == 2 else PACK[".gz" if "tgz" in name else ""]
        path.write_bytes(pack(tar_bytes(members)))
    expected = {f"{name}/z.pgn": TEXT, f"{name}/d/10.pgn.zst": b"ten", f"{name}/d/2.pgn": b"two"}
    found = read_all(path)
    assert found == expected
    assert list(found) == list(expected)


def test_the_position_in_the_raw_file_ends_at_its_size(tmp_path: Path) -> None:
    path = tmp_path / "games.pgn.zst"
    path.write_bytes(PACK[".zst"](TEXT))
    for member in RawFile(path.name, path, path.stat().st_size).members((".pgn",)):
        assert member.raw_position() == 0
        member.stream.read()
        assert member.raw_position() == path.stat().st_size


def test_what_is_no_archive_is_told_when_it_is_read(tmp_path: Path) -> None:
    for name in ("a.zip", "a.tar", "a.tar.zst"):
        (tmp_path / name).write_bytes(b"not an archive" * 100)
        with pytest.raises(DamagedInput) as told:
            read_all(tmp_path / name)
        assert told.value.reason == "damaged_file"
        assert isinstance(told.value, RawInputError)


def test_a_folder_is_listed_with_numbers_by_value(tmp_path: Path) -> None:
    for name in ("10.pgn", "2.pgn", "1.pgn", "b/3.pgn.zst", "notes.txt", "x.tar.zst", "2.pgn.bak"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    names = [file.name for file in find_files(tmp_path, "**/*", (".pgn",), section="chess")]
    assert names == ["1.pgn", "2.pgn", "10.pgn", "b/3.pgn.zst", "x.tar.zst"]
    assert [file.name for file in find_files(tmp_path, "b/*", (".pgn",), section="chess")] == ["b/3.pgn.zst"]
    assert [file.name for file in find_files(tmp_path / "2.pgn", "**/*", (".pgn",), section="chess")] == ["2.pgn"]


def test_nothing_to_read_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(RawInputError, match=r"chess\.raw: expected a file or a folder, found nothing"):
        find_files(tmp_path / "absent", "**/*", (".pgn",), section="chess")
    with pytest.raises(RawInputError, match=r"chess\.raw: no file under .* matches chess\.match = '\*\*/\*'"):
        find_files(tmp_path, "**/*", (".pgn",), section="chess")


@pytest.mark.parametrize("suffix", [".zst", ".gz", ".bz2"])
def test_a_file_that_was_cut_short_is_noticed_after_what_can_be_read(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).bytes(300_000)
    path = tmp_path / f"games.pgn{suffix}"
    path.write_bytes(PACK[suffix](noise)[:-40_000])
    for member in RawFile(path.name, path, path.stat().st_size).members((".pgn",)):
        read = bytearray()
        with pytest.raises(DamagedInput):  # noqa: PT012 - reads until it is noticed
            while piece := member.stream.read(4096):
                read += piece
        assert noise.startswith(bytes(read))


def test_endings_are_known_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "A.PGN.GZ").write_bytes(gzip.compress(TEXT))
    (tmp_path / "B.TAR.ZST").write_bytes(PACK[".zst"](tar_bytes({"C.PGN.BZ2": bz2.compress(TEXT)})))
    for file in find_files(tmp_path, "**/*", (".pgn",), section="chess"):
        assert [member.stream.read() for member in file.members((".pgn",))] == [TEXT]


def test_names_that_are_no_text_are_spelt_out(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff.pgn")).write_bytes(b"x")
    (file,) = find_files(tmp_path, "**/*", (".pgn",), section="chess")
    assert file.name == "\\udcff.pgn"
    assert [member.stream.read() for member in file.members((".pgn",))] == [b"x"]
