"""A folder of stores in DVC: what stays is linked and not stored again, and a month can be pulled by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.conversion.test_growing import MONTHS as GAMES
from tests.conversion.test_growing import content, write
from tests.pipeline.conftest import Project, copy_project

pytestmark = [pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(900)]

STORES = Path("data/stores/chess.zarr")
MONTHS = {name: GAMES[name] for name in ("2024-01", "2024-02", "2024-03", "2024-04")}


def months(told: str) -> list[str]:
    return [line.split()[1].rstrip(":") for line in told.splitlines() if line.endswith(": converting")]


def cached(project: Project) -> set[str]:
    folder = project.folder / ".dvc/cache/files/md5"
    return {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose games grow by the month, with all months but one."""
    project = copy_project(tmp_path_factory.mktemp("grown") / "project")
    project.run("outofcore", "init", ".", "--domains", "chess")
    params = project.folder / "params.yaml"
    text = params.read_text()
    for old, new in (
        ("raw: data/sample/chess", "raw: data/raw/chess"),
        ("tags: []", "tags: [White]"),
        ("grow: false", "grow: true"),
        ("max_steps: -1", "max_steps: 3"),
        ("val: 0.05", "val: 0.3"),
        ("test: 0.05", "test: 0.2"),
    ):
        text = text.replace(old, new, 1)
    params.write_text(text)
    (project.folder / "data/raw").mkdir()
    write(project.folder / "data/raw/chess", {name: MONTHS[name] for name in MONTHS if name != "2024-04"})
    assert months(project.dvc("repro", "convert@chess")) == [name for name in MONTHS if name != "2024-04"]
    return project


def test_a_month_that_comes_or_goes_leaves_the_others_as_links(grown: Project) -> None:
    folder = grown.folder / STORES
    first = folder / "2024-01.zarr/seal.json"
    inode, before, cache = first.stat().st_ino, content(folder), cached(grown)
    assert first.stat().st_nlink == 2
    write(grown.folder / "data/raw/chess", {"2024-04": MONTHS["2024-04"]})
    plan = grown.run("outofcore", "plan", "chess", "--json")
    assert json.loads(plan)["domains"][0]["files"] == 1
    assert months(grown.dvc("repro", "convert@chess")) == ["2024-04"]
    after = content(folder)
    assert {name for name in after if after[name] != before.get(name) and name[:7] != "2024-04"} == {"entries.json"}
    assert first.stat().st_ino == inode
    new = [
        path for path in folder.rglob("*") if path.is_file() and path.name != "entries.json" and "2024-04" in str(path)
    ]
    assert len(cached(grown) - cache) <= len(new) + 3  # the folder's list, entries.json, the rejects of all
    rejects = grown.read("data/rejects/chess.csv").splitlines()
    figures = json.loads(grown.read("metrics/chess/convert.json"))
    assert len(rejects) - 1 == figures["rejected"]["duplicate"]
    assert rejects.count(rejects[0]) == 1
    (grown.folder / "data/raw/chess/2024-04.pgn").unlink()
    assert months(grown.dvc("repro", "convert@chess")) == []
    assert content(folder) == before
    assert first.stat().st_ino == inode


@pytest.mark.long
def test_the_folder_is_trained_on_and_a_colleague_pulls_a_month(grown: Project, tmp_path: Path) -> None:
    grown.dvc("repro", "train@chess", "evaluate@chess")
    assert "data/stores/chess.zarr/2024-02.zarr: whole" in grown.run("outofcore", "verify", str(STORES))
    grown.git("add", "-A")
    grown.git("commit", "-q", "-m", "months")
    grown.dvc("remote", "add", "-d", "shelf", str(tmp_path / "remote"))
    grown.dvc("push", "-q", "convert@chess")
    grown.git("commit", "-q", "-a", "-m", "shelf")
    other = Project(tmp_path / "clone")
    grown.run("git", "clone", "-q", str(grown.folder), str(other.folder))
    other.dvc("pull", "-q", str(STORES / "2024-02.zarr"))
    assert [path.name for path in (other.folder / STORES).iterdir()] == ["2024-02.zarr"]
    assert content(other.folder / STORES / "2024-02.zarr") == content(grown.folder / STORES / "2024-02.zarr")
    lock = yaml.safe_load(grown.read("dvc.lock"))
    assert str(STORES) in [out["path"] for out in lock["stages"]["convert@chess"]["outs"]]
