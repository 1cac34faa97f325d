"""The tour tells each step before it takes it, and stops where one fails."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.pipeline.conftest import ROOT


@pytest.fixture
def tour(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("tour", ROOT / "stages" / "tour.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def follow(tour: ModuleType, monkeypatch: pytest.MonkeyPatch, fails: str = "") -> list[tuple[str, ...]]:
    taken: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_: object) -> SimpleNamespace:
        taken.append(command)
        return SimpleNamespace(returncode=int(bool(fails) and fails in command))

    monkeypatch.setattr(subprocess, "run", run)
    tour.main()
    return taken


def test_every_step_is_told_and_taken(
    tour: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = follow(tour, monkeypatch)
    told = capsys.readouterr().out
    assert taken == [step.command for step in tour.STEPS]
    places = [told.index(step.title) for step in tour.STEPS]
    assert places == sorted(places)
    assert all(f"$ {' '.join(command)}" in told for command in taken if "-c" not in command)


def test_it_stops_where_a_step_fails(
    tour: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        follow(tour, monkeypatch, fails="convert@chess")
    assert stopped.value.code == 1
    told = capsys.readouterr().out
    assert "this step failed" in told
    assert "What came of it" not in told


def test_its_python_is_python(tour: ModuleType) -> None:
    for step in tour.STEPS:
        if step.command[1] == "-c":
            compile(step.command[2], step.title, "exec")
