"""A unit is converted and compared with the oracle in one call, on whatever worker."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from outofcore.domains.units import UNREADABLE, UnitConverter
from outofcore.errors import RawInputError
from outofcore.raw.cutting import cut, halves
from outofcore.raw.files import find_files
from outofcore.raw.unit import LONGEST_DIFFERENCE, Unit, UnitResult, difference


def compare(number: int, answer: str | None) -> str | None:
    if answer == "raise":
        message = f"the oracle does not know {number}"
        raise LookupError(message)
    return answer


@pytest.mark.parametrize("unlucky", [0, 3, 6])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("12, by the oracle 13", "12, by the oracle 13"),
        ("raise", "the oracle raised LookupError: the oracle does not know {}"),
        ("x" * 10**6, "x" * LONGEST_DIFFERENCE),
    ],
)
def test_a_difference_is_told_wherever_it_is(unlucky: int, answer: str, told: str) -> None:
    found = [difference(compare, number, answer if number == unlucky else None) for number in range(7)]
    assert [*filter(None, found)] == [told.format(unlucky)]


def last_start(text: bytes) -> int:
    return text[:-1].rfind(b"\n") + 1


def numbers(unit: Unit) -> UnitResult:
    """A line is a record, its rows are its digits; an x breaks the reader."""
    records = [*unit.records(rb"(?m)^.")]
    lines = [text.strip() for text, _, _ in records]
    rows = [int(digit) for line in lines for digit in line.decode()]
    return UnitResult(
        found=len(lines),
        rows={"digit": np.array(rows, np.uint8)},
        sequences={
            "length": np.array([*map(len, lines)], np.int64),
            "offset": np.array([offset for _, _, offset in records]),
        },
        keys=np.frombuffer(b"".join(line.ljust(16) for line in lines), np.uint8).reshape(-1, 16),
        file=np.array([file for _, file, _ in records], np.int64),
        counts={"digits": len(rows)},
    )


def numbers_in_test(unit: Unit) -> UnitResult:
    """A domain that decides the splits."""
    result = numbers(unit)
    return replace(result, split=np.array(["test"] * len(result.keys)))


@pytest.mark.parametrize("bad", [[], [0], [4], [9], [3, 4, 8], [*range(10)]])
@pytest.mark.parametrize("per_file", [1, 4, 10])
def test_an_error_costs_the_record_that_it_is_of(tmp_path: Path, bad: list[int], per_file: int) -> None:
    lines = [f"{'x' if number in bad else ''}{number}{number}\n".encode() for number in range(10)]
    for first in range(0, 10, per_file):
        (tmp_path / f"{first}.txt").write_bytes(b"".join(lines[first : first + per_file]))
    files = find_files(tmp_path, "**/*", (".txt",), section="lines")
    (unit,) = cut(files, (".txt",), last_start)
    divided = partial(halves, last_start=last_start)
    result = UnitConverter(numbers, divided)(unit)
    assert result.found == 10
    wrong = [(unit.places[each.file][1], each.offset) for each in result.rejects]
    ends = np.cumsum([len(line) for line in lines])
    origin = [
        (f"{n - n % per_file}.txt", int(ends[n] - len(lines[n]) - (ends[n - n % per_file - 1] if n >= per_file else 0)))
        for n in range(10)
    ]
    assert wrong == [origin[number] for number in bad]
    assert {each.reason for each in result.rejects} <= {UNREADABLE}
    good = [number for number in range(10) if number not in bad]
    assert result.keys.tobytes() == b"".join(f"{number}{number}".encode().ljust(16) for number in good)
    if good:
        assert result.rows["digit"].tolist() == [number for number in good for _ in range(2)]
        names = [unit.places[file][1] for file in result.places.tolist()]
        assert list(zip(names, result.sequences["offset"].tolist(), strict=True)) == [origin[number] for number in good]
        decided = UnitConverter(numbers_in_test, divided)(unit).split
        assert decided is not None
        assert decided.tolist() == ["test"] * len(good)
    assert result.split is None
    assert sum(result.counts.values()) == 2 * len(good)


def test_an_error_in_what_cannot_be_divided_is_one_line() -> None:
    with pytest.raises(
        RawInputError, match=r"^a, at byte 7: the reader raised ValueError: two lines; leave the file out"
    ):
        UnitConverter(broken, None)(Unit(source=0, name="a", offset=7))


def broken(_: Unit) -> UnitResult:
    message = "two\nlines"
    raise ValueError(message)


SCRIPT = """
import sys
from pathlib import Path
import outofcore

game = '[White "{}"]\\n\\n1. e4 e5 2. {} 1-0\\n\\n'
text = "".join(game.format(number, move) for number, move in enumerate(["Nf3", "Nc3", "d4"] * 40))
Path(sys.argv[1], "games.pgn").write_text(text)
figures = outofcore.convert("chess", Path(sys.argv[1], "games.pgn"), Path(sys.argv[1], "chess.zarr"))
print(figures["accepted"], figures["audited"])
"""


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT)
    run = subprocess.run([sys.executable, "mine.py", "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "120 120\n"), run.stderr
