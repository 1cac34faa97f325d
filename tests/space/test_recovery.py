"""The advice for a damaged output, followed to the letter with the real DVC."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from outofcore.space.recovery import recovery
from tests.space.conftest import dvc, project


@pytest.fixture(scope="module", params=["hardlink,symlink", "copy"])
def pushed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has run and was pushed to a remote; damaged and mended by each test in turn."""
    folder = tmp_path_factory.mktemp("pushed")
    root = project(folder / "p", f"    remote = r\n[cache]\n    type = {request.param}\n", files=3)
    with (root / ".dvc" / "config").open("a") as config:
        config.write(f"['remote \"r\"']\n    url = {folder / 'remote'}\n")
    for command in (["repro", "-q"], ["push", "-q"]):
        ended = dvc(root, *command)
        assert ended.returncode == 0, ended.stderr
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((root / "out.zarr").iterdir())}


def follow(root: Path, advice: str) -> None:
    """Type the commands that are quoted in an advice, the last one aside where it says "else"."""
    commands = re.findall(r"'([^']*)'", advice)
    for command in commands[:-1] if ", else " in advice else commands:
        program, *arguments = shlex.split(command)
        if program == "dvc":
            ended = dvc(root, *arguments)
        else:
            ended = subprocess.run(command, shell=True, cwd=root, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr


def test_a_bit_that_changed_in_place(pushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pushed)
    before = contents(pushed)
    file = pushed / "out.zarr" / "c.1"
    linked = file.stat().st_nlink > 1
    mode = file.stat().st_mode
    file.chmod(0o644)
    with file.open("r+b") as stream:
        stream.write(bytes([before["c.1"][0] ^ 1]))
    file.chmod(mode)
    found = recovery("out.zarr")
    assert len(found.damaged) == linked
    assert ("1 object of the DVC cache is damaged as well" in found.advice) == linked
    follow(pushed, found.advice)
    assert contents(pushed) == before


def test_objects_that_the_cache_lost(pushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pushed)
    before = contents(pushed)
    shutil.rmtree(pushed / "out.zarr")
    shutil.rmtree(pushed / ".dvc" / "cache" / "files")
    found = recovery("out.zarr")
    assert found.advice.startswith("the DVC cache lacks 1 of its objects: 'dvc pull out.zarr'")
    follow(pushed, found.advice)
    assert contents(pushed) == before


def test_a_store_that_dvc_does_not_know(tmp_path: Path) -> None:
    assert recovery(tmp_path / "a.zarr").advice == f"DVC knows of no {tmp_path / 'a.zarr'}; convert again"
