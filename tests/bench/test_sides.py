"""Sides run in processes of their own, in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.results import speed_rows
from harness.sides import Side, compare, once
from tests.pipeline.conftest import ROOT


def counted(size: int) -> Callable[[], Iterator[int]]:
    return lambda: iter([size] * 10)


def broken() -> Callable[[], Iterator[int]]:
    os._exit(3)


def process() -> int:
    return os.getpid()


@pytest.fixture(scope="module", autouse=True)
def _where_tests_are_found() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    sides = [
        Side("one", counted, {"size": 1}),
        Side("broken", broken, python=Path(sys.executable)),
        Side("ten", counted, {"size": 10}),
    ]
    return compare(sides, rounds=2, seconds=0.01)


def test_each_side_has_a_rate_per_round(measured: dict[str, Any]) -> None:
    assert {name: len(each.rates) for name, each in measured.items()} == {"one": 2, "broken": 0, "ten": 2}
    assert min(measured["one"].rates + measured["ten"].rates) > 0


def test_rows_have_ratios_and_name_what_could_not_be_run(measured: dict[str, Any]) -> None:
    rows = speed_rows(measured, "samples/s", dict.fromkeys(measured, "one"))
    speeds = {row.label: row for row in rows if row.unit == "samples/s"}
    assert speeds["one"].ratio == 1
    assert speeds["ten"].against == "one"
    assert speeds["broken"].value == "could not be run"


def test_a_side_of_our_own_that_fails_ends_the_comparison() -> None:
    with pytest.raises(RuntimeError, match="broken could not be run"):
        compare([Side("broken", broken)], rounds=1, seconds=0.01)


def test_a_function_runs_once_in_another_process() -> None:
    assert once(process) != os.getpid()
