"""Archives that break off, lie, hide or explode: told, file by file, and never more than is there."""

from __future__ import annotations

import gzip
import os
import random
import resource
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.streams import FREE_BYTES, MOST_FOLD
from tests.raw.packing import PACK, Members, header, tar, zipped

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


STRIDE = BLOCK + (3000 + BLOCK - 1) // BLOCK * BLOCK  # from header to header
TAR, ZIP = tar(CONTENT)[: 4 * STRIDE + BLOCK], zipped(CONTENT)
KINDS = ("tar", "tar.gz", "tar.bz2", "tar.zst")


def packed(kind: str, data: bytes) -> bytes:
    return PACK[kind.removeprefix("tar")](data)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", KINDS)
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
    read = Read(write(tmp_path / f"a.{kind}", packed(kind, TAR[:at])))
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


BOMB = FREE_BYTES + (8 << 20)


def zeros_zst(size: int, before: bytes = b"", after: bytes = b"") -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    pieces = (before, *[bytes(1 << 20)] * (size >> 20), after)
    return b"".join(map(compressor.compress, pieces)) + compressor.flush()


LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
NOT_A_FILE = " not a file with bytes of its own"


@pytest.mark.parametrize(
    ("member", "reason", "why"),
    [
        pytest.param({"x.sgf.gz": gzip.compress(CONTENT["0.sgf"])[:1000]}, "damaged_file", "cut short", id="cut short"),
        pytest.param({"x.sgf.zst": b"noise"}, "damaged_file", "", id="noise"),
        pytest.param({"x.sgf.zst": zeros_zst(BOMB)}, "decompression_bomb", "decompress it yourself", id="bomb"),
        pytest.param({"x.sgf": LINK}, "not_a_file", f"a symbolic link,{NOT_A_FILE}", id="symbolic link"),
        pytest.param(
            {"x.sgf": {"type": tarfile.LNKTYPE, "linkname": "0.sgf"}},
            "not_a_file",
            f"a hard link,{NOT_A_FILE}",
            id="hard link",
        ),
        pytest.param({"x.sgf": {"type": tarfile.FIFOTYPE}}, "not_a_file", f"a device,{NOT_A_FILE}", id="pipe"),
        pytest.param({"x.tar.gz": b"whatever!"}, "nested_archive", "inside an archive; unpack the outer", id="archive"),
        pytest.param({"x.sgf.lz4": b"x"}, "damaged_file", "nothing here can decompress", id="unread compression"),
        pytest.param({"x.sgf": {"type": tarfile.DIRTYPE}}, None, "", id="folder"),
        pytest.param({"x.txt": LINK}, None, "", id="link of another kind"),
    ],
)
def test_what_cannot_be_read_of_an_archive_costs_itself_alone(
    tmp_path: Path, member: Members, reason: str | None, why: str
) -> None:
    (name,) = member
    read = Read(write(tmp_path / "a.tar", tar({"0.sgf": b"one", **member, "2.sgf": b"two"})))
    assert read.content == {"0.sgf": b"one", "2.sgf": b"two"}
    assert read.reasons == ({name: reason} if reason else {})
    assert all(why in str(problem) for _, problem in read.problems)
    if isinstance(member[name], bytes):
        assert Read(write(tmp_path / "a.zip", zipped({name: member[name]}))).reasons == {name: reason}


def test_names_lead_nowhere(tmp_path: Path) -> None:
    names = ["../../out.sgf", "/tmp/out.sgf", "a/../../b.sgf", "C:\\x.sgf", "n\new.sgf", "ü.sgf"]
    members = dict.fromkeys(names, b"x")
    assert list(Read(write(tmp_path / "a.tar", tar(members))).content) == names
    assert len(Read(write(tmp_path / "a.zip", zipped(members))).content) == len(names)
    read = Read(write(tmp_path / "b.tar", tar({os.fsdecode(b"\xff.sgf"): b"x"}, tarfile.USTAR_FORMAT)))
    assert list(read.content) == ["\\udcff.sgf"]


def most(path: Path) -> int:
    return FREE_BYTES + MOST_FOLD * path.stat().st_size


def test_bombs_are_cut_off(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.sgf.zst", zeros_zst(BOMB))
    assert most(plain) < BOMB
    assert Read(plain).reasons == {"a.sgf.zst": "decompression_bomb"}
    deflated = write(tmp_path / "c.zip", zipped({"x.sgf": bytes(3 * BOMB), "y.sgf": b"y"}))
    assert most(deflated) < 3 * BOMB
    assert Read(deflated).reasons["x.sgf"] == "decompression_bomb"
    # A bomb among files that do not count.
    among = write(tmp_path / "a.tar.zst", zeros_zst(BOMB, header("zeros.bin", BOMB).tobuf(), TAR))
    read = Read(among)
    assert (read.content, read.reasons) == ({}, {"a.tar.zst": "decompression_bomb"})


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
    st.sampled_from(["a.zip", *(f"a.{kind}" for kind in KINDS)]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    st.floats(0.01, 1),
)
def test_any_damage_is_told_and_never_raised(
    tmp_path: Path, name: str, changes: list[tuple[float, int]], kept: float
) -> None:
    whole = ZIP if name == "a.zip" else packed(name.removeprefix("a."), TAR)
    data = bytearray(whole[: max(1, int(kept * len(whole)))])
    for where, value in changes:
        data[int(where * (len(data) - 1))] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, about names that come twice
        read = Read(write(tmp_path / name, bytes(data)))
    if kept < 0.97 and name != "a.zip":
        assert read.problems
