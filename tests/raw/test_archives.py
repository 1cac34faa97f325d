"""Archives that break off, lie, hide or explode: told, file by file, and never more than is there."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import random
import resource
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.streams import FREE_BYTES, MOST_FOLD

SUFFIXES = (".sgf",)
CONTENT = {f"{number}.sgf": random.Random(number).randbytes(3000) for number in range(4)}
BLOCK = tarfile.BLOCKSIZE


class Read:
    """What came of reading a file: contents by name, and problems by name in order."""

    def __init__(self, path: Path) -> None:
        self.content: dict[str, int | bytes] = {}
        self.problems: list[tuple[str, DamagedInput]] = []
        before = set(path.parent.rglob("*"))
        file = RawFile(path.name, str(path), path.stat().st_size)
        for member in file.members(SUFFIXES):
            name = member.name.removeprefix(f"{path.name}/")
            data, count = b"", 0
            try:
                while block := member.stream.read(1 << 16):
                    data = (data + block)[:10_000]
                    count += len(block)
            except DamagedInput as error:
                self.problems.append((name, error))
            else:
                self.content[name] = data if count <= len(data) else count
        assert set(path.parent.rglob("*")) == before  # nothing is written

    @property
    def reasons(self) -> dict[str, str]:
        return {name: problem.reason for name, problem in self.problems}


def tar_of(entries: list[tuple[tarfile.TarInfo, bytes]], *, kind: int = tarfile.PAX_FORMAT) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=kind) as archive:
        for header, data in entries:
            archive.addfile(header, io.BytesIO(data))
    return raw.getvalue()


def header(name: str, size: int = 0, **facts: object) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    for fact, value in facts.items():
        setattr(entry, fact, value)
    return entry


STRIDE = BLOCK + (3000 + BLOCK - 1) // BLOCK * BLOCK  # from header to header
TAR = tar_of([(header(name, len(data)), data) for name, data in CONTENT.items()])[: 4 * STRIDE + BLOCK]
PACK: dict[str, Callable[[bytes], bytes]] = {
    "tar": lambda data: data,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.zst": zstandard.compress,
}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize(
    ("at", "whole"),
    [
        (2 * STRIDE, 2),  # where a header would begin
        (2 * STRIDE + 100, 2),  # inside a header
        (2 * STRIDE + BLOCK, 2),  # after it
        (2 * STRIDE + BLOCK + 700, 2),  # inside a file
        (4 * STRIDE, 4),  # before the mark at the end
        (4 * STRIDE + 100, 4),  # inside it
    ],
)
def test_a_tar_archive_that_was_cut_is_told_once(tmp_path: Path, kind: str, at: int, whole: int) -> None:
    read = Read(write(tmp_path / f"a.{kind}", PACK[kind](TAR[:at])))
    names = list(CONTENT)
    assert read.content == {name: CONTENT[name] for name in names[:whole]}
    assert len(read.problems) == 1
    name, problem = read.problems[0]
    assert problem.reason == "damaged_file"
    assert name in (f"a.{kind}", names[whole] if whole < 4 else "")
    if name == f"a.{kind}":
        assert f"at byte {at // BLOCK * BLOCK} of the archive" in str(problem)


def test_a_header_that_is_noise_is_told(tmp_path: Path) -> None:
    data = TAR[: 2 * STRIDE] + b"noise" * 1000 + TAR[2 * STRIDE :]
    read = Read(write(tmp_path / "a.tar", data))
    assert list(read.content) == ["0.sgf", "1.sgf"]
    assert read.reasons == {"a.tar": "damaged_file"}
    assert f"at byte {2 * STRIDE} of" in str(read.problems[0][1])


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "tar.zst"])
def test_compressed_bytes_that_break_off(tmp_path: Path, kind: str) -> None:
    packed = PACK[kind](TAR)
    read = Read(write(tmp_path / f"a.{kind}", packed[: len(packed) // 2]))
    assert len(read.problems) == 1
    assert read.problems[0][1].reason == "damaged_file"
    assert all(CONTENT[name] == data for name, data in read.content.items())


def test_a_damaged_member_costs_itself_alone(tmp_path: Path) -> None:
    packed = gzip.compress(CONTENT["0.sgf"])
    entries = [("0.sgf.gz", packed[:1000]), ("1.sgf", b"one"), ("2.sgf.zst", b"noise"), ("3.sgf", b"three")]
    read = Read(write(tmp_path / "a.tar", tar_of([(header(name, len(data)), data) for name, data in entries])))
    assert read.content == {"1.sgf": b"one", "3.sgf": b"three"}
    assert read.reasons == {"0.sgf.gz": "damaged_file", "2.sgf.zst": "damaged_file"}


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    entries = [
        (header("link.sgf", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
        (header("hard.sgf", type=tarfile.LNKTYPE, linkname="0.sgf"), b""),
        (header("device.sgf", type=tarfile.CHRTYPE, devmajor=1, devminor=5), b""),
        (header("pipe.sgf", type=tarfile.FIFOTYPE), b""),
        (header("folder.sgf", type=tarfile.DIRTYPE), b""),
        (header("link.txt", type=tarfile.SYMTYPE, linkname="0.sgf"), b""),
        (header("0.sgf", 3), b"one"),
    ]
    read = Read(write(tmp_path / "a.tar", tar_of(entries)))
    assert read.content == {"0.sgf": b"one"}
    assert read.reasons == dict.fromkeys(("link.sgf", "hard.sgf", "device.sgf", "pipe.sgf"), "not_a_file")
    assert "symbolic link" in str(read.problems[0][1])


def test_why_a_file_cannot_be_read_is_one_plain_sentence(tmp_path: Path) -> None:
    link = header("a.sgf", type=tarfile.SYMTYPE, linkname="elsewhere")
    inner = tar_of([(header("b.sgf", 1), b"x")])
    read = Read(write(tmp_path / "a.tar", tar_of([(link, b""), (header("inner.tar", len(inner)), inner)])))
    assert [(name, str(problem)) for name, problem in read.problems] == [
        ("a.sgf", "a symbolic link, not a file with bytes of its own"),
        ("inner.tar", "an archive inside an archive; unpack the outer one"),
    ]


def test_names_lead_nowhere(tmp_path: Path) -> None:
    names = ["../../out.sgf", "/tmp/out.sgf", "a/../../b.sgf", "C:\\x.sgf", "n\new.sgf", "ü.sgf"]
    read = Read(write(tmp_path / "a.tar", tar_of([(header(name, 1), b"x") for name in names])))
    assert list(read.content) == names
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    assert len(Read(tmp_path / "a.zip").content) == len(names)
    bad = header(os.fsdecode(b"\xff.sgf"), 1)
    read = Read(write(tmp_path / "b.tar", tar_of([(bad, b"x")], kind=tarfile.USTAR_FORMAT)))
    assert list(read.content) == ["\\udcff.sgf"]


def test_archives_in_archives_are_told(tmp_path: Path) -> None:
    read = Read(write(tmp_path / "a.tar", tar_of([(header("b.tar.gz", 9), b"whatever!"), (header("0.sgf", 1), b"x")])))
    assert read.content == {"0.sgf": b"x"}
    assert read.reasons == {"b.tar.gz": "nested_archive"}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in.zip", b"whatever")
    assert Read(tmp_path / "a.zip").reasons == {"in.zip": "nested_archive"}


BOMB = FREE_BYTES + (8 << 20)


def zeros_zst(size: int) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(compressor.compress(bytes(1 << 20)) for _ in range(size >> 20)) + compressor.flush()


def most(path: Path) -> int:
    return FREE_BYTES + MOST_FOLD * path.stat().st_size


def test_bombs_are_cut_off(tmp_path: Path) -> None:
    bomb = zeros_zst(BOMB)
    plain = write(tmp_path / "a.sgf.zst", bomb)
    assert most(plain) < BOMB
    assert Read(plain).reasons == {"a.sgf.zst": "decompression_bomb"}

    inside = write(tmp_path / "b.tar", tar_of([(header("x.sgf.zst", len(bomb)), bomb), (header("y.sgf", 1), b"y")]))
    read = Read(inside)
    assert read.reasons == {"x.sgf.zst": "decompression_bomb"}
    assert read.content == {"y.sgf": b"y"}

    deflated = tmp_path / "c.zip"
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.sgf", bytes(3 * BOMB))
        archive.writestr("y.sgf", b"y")
    assert most(deflated) < 3 * BOMB
    assert Read(deflated).reasons["x.sgf"] == "decompression_bomb"


def test_a_bomb_among_files_that_do_not_count_is_cut_off(tmp_path: Path) -> None:
    start = header("zeros.bin", BOMB).tobuf()
    compressor = zstandard.ZstdCompressor().compressobj()
    packed = compressor.compress(start) + b"".join(compressor.compress(bytes(1 << 20)) for _ in range(BOMB >> 20))
    packed += compressor.compress(TAR) + compressor.flush()
    read = Read(write(tmp_path / "a.tar.zst", packed))
    assert read.content == {}
    assert read.reasons == {"a.tar.zst": "decompression_bomb"}


def test_one_place_of_a_zip_under_many_names(tmp_path: Path) -> None:
    """A directory whose entries all name the same compressed bytes: each is harmless, together they are not."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.sgf", bytes(20 << 20))
        first = archive.filelist[0]
        archive.filelist += [first] * 20
    with warnings.catch_warnings():
        read = Read(path)
    # A newer zipfile refuses such a directory by itself.
    assert {problem.reason for _, problem in read.problems} & {"decompression_bomb", "damaged_file"}


