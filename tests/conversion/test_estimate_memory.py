"""A conversion keeps to the memory that is stated, or names in one line how much it takes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from outofcore.conversion.estimate import AHEAD, ConversionForecast, Estimate
from outofcore.errors import BudgetError
from tests.processes import run_program

MB = 10**6
PROGRAM = """
import json, sys, threading, time
import psutil
import outofcore
from outofcore.errors import OutOfCoreError

peak = 0

def watch():
    global peak
    while True:
        peak = max(peak, psutil.Process().memory_info().rss)
        time.sleep(0.002)

threading.Thread(target=watch, daemon=True).start()
try:
    figures = outofcore.convert("chess", sys.argv[1], sys.argv[2])
    print(json.dumps({"rows": sum(figures["rows"].values()), "peak": peak}))
except OutOfCoreError as error:
    sys.exit(str(error))
"""


def test_the_figure_that_a_refusal_names_suffices_and_is_kept(tmp_path: Path) -> None:
    moves = " ".join(f"{number}. Nf3 Nf6 {number + 1}. Ng1 Ng8" for number in range(1, 120, 2))
    game = f'[Event "e"]\n[White "{{}}"]\n[Black "b"]\n\n{moves} 1/2-1/2\n\n'
    (tmp_path / "games.pgn").write_text("".join(game.format(number) for number in range(500)))

    def convert(memory: str) -> subprocess.CompletedProcess[str]:
        limits = {"OUTOFCORE_MEMORY": memory, "OUTOFCORE_WORKERS": "2"}
        return run_program(PROGRAM, "games.pgn", "a.zarr", folder=tmp_path, **limits)

    refused = convert("50MB")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "a.zarr").exists()
    named = re.search(r"^chess: memory is 50\.0 MB, .* to (\d+)MB, or use fewer workers", refused.stderr)
    assert named
    kept = convert(f"{named[1]}MB")
    assert kept.returncode == 0, kept.stderr
    assert json.loads(kept.stdout)["peak"] <= int(named[1]) * MB


@pytest.mark.parametrize(
    ("more", "units"), [(0, AHEAD), (7, AHEAD), (8, AHEAD + 1), (79, AHEAD + 9), (800, AHEAD + 100)]
)
def test_more_memory_allows_more_units_in_flight(more: int, units: int) -> None:
    sample = ConversionForecast(Estimate(0, 0, 0, 0, unit_bytes=8 * MB), (), held_bytes=100 * MB, memory_bytes=330 * MB)
    assert sample.units_ahead("chess", (430 + more) * MB, refuse=True) == units
    assert sample.units_ahead("chess", 100 * MB, refuse=False) == 1
    with pytest.raises(BudgetError, match=r"^chess: memory is 300 MB, .* takes up to 470 MB; .* to 470MB$"):
        sample.units_ahead("chess", 300 * MB, refuse=True)
