"""A copy of the project in a repository of its own, run by the real DVC."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import run_dvc

ROOT = Path(__file__).parents[2]
NEEDED = (
    "dvc.yaml",
    "dvc.lock",
    "params.yaml",
    "requirements.lock",
    "stages",
    "src",
    ".dvc/config",
    ".dvcignore",
    "plots",
    "data/tokenizers/given",
)


STAGES = (*(f"{name}@chess" for name in ("sample", "check", "convert", "train", "evaluate")), "report")


@dataclass
class Project:
    """A checkout and the commands that a user types in it.

    ``code`` is imported: that of the tests, whose machine code is compiled already, unless the checkout's was changed.
    """

    folder: Path
    code: Path = ROOT / "src"

    def run(self, *command: str, code: int = 0, **environment: str) -> str:
        """Run a command; its output, both streams, after its exit code was checked."""
        variables = self.environment(**environment)
        ended = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=900, check=False
        )
        return output_of(ended, code)

    def dvc(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Run a DVC command."""
        ended = run_dvc(*arguments, folder=self.folder, environment=self.environment(**environment))
        return output_of(ended, code)

    def environment(self, **more: str) -> dict[str, str]:
        """Variables for a command."""
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.code),
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(self.folder.parent / "site"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{
                f"GIT_{who}_{what}": "tests@example.org"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            "OUTOFCORE_WORKERS": "2",
            **more,
        }

    def git(self, *arguments: str) -> str:
        """Run a git command."""
        return self.run("git", *arguments)

    def read(self, name: str) -> str:
        """A file of the checkout."""
        return (self.folder / name).read_text()


def output_of(ended: subprocess.CompletedProcess[str], code: int) -> str:
    """Both streams of a command, after its exit code was checked."""
    output = ended.stdout + ended.stderr
    assert ended.returncode == code, f"{' '.join(ended.args)} ended with {ended.returncode}:\n{output}"
    return output


def copy_project(folder: Path) -> Project:
    """The project's files in a new repository with one commit."""
    for name in NEEDED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*_run.json"))
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    (folder / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (folder / ".gitignore").write_text("__pycache__/\n*.zarr.work/\n/data/sample/\n/metrics/\n")
    project = Project(folder)
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "the project")
    return project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after the conversion of chess, with short training, committed; tests leave it as it is."""
    project = copy_project(tmp_path_factory.mktemp("pipeline") / "project")
    params = project.folder / "params.yaml"
    params.write_text(params.read_text().replace("max_steps: -1", "max_steps: 3"))
    project.dvc("repro", "convert@chess")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "ran")
    return project


@pytest.fixture(scope="session")
def own(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project after ``dvc repro`` on its own games, committed; tests leave it as it is."""
    own = copy_project(tmp_path_factory.mktemp("own") / "project")
    own.run("outofcore", "init", ".", "--domains", "chess")
    raw = own.folder / "data/raw/chess"
    raw.mkdir(parents=True)
    games = project.read("data/sample/chess/games.pgn")
    (raw / "games.pgn").write_text(games[: games.index("[Event ", len(games) // 2)])
    params = own.folder / "params.yaml"
    text = params.read_text().replace("raw: data/sample/chess", "raw: data/raw/chess")
    params.write_text(text.replace("max_steps: -1", "max_steps: 3"))
    own.dvc("add", "-q", "data/raw/chess")
    told = own.dvc("repro")
    assert told.count("Running stage") == len(STAGES)
    own.git("add", "-A")
    own.git("commit", "-q", "-m", "own games")
    return own
