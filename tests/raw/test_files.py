"""Raw files are found in one order everywhere, and read alike through every compression and archive."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import socket
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.errors import RawInputError
from outofcore.raw import files
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile, find_files, natural_order, search
from outofcore.raw.streams import read_block, transcoded
from tests.raw.packing import PACK, tar, write, zipped

TEXT = b'[Event "x"]\n\n1. e4 e5 1-0\n' * 1000


def read_all(path: Path) -> dict[str, bytes]:
    file = RawFile(path.name, str(path), path.stat().st_size)
    return {member.name: member.stream.read() for member in file.members((".pgn",))}


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_file_reads_as_the_plain_one_to_the_end_of_its_last_frame(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"games.pgn{suffix}"
    path.write_bytes(PACK[suffix](TEXT) + PACK[suffix](b"more"))
    assert read_all(path) == {path.name: TEXT + b"more"}


@pytest.mark.parametrize("listed", [0, 1, files.SMALL_BYTES - 1, files.SMALL_BYTES, files.SMALL_BYTES + 1])
@pytest.mark.parametrize("more", [-1, 0, 2])
def test_a_file_is_read_and_digested_as_it_is_now(tmp_path: Path, listed: int, more: int) -> None:
    path = tmp_path / "games.pgn"
    content = np.random.default_rng(listed).bytes(max(listed + more, 0))
    path.write_bytes(content)
    file = RawFile(path.name, str(path), listed)
    (member,) = ((read_block(member.stream, 1 << 20), member.raw_position()) for member in file.members((".pgn",)))
    assert member == ((content, None), len(content))
    assert file.digest() == hashlib.sha256(content).hexdigest()


def test_a_small_file_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "games.pgn"
    with pytest.raises(FileNotFoundError, match=r"games\.pgn"):
        next(RawFile(path.name, str(path), 3).members((".pgn",)))


@pytest.mark.parametrize(
    "name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tbz2", "a.tar.zst", "a.tar.xz", "a.zip"]
)
def test_archives_are_streamed_in_their_own_order(tmp_path: Path, name: str) -> None:
    members = {"z.pgn": TEXT, "d/10.pgn.zst": PACK[".zst"](b"ten"), "notes.txt": b"no", "d/2.pgn": b"two"}
    path, ending = tmp_path / name, "." + name.rsplit(".", 1)[1]
    pack = PACK.get({".tgz": ".gz", ".tbz2": ".bz2", ".tar": ""}.get(ending, ending))
    path.write_bytes(pack(tar(members)) if pack else zipped(members))
    expected = {f"{name}/z.pgn": TEXT, f"{name}/d/10.pgn.zst": b"ten", f"{name}/d/2.pgn": b"two"}
    found = read_all(path)
    assert found == expected
    assert list(found) == list(expected)


def test_the_position_in_the_raw_file_ends_at_its_size(tmp_path: Path) -> None:
    path = tmp_path / "games.pgn.zst"
    path.write_bytes(PACK[".zst"](TEXT))
    for member in RawFile(path.name, str(path), path.stat().st_size).members((".pgn",)):
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


PICKLED = r"is pickled Python objects, which may run code .*; save the arrays"
UNREAD = r"is compressed as nothing here can decompress it; unpack it"


@pytest.mark.parametrize(
    ("names", "raw", "match", "message"),
    [
        pytest.param("", "absent", "**/*", r"chess\.raw: expected a file or a folder, found nothing", id="absent"),
        pytest.param("", "", "**/*", r"has no file of \*\.pgn \(compressed or in an archive\); name", id="empty"),
        pytest.param("a.pgn", "", "a/*", r"archive\) that chess\.match = 'a/\*' selects; name the folder", id="match"),
        pytest.param("x.pt", "x.pt", "**/*", PICKLED, id="pickle"),
        pytest.param("a/x.PTH", "a/x.PTH", "**/*", PICKLED, id="pickle in capitals"),
        pytest.param("x.7z", "x.7z", "**/*", rf"x\.7z {UNREAD}", id="archive that nothing reads"),
        pytest.param("x.pgn.lz4", "x.pgn.lz4", "**/*", rf"x\.pgn\.lz4 {UNREAD}", id="compression that nothing reads"),
        pytest.param(
            "b.pgn.lz4 c.rar d/e.tar.Z notes.md",
            "",
            "**/*",
            r"left out: 4 \(.*\.pgn\.lz4 1.*\), the first b\.pgn\.lz4 \(compressed as",
            id="only what nothing reads",
        ),
        pytest.param("", "x" * 5000, "**/*", r"chess\.raw: cannot look at .*File name too long", id="too long"),
    ],
)
def test_what_cannot_be_read_names_the_key(tmp_path: Path, names: str, raw: str, match: str, message: str) -> None:
    write(tmp_path, *names.split())
    with pytest.raises(RawInputError, match=message):
        find_files(tmp_path / raw, match, (".pgn",), section="chess")


@pytest.mark.parametrize("suffix", [".zst", ".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("size", [50, 300_000])
def test_a_file_that_was_cut_short_gives_what_the_library_decodes_of_it(tmp_path: Path, suffix: str, size: int) -> None:
    noise = np.random.default_rng(0).bytes(size)
    path = tmp_path / f"games.pgn{suffix}"
    cut = PACK[suffix](noise)[: -size // 8]
    path.write_bytes(cut)
    decoder = {
        ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
        ".gz": lambda: zlib.decompressobj(31),
        ".bz2": bz2.BZ2Decompressor,
        ".xz": lzma.LZMADecompressor,
    }[suffix]()
    for member in RawFile(path.name, str(path), path.stat().st_size).members((".pgn",)):
        read, damage = read_block(member.stream, 1 << 20)
        assert read == decoder.decompress(cut)
        assert damage is not None
        assert not damage.whole


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([".zst", ".gz", ".bz2", ".xz"]),
    st.binary(min_size=1, max_size=40) | st.integers(1, 3000).map(lambda count: b"junk" * count),
    st.integers(0, 200_000),
    st.integers(1, 3),
)
def test_what_follows_compressed_data_costs_none_of_it(
    tmp_path: Path, suffix: str, after: bytes, size: int, streams: int
) -> None:
    """But zeros after gzip and xz, which pad, and whole streams; both are no damage."""
    content = np.random.default_rng(1).bytes(size) + b"end"
    after = after.lstrip(b"\0") or b"?"
    path = tmp_path / f"games.pgn{suffix}"
    packed = PACK[suffix](content)
    path.write_bytes(packed * streams + after)
    for member in RawFile(path.name, str(path), path.stat().st_size).members((".pgn",)):
        read, damage = read_block(member.stream, 1 << 24)
    assert read == content * streams
    assert damage is not None
    assert damage.whole
    assert f"ends at byte {len(packed) * streams:,}" in str(damage)


# A NUL after the mark of UTF-16 makes that of UTF-32.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=300).filter(lambda text: not text.startswith("\0"))


@settings(max_examples=80, deadline=None)
@given(TEXTS, st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]), st.integers(1, 9))
def test_a_text_with_a_mark_reads_as_utf_8(text: str, encoding: str, size: int) -> None:
    stream, found, mark = transcoded(io.BufferedReader(io.BytesIO(f"\ufeff{text}".encode(encoding))))
    pieces = iter(lambda: stream.read(size), b"")
    assert (b"".join(pieces).decode(), found, mark) == (text, encoding, 2 if "16" in encoding else 4)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("(;SZ[19])".encode("utf-16-le"), b"(;SZ[19])"),  # no mark
        ("[Event]".encode("utf-16-be"), b"[Event]"),
        (b"\xef\xbb\xbf(;)", b"\xef\xbb\xbf(;)"),
        (b"\xff\xfe\x00\xd8a\x00", b"\xed\xa0\x80a"),  # half a surrogate pair stays what it is: no UTF-8
        (b"", b""),
        (b"\0\0\0\0", b"\0\0\0\0"),
        (b"\x93NUMPY\1\0", b"\x93NUMPY\1\0"),
    ],
)
def test_what_is_transcoded_and_what_is_not(content: bytes, expected: bytes) -> None:
    assert transcoded(io.BufferedReader(io.BytesIO(content)))[0].read() == expected


def test_half_a_character_at_the_end_is_damage_after_the_text() -> None:
    stream, *_ = transcoded(io.BufferedReader(io.BytesIO(b"\xff\xfea\0b\0c")))
    assert read_block(stream, 100)[0] == b"ab"
    with pytest.raises(DamagedInput, match="not utf-16-le: truncated data"):
        stream.read()


def test_what_no_reader_takes_and_what_is_hidden_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.pgn", "b.json.gz", "c.md", "d.json.gz", ".git/config", ".git/x.pgn", "._a.pgn", "e/.b/f.pgn")
    members = {"1.pgn": TEXT, "__MACOSX/._1.pgn": b"x", "READ.ME": b"x", ".c/2.pgn": TEXT}
    (tmp_path / "g.tar").write_bytes(tar(members))
    (tmp_path / "h.zip").write_bytes(zipped(members))
    seen = search(tmp_path, "**/*", (".pgn",), section="chess")
    assert [file.name for file in seen.files] == ["a.pgn", "g.tar", "h.zip"]
    read = [member.name for file in seen.files for member in file.members((".pgn",))]
    assert read == ["a.pgn", "g.tar/1.pgn", "h.zip/1.pgn"]
    hidden = {"._a.pgn", ".git", "e/.b", *(f"{pack}/{name}" for pack in ("g.tar", "h.zip") for name in members)}
    hidden -= {f"{pack}/{name}" for pack in ("g.tar", "h.zip") for name in ("1.pgn", "READ.ME")}
    others = {"b.json.gz", "c.md", "d.json.gz", "g.tar/READ.ME", "h.zip/READ.ME"}
    assert seen.left_out == dict.fromkeys(hidden, files.HIDDEN) | dict.fromkeys(others, files.NO_READER)
    assert files.endings(seen.left_out, 2).startswith(".pgn 5, ")
    assert found(tmp_path, ".git/*") == [".git/x.pgn"]
    assert found(tmp_path, "**/.b/*") == ["e/.b/f.pgn"]
    assert found(tmp_path / ".git") == ["x.pgn"]


def test_endings_are_known_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "A.PGN.GZ").write_bytes(gzip.compress(TEXT))
    (tmp_path / "B.TAR.ZST").write_bytes(PACK[".zst"](tar({"C.PGN.BZ2": bz2.compress(TEXT)})))
    for file in find_files(tmp_path, "**/*", (".pgn",), section="chess"):
        assert [member.stream.read() for member in file.members((".pgn",))] == [TEXT]


def test_names_that_are_no_text_are_spelt_out(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff.pgn")).write_bytes(b"x")
    (file,) = find_files(tmp_path, "**/*", (".pgn",), section="chess")
    assert file.name == "\\udcff.pgn"
    assert [member.stream.read() for member in file.members((".pgn",))] == [b"x"]


def found(root: Path, match: str = "**/*") -> list[str]:
    return [file.name for file in search(root, match, (".pgn",), section="chess").files]


def test_what_cannot_be_decompressed_is_named_and_not_passed_over(tmp_path: Path) -> None:
    unread = ["b.pgn.lz4", "c.rar", "d/e.tar.Z", "f.7z"]
    write(tmp_path, "a.pgn", *unread, "model.pt", "notes.md.br")
    left_out = search(tmp_path, "**/*", (".pgn",), section="chess").left_out
    assert [name for name, why in left_out.items() if why == files.UNREAD] == unread
    assert list(left_out) == [*unread, "model.pt", "notes.md.br"]


def test_links_to_folders_are_followed_where_they_are_named(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "raw", tmp_path / "elsewhere"
    write(root, "a.pgn")
    write(elsewhere, "b.pgn", "deep/c.pgn")
    (root / "linked").symlink_to(elsewhere)
    (root / "round").symlink_to(root)
    (root / "gone.pgn").symlink_to(tmp_path / "nowhere")
    (root / "x.pgn").symlink_to(elsewhere / "b.pgn")
    seen = search(root, "**/*", (".pgn",), section="chess")
    assert [file.name for file in seen.files] == ["a.pgn", "x.pgn"]
    assert {name: why.split(",")[0] for name, why in seen.left_out.items()} == {
        "gone.pgn": "a link that leads nowhere",
        "linked": "a link to a folder",
        "round": "a link to a folder",
    }
    assert found(root, "linked/*") == ["linked/b.pgn"]
    assert found(root, "linked/**/*") == ["linked/b.pgn", "linked/deep/c.pgn"]
    assert found(root, "l*/*.pgn") == ["linked/b.pgn"]


@pytest.mark.parametrize(
    "match", ["**/*", "*", "*.pgn", "a/*", "a/**/*", "**/b/*", "**/a/**/b/*.pgn", "?/[b]/*", "a/b/1.pgn"]
)
def test_patterns_match_as_those_of_pathlib(tmp_path: Path, match: str) -> None:
    write(tmp_path, "0.pgn", "a/1.pgn", "a/b/1.pgn", "a/b/c/2.pgn", "b/a/x/b/3.pgn", "b/4.pgn", ".hidden/5.pgn")
    expected = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob(match) if path.is_file()}
    expected -= {".hidden/5.pgn"}
    assert expected
    assert set(found(tmp_path, match)) == expected


def test_a_pattern_that_ends_with_any_folders_means_their_files(tmp_path: Path) -> None:
    write(tmp_path, "0.pgn", "a/1.pgn")
    assert found(tmp_path, "**") == ["0.pgn", "a/1.pgn"]
    assert found(tmp_path, "a/**") == ["a/1.pgn"]


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.pgn", "locked/b.pgn")
    scandir = os.scandir

    def refusing(folder: Path) -> object:
        if folder.name == "locked":
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)  # root may read everything
    with pytest.raises(RawInputError, match=r"chess\.raw: cannot look at .*locked: Permission denied; make it"):
        found(tmp_path)
    assert found(tmp_path, "*.pgn") == ["a.pgn"]


def test_a_pipe_or_a_socket_in_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/a.pgn")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RawInputError, match=r"pipe is a pipe, a socket or a device: a conversion would wait"):
        found(tmp_path)
    with pytest.raises(RawInputError, match=r"expected a file or a folder, found a pipe, a socket or a device"):
        found(tmp_path / "pipe")
    (tmp_path / "pipe").unlink()
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as open_socket:
        open_socket.bind("x.pgn")
        with pytest.raises(RawInputError, match=r"x\.pgn is a pipe, a socket or a device"):
            found(tmp_path)
        assert found(tmp_path, "a/*") == ["a/a.pgn"]


@pytest.mark.skipif(sys.platform != "linux", reason="a file of Linux whose first byte cannot be read")
def test_an_error_of_the_disk_names_the_file() -> None:
    for name in ("games.pgn", "games.pgn.zst", "games.pgn.xz", "games.tar"):
        file = RawFile(name, "/proc/self/mem", 1000)
        with pytest.raises(OSError, match="Input/output error") as told:
            [member.stream.read() for member in file.members((".pgn",))]
        assert told.value.filename == "/proc/self/mem"


def test_an_error_of_the_disk_is_no_damage_of_a_zip_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(files.NamedFile):
        def readinto(self, _: object) -> int:
            error = OSError(5, "Input/output error")
            self._remember(error)
            raise error

    (tmp_path / "games.zip").write_bytes(zipped({"a.pgn": TEXT}))
    monkeypatch.setattr(files, "NamedFile", Broken)
    with pytest.raises(OSError, match="Input/output error") as told:
        read_all(tmp_path / "games.zip")
    assert told.value.filename == str(tmp_path / "games.zip")


def test_different_names_have_one_order() -> None:
    names = ["1.sgf", "01.sgf", "2.sgf", "10.sgf", "a", "a1", "part01/x", "part1/x"]
    assert len({natural_order(name) for name in names}) == len(names)
    assert sorted(["10.sgf", "2.sgf"], key=natural_order) == ["2.sgf", "10.sgf"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("training.123.gz", "lc0's self-play"),
        ("A.EPD", "takes one as FEN"),
        ("data.binpack", "Stockfish's network"),
        ("1.gib", "convert it to .sgf"),
        ("2.ngf", "convert it to .sgf"),
        ("tokens.pbin", "write the ids as .bin or .npy"),
        ("tokenizer.model", "save it as tokenizer.json"),
    ],
)
def test_likely_files_that_nothing_reads_are_named_with_what_to_do(tmp_path, name, what):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(RawInputError, match=f"{re.escape(name)} is .*{re.escape(what)}"):
        search(tmp_path / name, "**/*", (".pgn",), section="chess")
    with pytest.raises(RawInputError, match=f"{re.escape(name)} .*{re.escape(what)}"):
        search(tmp_path, "**/*", (".pgn",), section="chess")
    (tmp_path / "a.tar").write_bytes(tar({name: b"x"}))
    (file,) = (seen := search(tmp_path, "**/*", (".pgn",), section="chess")).files
    assert not list(file.members((".pgn",)))
    assert all(what in why for why in seen.left_out.values())
    assert len(seen.left_out) == 2
