"""A unit is converted and compared with the oracle in one call, on whatever worker."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from outofcore.conversion.units import Audited
from outofcore.raw.unit import LONGEST_DIFFERENCE, Unit, UnitResult

UNIT = Unit(source=0, name="a", offset=0)


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
    audits = tuple(partial(compare, number, answer if number == unlucky else None) for number in range(7))
    keys = np.zeros((9, 16), np.uint8)
    result = Audited(lambda _: UnitResult(found=9, rows={}, sequences={}, keys=keys, audits=audits, audited=2))(UNIT)
    assert (result.audits, result.audited) == ((), 9)
    assert result.differences == (told.format(unlucky),)


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
