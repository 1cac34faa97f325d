"""Units hold every record once, with its file and offset, wherever the cuts fall and whatever is in the files."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.raw.cutting import TOO_LONG, MemberText, cut, cut_by, halves
from outofcore.raw.files import find_files
from outofcore.raw.unit import Unit
from tests.raw.packing import Members, tar

HEAD = "text before the first\n"
RECORD = rb"(?ms)^>|\A."


def last_start(text: bytes) -> int:
    return text.rfind(b"\n>") + 1


def records_of(unit: Unit) -> list[tuple[str, int, bytes]]:
    """Name, offset and text of each record, as a domain finds them."""
    return [(unit.places[file][1], offset, text) for text, file, offset in unit.records(RECORD)]


RECORDS = st.lists(st.tuples(st.text("abé\U0001f600>", max_size=12), st.integers(0, 60)), max_size=12)
FILES = st.lists(st.tuples(st.booleans(), RECORDS, st.sampled_from(["utf-8", "utf-16", "utf-32-be"])), max_size=6)
LONGEST = 150


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.integers(4, 300), st.integers(0, 63))
def test_every_record_is_in_one_unit_or_rejected(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[bool, list[tuple[str, int]], str]],
    size: int,
    kinds: int,
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    expected: list[tuple[str, int, bytes]] = []
    too_long: list[tuple[str, int]] = []
    packed: dict[str, bytes] = {}
    for number, (head, records, encoding) in enumerate(written):
        texts = [HEAD] * head + [f">{title.replace(chr(62), '')}\n{'A' * length}\n" for title, length in records]
        if number == 3:
            texts.append(f">long\n{'C' * 400}\n")
        mark = {"utf-16": b"\xff\xfe", "utf-32-be": b"\0\0\xfe\xff"}.get(encoding, b"")
        kind = encoding if encoding != "utf-16" else "utf-16-le"
        name, raw = f"{number}.fa", mark
        for text in texts:
            if len(text.encode()) > LONGEST:
                too_long.append((name, len(raw)))
            else:
                expected.append((name, len(raw), text.encode()))
            raw += text.encode(kind)
        packed[name] = raw
    for number, (name, raw) in enumerate(packed.items()):
        zipped = bool(kinds >> number & 1)
        (folder / f"{name}{'.gz' * zipped}").write_bytes(gzip.compress(raw) if zipped else raw)
    if not packed:
        return
    files = find_files(folder, "**/*", (".fa",), section="dna")
    units = list(cut(files, (".fa",), last_start, size=size, longest=LONGEST))
    found = [(name.removesuffix(".gz"), offset, text) for unit in units for name, offset, text in records_of(unit)]
    assert found == expected
    rejects = [(unit.places[each.file][1].removesuffix(".gz"), each.offset) for unit in units for each in unit.rejects]
    assert {each.reason for unit in units for each in unit.rejects} <= {TOO_LONG}
    assert rejects == too_long
    assert sum(unit.raw_bytes for unit in units) == sum(file.bytes for file in files)
    assert {name.removesuffix(".gz") for unit in units for _, name in unit.places} == set(packed)
    for unit in units:
        parts = halves(unit, last_start) if unit.payload else None
        if parts:
            assert [each for part in parts for each in records_of(part)] == records_of(unit)
        elif unit.payload and len(unit.stretches) == 1:
            assert len(records_of(unit)) == 1


TEXT = b"".join(b">%d\n%s\n" % (number, b"A" * (number % 90)) for number in range(500))


@pytest.mark.parametrize("size", [100, 1 << 20])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_damage_costs_the_record_that_it_interrupts(tmp_path: Path, size: int, kept: float) -> None:
    packed = gzip.compress(TEXT)
    (tmp_path / "a.fa.gz").write_bytes(packed[: int(len(packed) * kept)])
    (tmp_path / "b.fa").write_bytes(TEXT)
    files = find_files(tmp_path, "**/*", (".fa",), section="dna")
    units = list(cut(files, (".fa",), last_start, size=size))
    ((reject, name),) = [(each, unit.places[each.file][1]) for unit in units for each in unit.rejects]
    assert (name, reject.reason) == ("a.fa.gz", "damaged_file")
    found = [record for unit in units for record in records_of(unit)]
    first = b"".join(text for name, _, text in found if name == "a.fa.gz")
    assert len(first) == reject.offset
    assert TEXT.startswith(first)
    assert TEXT[len(first) :].startswith(b">")
    assert b"".join(text for name, _, text in found if name == "b.fa") == TEXT


def test_trailing_bytes_cost_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.fa.gz").write_bytes(gzip.compress(TEXT) + b"trailing")
    files = find_files(tmp_path, "**/*", (".fa",), section="dna")
    (unit,) = cut(files, (".fa",), last_start)
    assert unit.payload == TEXT
    assert [each.offset for each in unit.rejects] == [len(TEXT)]


def test_a_record_ends_with_its_file(tmp_path: Path) -> None:
    for name, text in (("a.fa", b">1\nA\n"), ("b.fa", b"\nnot of 1\n>2\nC\n")):
        (tmp_path / name).write_bytes(text)
    (unit,) = cut(find_files(tmp_path, "**/*", (".fa",), section="dna"), (".fa",), last_start)
    assert [*unit.records(rb"(?m)^>")] == [(b">1\nA\n", 0, 0), (b">2\nC\n", 1, 10)]


def test_members_of_an_archive_have_places_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"x.fa": b">1\nA\n", "empty.fa": b"", "y.fa": b">2\nC\n"}))
    files = find_files(tmp_path, "**/*", (".fa",), section="dna")
    (unit,) = cut(files, (".fa",), last_start)
    assert [(each.name, each.member, each.whole) for each in unit.stretches] == [
        ("a.tar/x.fa", 0, True),
        ("a.tar/empty.fa", 1, True),
        ("a.tar/y.fa", 2, True),
    ]
    assert records_of(unit) == [("a.tar/x.fa", 0, b">1\nA\n"), ("a.tar/y.fa", 0, b">2\nC\n")]


def test_what_cannot_be_read_is_a_reject_of_its_member(tmp_path: Path) -> None:
    link = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
    bomb, whole = gzip.compress(bytes(300 << 20)), b">1\nA\n"
    members: Members = {"link.fa": link, "inner.zip": b"PK", "bomb.fa.gz": bomb, "whole.fa": whole}
    (tmp_path / "a.tar").write_bytes(tar(members))
    units = list(cut(find_files(tmp_path, "**/*", (".fa",), section="dna"), (".fa",), last_start))
    assert {unit.places[each.file][1]: each.reason for unit in units for each in unit.rejects} == {
        "a.tar/link.fa": "not_a_file",
        "a.tar/inner.zip": "nested_archive",
        "a.tar/bomb.fa.gz": "decompression_bomb",
    }
    assert [record for unit in units for record in records_of(unit)] == [("a.tar/whole.fa", 0, b">1\nA\n")]


def test_a_file_without_a_member_that_counts_has_a_place(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({}))
    (unit,) = cut(find_files(tmp_path, "**/*", (".fa",), section="dna"), (".fa",), last_start)
    assert (unit.places, unit.raw_bytes) == (((0, "a.tar"),), (tmp_path / "a.tar").stat().st_size)


SIZES = st.lists(st.tuples(st.integers(0, 25), st.booleans()), max_size=40)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES, st.integers(1, 9))
def test_units_of_a_cutter_are_joined_up_to_a_size_and_a_number_of_files(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, bool]], most: int
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    (folder / "a.fa").write_bytes(b"anything")

    def cutter(text: MemberText) -> Iterator[Unit]:
        for number, (size, alone) in enumerate(sizes):
            yield text.unit(number, bytes([number]) * size, detail=alone)

    def weigh(unit: Unit) -> int:
        return 21 if unit.stretches[0].detail else len(unit.payload)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("outofcore.raw.cutting.MOST_FILES", most)
        files = find_files(folder, "**/*", (".fa",), section="fasta")
        joined = [*cut_by(cutter, files, (".fa",), 20, weigh=weigh)]
    parts = [(each, unit.payload[each.start : each.stop]) for unit in joined for each in unit.stretches]
    if sizes:
        assert [(each.offset, each.detail, part) for each, part in parts] == [
            (number, alone, bytes([number]) * size) for number, (size, alone) in enumerate(sizes)
        ]
    assert sum(unit.raw_bytes for unit in joined) == 8
    for unit in joined:
        several = len(unit.stretches) > 1
        assert not several or (len(unit.payload) <= 20 and not any(each.detail for each in unit.stretches))
        assert len(unit.stretches) <= most
    for unit, following in pairwise(joined):
        alone = unit.stretches[-1].detail or following.stretches[0].detail
        size = len(unit.payload) + following.stretches[0].stop
        assert alone or size > 20 or len(unit.stretches) == most