def test_what_shrinks_much_and_is_small_is_no_bomb(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sgf.gz", gzip.compress(bytes(FREE_BYTES)))
    assert Read(path).content == {"a.sgf.gz": FREE_BYTES}


def test_sizes_in_headers_are_not_trusted(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    huge = header("x.sgf", 1 << 50)
    read = Read(write(tmp_path / "a.tar", huge.tobuf(format=tarfile.GNU_FORMAT) + b"little"))
    assert read.reasons == {"x.sgf": "damaged_file"}
    name = header("././@LongLink", 1 << 40, type=tarfile.GNUTYPE_LONGNAME)
    read = Read(write(tmp_path / "b.tar", TAR[:STRIDE] + name.tobuf(format=tarfile.GNU_FORMAT) + bytes(4096)))
    assert read.content == {"0.sgf": CONTENT["0.sgf"]}
    assert read.reasons == {"b.tar": "damaged_file"}
    assert "absurd size" in str(read.problems[0][1])
    negative = bytearray(header("x.sgf").tobuf(format=tarfile.GNU_FORMAT))
    negative[124:136] = b"\xff" * 12
    negative[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(negative))[0]
    read = Read(write(tmp_path / "c.tar", TAR[:STRIDE] + bytes(negative) + TAR[STRIDE:]))
    assert read.reasons == {"c.tar": "damaged_file"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def zip_bytes() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in CONTENT.items():
            archive.writestr(name, data)
    return raw.getvalue()


ZIP = zip_bytes()


def test_zip_archives_that_break_off_or_are_locked(tmp_path: Path) -> None:
    read = Read(write(tmp_path / "a.zip", ZIP[: len(ZIP) // 2]))
    assert read.content == {}
    assert read.reasons == {"a.zip": "damaged_file"}
    flipped = bytearray(ZIP)
    flipped[ZIP.index(b"1.sgf") + 500] ^= 255
    read = Read(write(tmp_path / "b.zip", bytes(flipped)))
    assert set(read.content) == {"0.sgf", "2.sgf", "3.sgf"}
    assert read.reasons == {"1.sgf": "damaged_file"}
    locked = bytearray(ZIP)
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        locked[locked.index(mark) + flags] |= 1
    read = Read(write(tmp_path / "c.zip", bytes(locked)))
    assert read.reasons == {"0.sgf": "damaged_file"}
    assert "encrypted" in str(read.problems[0][1])
    assert len(read.content) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    st.sampled_from(["a.zip", *(f"a.{kind}" for kind in PACK)]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    st.floats(0.01, 1),
)
def test_any_damage_is_told_and_never_raised(
    tmp_path: Path, name: str, changes: list[tuple[float, int]], kept: float
) -> None:
    packed = ZIP if name == "a.zip" else PACK[name.removeprefix("a.")](TAR)
    data = bytearray(packed[: max(1, int(kept * len(packed)))])
    for where, value in changes:
        data[int(where * (len(data) - 1))] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, about names that come twice
        read = Read(write(tmp_path / name, bytes(data)))
    if kept < 0.97 and name != "a.zip":
        assert read.problems
