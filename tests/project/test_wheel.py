"""An installed wheel writes projects whose first stages run, with no repository around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def builder() -> int:
    try:
        return int(version("setuptools").split(".")[0])
    except PackageNotFoundError:
        return 0


@pytest.mark.long
@pytest.mark.skipif(builder() < 77, reason="building without network needs setuptools 77 in this environment")
def test_a_project_of_an_installed_wheel(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, sources)
    for name in ("src", "stages"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    subprocess.run([sys.executable, "-c", BUILD, tmp_path], cwd=sources, check=True, capture_output=True)
    shutil.rmtree(sources)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(folder: Path, *arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    told = run(tmp_path, "-c", "from outofcore.cli import main; main()", "init", "p", "--domains", "text")
    assert "new      stages/tokenizer.py" in told
    project = tmp_path / "p"
    assert str(tmp_path) in run(project, "-c", "import outofcore; print(outofcore.__file__)")
    for stage in ("sample", "check"):
        run(project, f"stages/{stage}.py", "text")
    assert any((project / "data/sample/text").iterdir())
    assert "\ntokenizers " in (project / "data/checked/text.convert").read_text()
    assert (project / "data/checked/text.train").read_text().startswith("training of text ")
