"""The tour tells each step before it takes it, and stops where one fails."""

from __future__ import annotations

import importlib.util
import shlex
import sys
import time
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

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


def follow(
    tour: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, fails: str = ""
) -> list[tuple[tuple[str, ...], Path]]:
    taken: list[tuple[tuple[str, ...], Path]] = []

    def run(step: Any, where: Path) -> int:
        taken.append((step.command, where))
        return int(bool(fails) and fails in step.command)

    monkeypatch.setattr(tour, "run", run)
    tour.main(folder)
    return taken


def test_every_step_is_told_and_taken(
    tour: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    taken = follow(tour, monkeypatch, tmp_path)
    told = capsys.readouterr().out
    assert taken == [(step.command, tmp_path) for step in tour.STEPS]
    places = [told.index(step.title) for step in tour.STEPS]
    assert places == sorted(places)
    assert all(f"$ {shlex.join(command)}" in told for command, _ in taken if "-c" not in command)


def test_it_stops_where_a_step_fails(
    tour: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as stopped:
        follow(tour, monkeypatch, tmp_path, fails="convert@chess")
    assert stopped.value.code == 1
    told = capsys.readouterr().out
    assert "this step failed" in told
    assert "What is in the store" not in told


def test_its_python_is_python(tour: ModuleType) -> None:
    for step in tour.STEPS:
        if step.command[1] == "-c":
            compile(step.command[2], step.title, "exec")


def test_a_command_is_stopped_once_its_file_appears(tour: ModuleType, tmp_path: Path) -> None:
    program = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(300); pathlib.Path('ended').touch()"
    step = tour.Step("training", "", (sys.executable, "-c", program), until="begun")
    assert tour.run(step, tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_ctrl_c_stops_the_command_too(tour: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = dedent("""
        import pathlib, time
        try:
            pathlib.Path("begun").touch()
            time.sleep(60)
        except KeyboardInterrupt:
            pathlib.Path("stopped").touch()
    """)

    def interrupted(seconds: float) -> None:
        time.sleep(seconds)
        if (tmp_path / "begun").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr(tour, "time", SimpleNamespace(sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        tour.run(tour.Step("training", "", (sys.executable, "-c", program), until="never"), tmp_path)
    assert (tmp_path / "stopped").exists()


def test_a_command_that_fails_before_is_a_failure(tour: ModuleType, tmp_path: Path) -> None:
    step = tour.Step("training", "", (sys.executable, "-c", "raise SystemExit(3)"), until="begun")
    assert tour.run(step, tmp_path) == 3
