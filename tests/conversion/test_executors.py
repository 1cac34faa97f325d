"""Results in order, a bounded number ahead, and nothing more once somebody has stopped."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from outofcore.errors import SpaceError
from outofcore.raw.unit import Unit, UnitResult
from outofcore.system.parallel import in_order
from tests.conversion.lines import Lines, after_unit, convert, convert_lines, full


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


def test_no_unit_is_converted_after_a_stop(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "converted", 0)
    monkeypatch.setattr(Counting, "allowed", threading.Semaphore(1))

    def release_and_stop(*_: int) -> None:
        for _ in range(100):
            Counting.allowed.release()
        full()

    with pytest.raises(SpaceError):
        convert(raw, tmp_path, Counting(), watch=release_and_stop)
    assert Counting.converted <= 3  # one that was done, and what the worker had in hand


def test_an_error_while_saving_does_not_hide_the_first(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def broken(*_: object) -> None:
        calls.append("save")
        raise KeyboardInterrupt

    monkeypatch.setattr("outofcore.conversion.journal.Journal.save", broken)
    with pytest.raises(SpaceError):
        convert(raw, tmp_path, watch=after_unit(0, full))
    assert calls == ["save"]
