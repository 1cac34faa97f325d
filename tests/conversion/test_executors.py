"""Results in order, a bounded number ahead, and nothing more once somebody has stopped."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.errors import SpaceError
from outofcore.raw.files import find_files
from outofcore.raw.unit import Unit, UnitResult
from outofcore.system.parallel import in_order
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
