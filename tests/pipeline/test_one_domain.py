"""A clone that became a project of one domain, with input of its own: what a colleague gets, and what runs again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def case(name: str, change: Callable[[Project], None], expected: frozenset[str], *, long: bool = True) -> Any:
    """A case of the table; ``make test`` runs one of each kind of dependency: settings, versions, none."""
    return pytest.param(change, expected, id=name, marks=pytest.mark.long if long else ())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        case("raw file added", more_games, frozenset({"convert@chess", "chess.dvc"})),
        case("filter", edit("params.yaml", "min_plies: 1", "min_plies: 2"), CONVERT, long=False),
        case("tensors", edit("params.yaml", "planes: 18", "planes: 12"), TRAIN),
        case("version of the bytes", edit(VERSIONS, "(bytes=", "(bytes=9"), CONVERT),
        case("version of training", edit(VERSIONS, "training=", "training=9"), MODEL, long=False),
        case("versions", edit("requirements.lock", "numcodecs==", "numcodecs>="), CHECK),
        case("comment", comment, NOTHING, long=False),
        case("machine", machine, NOTHING),
    ],
)
def test_a_change_runs_again_what_it_concerns(
    own: Project, change: Callable[[Project], None], expected: frozenset[str]
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


def test_settings_of_another_domain_concern_it_only(project: Project) -> None:
    change = edit("params.yaml", "min_moves: 1", "min_moves: 2")
    before = project.dvc("status", "--with-deps", "train@chess")
    change(project)
    try:
        assert project.dvc("status", "--with-deps", "train@chess") == before
    finally:
        project.git("checkout", "-q", "--", ".")
