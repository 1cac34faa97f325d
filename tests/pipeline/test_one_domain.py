"""A clone that became a project of one domain, with input of its own: what a colleague gets, and what runs again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outofcore.store.verify import verify
from outofcore.system.durable import replace_text
from tests.pipeline.conftest import STAGES, Project

pytestmark = [pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(900)]


def test_the_other_domains_neither_run_nor_fail(own: Project) -> None:
    assert own.dvc("stage", "list", "--name-only").split() == list(STAGES)
    assert own.dvc("status").strip().endswith("up to date.")
    assert "never run or pulled here" not in own.run("outofcore", "committed")
    shown = own.dvc("metrics", "show", "--json")
    assert "chess" in shown
    page = own.read("reports/index.html")
    assert 'id="chess"' in page
    for other in ("go", "text", "neural"):
        assert f"metrics/{other}/" not in shown
        assert f'id="{other}"' not in page
    assert "convert@go" not in page


def test_a_colleague_gets_all_and_runs_nothing(own: Project, tmp_path: Path) -> None:
    assert "data/raw/chess.dvc" in own.git("ls-files", "data/raw")
    remote = tmp_path / "remote"
    own.dvc("remote", "add", "--local", "-f", "-d", "shared", str(remote))
    own.run("outofcore", "committed")
    own.dvc("push", "-q", "--run-cache")
    other = Project(tmp_path / "else" / "where")
    other.folder.parent.mkdir()
    own.run("git", "clone", "-q", str(own.folder), str(other.folder))
    other.dvc("remote", "add", "--local", "-d", "shared", str(remote))
    other.dvc("pull", "-q", "--run-cache", OUTOFCORE_WORKERS="1")
    ran = re.findall("Running stage '(.*)'", other.dvc("repro", OUTOFCORE_WORKERS="1"))
    assert ran == []
    assert other.git("status", "--porcelain") == ""
    other.run("outofcore", "committed")
    assert verify(other.folder / "data/stores/chess.zarr").problems == ()
    assert {path.name for path in (other.folder / "data/raw/chess").iterdir()} == {
        path.name for path in (own.folder / "data/raw/chess").iterdir()
    }
    other.run("python", "stages/report.py")
    assert 'id="chess"' in other.read("reports/index.html")


def test_input_outside_of_the_project_is_known_by_its_digest(own: Project, tmp_path: Path) -> None:
    games = tmp_path / "games"
    shutil.copytree(own.folder / "data/raw/chess", games)
    author = Project(tmp_path / "author")
    own.run("git", "clone", "-q", str(own.folder), str(author.folder))
    params = author.folder / "params.yaml"
    params.write_text(params.read_text().replace("raw: data/raw/chess", f"raw: {games}"))
    author.dvc("repro", "-q", "convert@chess")
    author.git("commit", "-q", "-a", "-m", "games elsewhere")
    games.rename(tmp_path / "gone")  # a machine that does not have them
    author.dvc("repro", "convert@chess", code=255)
    assert "Running stage" not in author.dvc("repro", "--allow-missing", "convert@chess")


def edit(name: str, old: str, new: str) -> Callable[[Project], None]:
    def apply(project: Project) -> None:
        text = project.read(name)
        assert old in text, name
        (project.folder / name).write_text(text.replace(old, new, 1))

    return apply


VERSIONS = "src/outofcore/domains/versions.py"


def comment(project: Project) -> None:
    with (project.folder / "src/outofcore/domains/chess/network.py").open("a") as file:
        file.write("\n\n# A comment.\n")


def more_games(project: Project) -> None:
    (project.folder / "data/raw/chess/more.pgn").write_text('[Event "?"]\n\n1. e4 e5 *\n')


def machine(project: Project) -> None:
    (project.folder / "machine.yaml").write_text("workers: 1\nmemory: 2GB\n")


NOTHING, CHECK = frozenset[str](), frozenset({"check@chess"})
CONVERT, TRAIN = CHECK | {"convert@chess"}, CHECK | {"train@chess"}
MODEL = TRAIN | {"evaluate@chess"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(more_games, {"convert@chess", "chess.dvc"}, id="raw file added"),
        pytest.param(edit("params.yaml", "min_plies: 1", "min_plies: 2"), CONVERT, id="filter"),
        pytest.param(edit("params.yaml", "planes: 18", "planes: 12"), TRAIN, id="tensors"),
        pytest.param(edit(VERSIONS, "(bytes=", "(bytes=9"), CONVERT, id="version of the bytes"),
        pytest.param(edit(VERSIONS, "training=", "training=9"), MODEL, id="version of training"),
        pytest.param(edit("requirements.lock", "numcodecs==", "numcodecs>="), CHECK, id="versions"),
        pytest.param(comment, NOTHING, id="comment"),
        pytest.param(machine, NOTHING, id="machine"),
    ],
)
def test_a_change_runs_again_what_it_concerns(
    own: Project, change: Callable[[Project], None], expected: set[str]
) -> None:
    checked = {path: path.read_text() for path in (own.folder / "data/checked").glob("chess.*")}
    changed_code = Project(own.folder, own.folder / "src")
    change(own)
    try:
        # Bytecode is known by a file's size and second: two edits of as many characters look alike.
        changed_code.run("python", "stages/check.py", "chess", PYTHONDONTWRITEBYTECODE="1")
        changed = set(json.loads(changed_code.dvc("status", "--json")))
    finally:
        for path, text in checked.items():
            replace_text(path, text)
        for path in ("machine.yaml", "data/raw/chess/more.pgn"):
            (own.folder / path).unlink(missing_ok=True)
        own.git("checkout", "-q", "--", ".")
    assert {name.rpartition("/")[2] for name in changed} == expected


def stages_run(told: str) -> list[str]:
    return [line.split("'")[1] for line in told.splitlines() if line.startswith("Running stage")]


def test_settings_of_another_domain_concern_it_only(project: Project) -> None:
    change = edit("params.yaml", "min_moves: 1", "min_moves: 2")
    before = project.dvc("status", "--with-deps", "train@chess")
    change(project)
    try:
        assert project.dvc("status", "--with-deps", "train@chess") == before
    finally:
        project.git("checkout", "-q", "--", ".")
