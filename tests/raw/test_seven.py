"""7z archives are read in their own order, in bounded memory, and tell what is wrong with them."""

from __future__ import annotations

import io
import lzma
import random
import tracemalloc
from pathlib import Path

import py7zr
import pytest

from outofcore.errors import OutOfCoreError
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile

TEXT = b'[Event "x"]\n\n1. e4 e5 1-0\n' * 1000
MEMBERS = {"z.pgn": TEXT, "d/10.pgn.xz": lzma.compress(b"ten"), "notes.txt": b"no", "empty.pgn": b"", "d/2.pgn": b"two"}
FILTERS = {
    "lzma2": None,
    "lzma": [{"id": py7zr.FILTER_LZMA, "preset": 1}],
    "lzma and x86": [{"id": py7zr.FILTER_X86}, {"id": py7zr.FILTER_LZMA2, "preset": 1}],
    "bzip2": [{"id": py7zr.FILTER_BZIP2}],
    "deflate": [{"id": py7zr.FILTER_DEFLATE}],
    "delta": [{"id": py7zr.FILTER_DELTA}, {"id": py7zr.FILTER_LZMA2, "preset": 1}],
    "zstd": [{"id": py7zr.FILTER_ZSTD, "level": 3}],
    "copy": [{"id": py7zr.FILTER_COPY}],
}


def pack(members: dict[str, bytes], filters: list[dict[str, int]] | None = None) -> bytes:
    buffer = io.BytesIO()
    with py7zr.SevenZipFile(buffer, "w", filters=filters) as archive:
        for name, content in members.items():
            archive.writestr(content, name)
    return buffer.getvalue()


def opened(path: Path) -> RawFile:
    return RawFile(path.name, path, path.stat().st_size)


@pytest.mark.parametrize("method", FILTERS)
def test_files_come_in_the_order_of_the_archive(tmp_path: Path, method: str) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(pack(MEMBERS, FILTERS[method]))
    found = {member.name: member.stream.read() for member in opened(path).members((".pgn",))}
    assert found == {"a.7z/z.pgn": TEXT, "a.7z/d/10.pgn.xz": b"ten", "a.7z/empty.pgn": b"", "a.7z/d/2.pgn": b"two"}
    assert [name for name in found if "empty" not in name] == ["a.7z/z.pgn", "a.7z/d/10.pgn.xz", "a.7z/d/2.pgn"]


def test_several_folders_are_read_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(pack({"a.pgn": b"one", "b.pgn": TEXT}))
    with py7zr.SevenZipFile(path, "a", filters=FILTERS["bzip2"]) as archive:
        archive.writestr(b"three", "c.pgn")
    assert [member.stream.read() for member in opened(path).members((".pgn",))] == [b"one", TEXT, b"three"]


def test_a_file_that_is_not_read_to_its_end_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(pack(MEMBERS))
    assert [member.stream.read(3) for member in opened(path).members((".pgn",))][-1] == b"two"


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    generator = random.Random(0)
    content = b"".join(generator.randbytes(96) + bytes(416) for _ in range(20_000))  # 10 MB, 2 MB of them packed
    path = tmp_path / "a.7z"
    with py7zr.SevenZipFile(
        path, "w", filters=[{"id": py7zr.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    ) as archive:
        archive.set_encoded_header_mode(False)  # of which the dictionary would be the largest part
        archive.writestr(content, "a.pgn")
    total = 0
    tracemalloc.start()
    try:
        for member in opened(path).members((".pgn",)):
            while piece := member.stream.read(1 << 16):
                total += len(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == len(content)
    assert peak < 1_000_000


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(b"not an archive" * 100)
    (member,) = opened(path).members((".pgn",))
    assert member.name == "a.7z"
    with pytest.raises(DamagedInput, match="this is no archive"):
        member.stream.read()
    buffer = io.BytesIO()
    with py7zr.SevenZipFile(buffer, "w", password="secret") as archive:
        archive.writestr(TEXT, "a.pgn")
    path.write_bytes(buffer.getvalue())
    (member,) = opened(path).members((".pgn",))
    with pytest.raises(DamagedInput, match="encrypted with a password"):
        member.stream.read()
    path.write_bytes(pack(MEMBERS, [{"id": py7zr.FILTER_PPMD, "order": 6, "mem": 24}]))
    with pytest.raises(DamagedInput, match="method 030401 of 7z is not read"):
        next(opened(path).members((".pgn",))).stream.read()
    path.write_bytes(pack({"inner.7z": pack(MEMBERS)}))
    (member,) = opened(path).members((".pgn",))
    with pytest.raises(DamagedInput) as told:
        member.stream.read()
    assert told.value.reason == "nested_archive"


def test_a_changed_byte_is_noticed_and_a_bomb_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.7z"
    content = bytearray(pack({"a.pgn": TEXT, "b.pgn": TEXT}, FILTERS["copy"]))
    content[32 + 100] ^= 1
    path.write_bytes(content)
    members = opened(path).members((".pgn",))
    with pytest.raises(DamagedInput, match="checksum"):
        next(members).stream.read()
    assert next(members).stream.read() == TEXT
    path.write_bytes(pack({"a.pgn": bytes(90_000_000)}, [{"id": py7zr.FILTER_LZMA2, "preset": 0}]))
    members = opened(path).members((".pgn",))
    member = next(members)
    with pytest.raises(DamagedInput) as told:  # noqa: PT012 - reads until it is noticed
        while member.stream.read(1 << 20):
            pass
    assert told.value.reason == "decompression_bomb"


def test_damaged_archives_never_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator = random.Random(1)
    path = tmp_path / "a.7z"
    small = {name: content[:200] for name, content in MEMBERS.items()}
    buffer = io.BytesIO()
    with py7zr.SevenZipFile(buffer, "w") as archive:
        archive.set_encoded_header_mode(False)
        for name, content in small.items():
            archive.writestr(content, name)
    whole = buffer.getvalue()
    ended = {"read": 0, "refused": 0}
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 3)):
            content[generator.randrange(len(content))] = generator.randrange(256)
        seal(content)
        path.write_bytes(content)
        try:
            for member in opened(path).members((".pgn",)):
                member.stream.read()
            ended["read"] += 1
        except OutOfCoreError:
            ended["refused"] += 1
    assert min(ended.values()) > 10


def seal(content: bytearray) -> None:
    """Make the checksums of the header right, so that the parser sees what was changed."""
    import zlib

    start = 32 + int.from_bytes(content[12:20], "little")
    size = int.from_bytes(content[20:28], "little")
    content[28:32] = zlib.crc32(content[start : start + size]).to_bytes(4, "little")
    content[8:12] = zlib.crc32(content[12:32]).to_bytes(4, "little")
