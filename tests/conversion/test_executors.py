"""Results in order, a bounded number ahead, and nothing more once somebody has stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import in_order, open_executor
from outofcore.conversion.run import Conversion
from outofcore.errors import SpaceError
from outofcore.raw.files import find_files
from outofcore.raw.unit import Unit, UnitResult
from tests.conversion.lines import Lines, LinesSection, convert_lines, write_lines


def test_results_come_in_the_order_of_the_items() -> None:
    with ThreadPoolExecutor(3) as pool, closing(in_order(pool, lambda item: item * item, range(50), 4)) as found:
        assert list(found) == [(item, item * item) for item in range(50)]


class Counting(Lines):
    """Lines that count the units which are converted; each waits until it may."""

    converted = 0
    allowed = threading.Semaphore(0)

    def converter(self, section: object, rate: object) -> object:
        del section, rate
        return self._convert

    @classmethod
    def _convert(cls, unit: Unit) -> UnitResult:
        cls.allowed.acquire()
        cls.converted += 1
        return convert_lines(unit)


def test_no_unit_is_converted_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "converted", 0)
    monkeypatch.setattr(Counting, "allowed", threading.Semaphore(1))
    write_lines(tmp_path / "raw", np.random.default_rng(5))
    files = find_files(tmp_path / "raw", "**/*", (".txt",), section="lines")
    conversion = Conversion(Counting(), LinesSection(), files, tmp_path / "lines.zarr", tmp_path / "rejects.csv")

    def stop(*_: int) -> None:
        for _ in range(100):
            Counting.allowed.release()
        raise SpaceError("full")

    with pytest.raises(SpaceError):
        conversion.run(Estimate(0, 0, 0, 0), executor=open_executor("threads", 1), workers=1, watch=stop)
    assert Counting.converted <= 3  # one that was done, and what the worker had in hand


def test_an_error_while_saving_does_not_hide_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "raw", np.random.default_rng(5))
    files = find_files(tmp_path / "raw", "**/*", (".txt",), section="lines")
    conversion = Conversion(Lines(), LinesSection(), files, tmp_path / "lines.zarr", tmp_path / "rejects.csv")
    calls: list[str] = []

    def broken(*_: object) -> None:
        calls.append("save")
        raise KeyboardInterrupt

    def stop(*_: int) -> None:
        raise SpaceError("full")

    monkeypatch.setattr("outofcore.conversion.journal.Journal.save", broken)
    with pytest.raises(SpaceError):
        conversion.run(Estimate(0, 0, 0, 0), executor=open_executor("threads", 1), workers=1, watch=stop)
    assert calls == ["save"]


SCRIPT = """
import outofcore
text = "".join(f'[White "{number}"]\\n\\n1. e4 e5 2. Nf3 1-0\\n\\n' for number in range(200))
open("games.pgn", "w").write(text)
outofcore.convert("chess", "games.pgn", "chess.zarr")
"""


def test_a_script_without_a_guard_learns_of_it_with_engine_processes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT)
    environment = os.environ | {"OUTOFCORE_ENGINE": "processes", "OUTOFCORE_WORKERS": "1"}
    run = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode
    assert "memory" not in run.stderr.splitlines()[-1]
    assert "below 'if __name__ == \"__main__\":'" in run.stderr.splitlines()[-1]


def test_ctrl_c_reaches_no_worker_process() -> None:
    with open_executor("processes", 1) as executor:
        worker = executor.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert executor.submit(os.getpid).result() == worker


SPAWNED = """
import multiprocessing
import outofcore

if __name__ == "__main__":
    get_context, methods = multiprocessing.get_context, []
    multiprocessing.get_all_start_methods = lambda: ["spawn"]
    multiprocessing.get_context = lambda method: methods.append(method) or get_context(method)
    print(outofcore.convert("chess", "games.pgn", "chess.zarr")["digest"], *methods)
"""


def test_worker_processes_are_spawned_where_nothing_else_starts_one(tmp_path: Path) -> None:
    games = (f'[White "{number}"]\n\n1. e4 e5 2. Nf3 1-0\n\n' for number in range(200))
    (tmp_path / "games.pgn").write_text("".join(games))
    (tmp_path / "mine.py").write_text(SPAWNED)

    def told(engine: str) -> str:
        environment = os.environ | {"OUTOFCORE_ENGINE": engine, "OUTOFCORE_WORKERS": "2"}
        command = [sys.executable, "mine.py"]
        return subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)

    digest = told("threads").strip()
    assert set(told("processes").split()) == {digest, "spawn"}
