"""A conversion gives the same bytes for any cutting, any workers and any interruption, and counts every record."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.domains.sections import Filters
from outofcore.domains.splits import SPLITS
from outofcore.errors import AuditError, ParamsError, RawInputError, StoreError
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.reader import Store, open_store
from outofcore.store.verify import verify
from outofcore.store.writer import StoreWriter
from tests.conversion.lines import Lines, LinesSection, convert, convert_lines, stop


def sequences(store: Store) -> dict[str, list[list[int]]]:
    found = {}
    for split in store.splits:
        numbers = store.rows(split)["number"].read()
        table = store.sequences(split).read()
        found[split] = [
            numbers[start : start + length].tolist()
            for start, length in zip(table["start"], table["length"], strict=True)
        ]
    return found


def test_every_record_is_stored_once_or_rejected_with_its_reason(raw: Path, tmp_path: Path) -> None:
    outcome = convert(raw, tmp_path)
    lines = [line for name in ("a.txt", "b.txt") for line in (raw / name).read_text().split("\n")[:-1]]
    good = [line for line in lines if line and "x" not in line]
    figures = outcome.figures
    assert figures["found"] == len(lines)
    assert figures["accepted"] + sum(figures["rejected"].values()) == figures["found"]
    assert figures["rejected"] == {
        "duplicate": len(good) - len(set(good)),
        "empty": lines.count(""),
        "no_number": lines.count("1 2 x"),
    }
    store = open_store(tmp_path / "lines.zarr")
    stored = sequences(store)
    assert Counter(tuple(each) for split in stored.values() for each in split) == Counter(
        tuple(map(int, line.split())) for line in set(good)
    )
    in_order = list(dict.fromkeys(good))
    for split in SPLITS:
        places = [in_order.index(" ".join(map(str, each))) for each in stored[split]]
        assert places == sorted(places)
    assert verify(tmp_path / "lines.zarr").problems == ()
    assert sum(figures["rows"].values()) == sum(map(len, (line.split() for line in set(good))))


def test_no_cell_of_the_rejects_is_a_formula(raw: Path, tmp_path: Path) -> None:
    (raw / "=cmd|' !A0.txt").write_text("\n")
    (raw / "'=1.txt").write_text("\n")
    (raw / "'plain'.txt").write_text("\n")
    convert(raw, tmp_path)
    with (tmp_path / "rejects.csv").open(newline="") as stream:
        names = [row["file"] for row in csv.DictReader(stream)]
    assert {"'=cmd|' !A0.txt", "''=1.txt", "'plain'.txt"} <= set(names)


def test_a_terminal_obeys_nothing_in_the_rejects(raw: Path, tmp_path: Path) -> None:
    name = "\x1b[31mred\u202e\x9b.txt"
    (raw / name).write_text("\n")
    outcome = convert(raw, tmp_path)
    content = (tmp_path / "rejects.csv").read_bytes()
    assert {*range(0x20), 0x7F} & {*content} == {0x0A}
    with (tmp_path / "rejects.csv").open(newline="", encoding="utf-8") as stream:
        listed = [row["file"] for row in csv.DictReader(stream)]
    assert len(listed) == sum(outcome.figures["rejected"].values())
    assert r"\x1b[31mred\u202e\x9b.txt" in listed


def test_rejects_are_listed_with_file_offset_and_reason(raw: Path, tmp_path: Path) -> None:
    outcome = convert(raw, tmp_path)
    with (tmp_path / "rejects.csv").open(newline="") as stream:
        listed = list(csv.DictReader(stream))
    assert Counter(row["reason"] for row in listed) == outcome.figures["rejected"]
    for row in listed:
        rest = (raw / row["file"]).read_bytes()[int(row["offset"]) :]
        line = rest.split(b"\n", 1)[0]
        assert {"empty": line == b"", "no_number": line == b"1 2 x", "duplicate": True}[row["reason"]]
    sources = open_store(tmp_path / "lines.zarr").sources.read()
    assert sources["name"].tolist() == ["a.txt", "b.txt"]
    assert sources["found"].sum() == outcome.figures["found"]
    assert (sources["accepted"] + sources["rejected"] == sources["found"]).all()


def test_rejects_that_cannot_be_written_cost_no_conversion(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = convert(raw, tmp_path / "expected").seal.digest
    out = tmp_path / "out"
    copy = shutil.copyfile

    def refused(source: Path, target: Path) -> Path:
        if Path(target).parent == out:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return copy(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", refused)
        with pytest.raises(StoreError, match=r"rejects\.csv cannot be written: Permission denied"):
            convert(raw, out)
    assert [path.name for path in out.iterdir()] == ["lines.zarr.work"]
    again = convert(raw, out)
    assert again.resumed_units > 0
    assert again.seal.digest == expected
    assert (out / "rejects.csv").read_bytes() == (tmp_path / "expected" / "rejects.csv").read_bytes()


@pytest.mark.parametrize(
    ("domain", "workers"),
    [
        (Lines(), 1),
        (Lines(), 5),
        (Lines(unit_bytes=1), 2),
        (Lines(unit_bytes=10**6), 2),
        (Lines(piece=7), 3),
        (Lines(piece=10**6), 2),
    ],
)
def test_neither_workers_nor_cuts_show(raw: Path, tmp_path: Path, domain: Lines, workers: int) -> None:
    expected = convert(raw, tmp_path / "expected").seal.digest
    assert convert(raw, tmp_path / "other", domain, workers=workers).seal.digest == expected


STOPS = (1, 2, 22, 57)


@pytest.mark.parametrize("domain", [Lines(), Lines(unit_bytes=40, piece=5)])
def test_a_stopped_conversion_goes_on_with_the_same_bytes(raw: Path, tmp_path: Path, domain: Lines) -> None:
    expected = convert(raw, tmp_path / "expected").seal.digest
    resumed = []
    for units in STOPS:
        out = tmp_path / f"stopped{units}"
        stop(raw, out, units, domain)
        assert not (out / "lines.zarr").exists()
        outcome = convert(raw, out, domain)
        assert outcome.seal.digest == expected
        resumed.append(outcome.resumed_units)
        assert not (out / "lines.zarr.work").exists()
    assert resumed == list(STOPS)


def test_other_params_or_input_start_afresh(raw: Path, tmp_path: Path) -> None:
    for change in ("section", "input", "schema"):
        out = tmp_path / change
        stop(raw, out, 10)
        section, domain = LinesSection(), Lines()
        if change == "schema":
            domain = Lines(doc="something else")
        elif change == "section":
            section = LinesSection.model_validate({"filters": {"duplicates": "keep"}})
        else:
            (raw / "a.txt").write_text("7 7 7\n")
        outcome = convert(raw, out, domain, section)
        assert outcome.resumed_units == 0
        assert outcome.seal.digest == convert(raw, tmp_path / f"{change}-fresh", domain, section).seal.digest


def test_a_difference_between_engine_and_oracle_seals_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("1 2 3\n13131313 4\n")
    with pytest.raises(
        AuditError,
        match=r"the engine and its oracle differ, nothing .* Differences: 1; the first: a\.txt: 13131313 is",
    ):
        convert(tmp_path / "raw", tmp_path)
    assert not (tmp_path / "lines.zarr").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "they are empty"),
        ("x\ny\n\n", r"no_number 2, as a\.txt at byte 0: invalid literal .* b'x'; empty 1, as a\.txt at byte 4"),
    ],
)
def test_an_input_without_any_record_seals_nothing_and_lists_all(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text(content)
    expected = rf"none of the \d records in 1 files was accepted, so there is no store: {told}; all are listed in"
    with pytest.raises(RawInputError, match=expected):
        convert(tmp_path / "raw", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw", "rejects.csv"]
    assert len((tmp_path / "rejects.csv").read_text().splitlines()) == 1 + len(content.splitlines())


@pytest.mark.parametrize("piece", [50, 4])
def test_figures_of_sequences_are_of_what_is_stored(tmp_path: Path, piece: int) -> None:
    """A dropped duplicate counts as rejected, and nowhere else; also one that comes in pieces."""
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.txt").write_text("1 2 3 4 5 6\n22 3\n22 3\n1 2 3 4 5 6\n")
    figures = convert(raw, tmp_path, Lines(piece=piece)).figures
    assert figures["rejected"] == {"duplicate": 2}
    assert sum(figures["rows"].values()) == 8
    assert figures["numbers"] == 8
    assert figures["digits"] == 2 * (6 + 3)  # of the input


class NeverFinished(Lines):
    def converter(self, section: Any, rate: Any) -> Any:
        del section, rate
        return lambda unit: replace(convert_lines(unit), unfinished=True)


def test_a_sequence_that_no_unit_continues_ends_there(raw: Path, tmp_path: Path) -> None:
    """As where a file ends early: a domain cannot always know which piece is the last."""
    expected = convert(raw, tmp_path / "expected", Lines(piece=7)).seal.digest
    assert convert(raw, tmp_path, NeverFinished(piece=7)).seal.digest == expected
    assert verify(tmp_path / "lines.zarr").problems == ()


def test_keys_of_pieces_drop_no_sequence_that_begins_as_another(tmp_path: Path) -> None:
    """Where each piece of a long line has a key of its own, only the setting that keeps duplicates is possible."""

    class KeyedPieces(Lines):
        def converter(self, section: Any, rate: Any) -> Any:
            del section, rate

            def keyed(unit: Unit) -> UnitResult:
                digest = np.frombuffer(hashlib.blake2b(unit.payload, digest_size=16).digest(), np.uint8)
                return replace(convert_lines(unit), keys=digest[None])

            return keyed

    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.txt").write_text("1 2 3 4 5 6\n1 2 3 4 5 7\n")
    with pytest.raises(ParamsError, match=r"filters\.duplicates: expected keep"):
        convert(tmp_path / "raw", tmp_path, KeyedPieces(piece=4))
    kept = LinesSection(filters=Filters(duplicates="keep"))
    assert convert(tmp_path / "raw", tmp_path, KeyedPieces(piece=4), kept).figures["accepted"] == 2


def test_free_space_is_checked_with_what_waits_to_be_written(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreWriter, "bytes_written", lambda _: 5)
    monkeypatch.setattr(StoreWriter, "bytes_waiting", lambda _: 7)
    seen = set()
    convert(raw, tmp_path, watch=lambda written, waiting: seen.add((written, waiting)))
    assert seen == {(5, 7)}
