"""A second machine gets what the first has made: nothing runs again, and every byte is checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outofcore.store.verify import verify
from tests.pipeline.conftest import Project, copy_project
from tests.pipeline.remotes import Remote, open_remote

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(1200)]

NEURAL, GO = "data/stores/neural.zarr", "data/stores/go.zarr"
STAGES = ("convert@neural", "convert@go")


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The first machine: two domains converted, all committed; with a Git server of its own."""
    folder = tmp_path_factory.mktemp("author")
    first = copy_project(folder / "project")
    first.dvc("repro", "-q", *STAGES)
    first.git("add", "-A")
    first.git("commit", "-q", "-m", "ran")
    first.run("git", "clone", "-q", "--bare", str(first.folder), str(folder / "server.git"))
    first.git("remote", "add", "origin", str(folder / "server.git"))
    return first


def clone(author: Project, folder: Path, remote: Remote | None) -> Project:
    """Another machine: another path, a cache and a site folder of its own."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    author.run("git", "clone", "-q", str(author.folder.parent / "server.git"), str(folder))
    other = Project(folder)
    if remote is not None:
        remote.of(other)
    return other


def problems(project: Project, store: str) -> tuple[str, ...]:
    return verify(project.folder / store).problems


@pytest.mark.parametrize("way", ["folder", "ssh", "s3"])
def test_what_one_machine_made_no_other_makes_again(way: str, author: Project, tmp_path: Path) -> None:
    with open_remote(way, tmp_path / "remote") as remote:
        remote.of(author)
        author.dvc("push", "-q", "--run-cache", "--with-deps", *STAGES)

        other = clone(author, tmp_path / "some" / "where" / "else", remote)
        other.dvc("pull", "-q", "--run-cache", "--with-deps", *STAGES)
        told = other.dvc("repro", *STAGES, OUTOFCORE_WORKERS="1")
        ran = re.findall(r"Running stage '(\S+)'", told)
        assert sorted(ran) == ["sample@go", "sample@neural"]  # which no cache keeps
        assert problems(other, NEURAL) == problems(other, GO) == ()

        # The other way round, and only a part of it: a machine that trains on one domain.
        remote.of(other, behind="-back")
        other.dvc("push", "-q", "--run-cache", "--with-deps", *STAGES)
        partly = clone(author, tmp_path / "partly" / "clone", None)
        remote.of(partly, behind="-back")
        partly.dvc("pull", "-q", "convert@go")
        assert problems(partly, GO) == ()
        assert not (partly.folder / NEURAL).exists()
        told = partly.run("outofcore", "committed")
        assert "never run or pulled here: " in told
        assert NEURAL not in told
        partly.run("outofcore", "committed", "convert@go")
        told = partly.run("outofcore", "committed", "convert@neural", code=1)
        assert f"{NEURAL}/" in told


def test_one_cache_for_all_who_work_on_a_machine(author: Project, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for project in (author, other := clone(author, tmp_path / "other", None)):
        project.dvc("cache", "dir", "--local", str(cache))
        project.dvc("config", "--local", "cache.shared", "group")
        project.dvc("config", "--local", "cache.type", "hardlink,symlink")
    author.dvc("commit", "-q", "-f", "--with-deps", *STAGES)
    other.dvc("checkout", "-q", "--with-deps", *STAGES)
    assert "Running stage" not in other.dvc("repro", *STAGES)
    assert problems(other, NEURAL) == problems(other, GO) == ()
    folders = [path for path in (cache / "files").rglob("*") if path.is_dir()]
    assert folders
    assert all(path.stat().st_mode & 0o7777 == 0o2775 for path in folders)
    shard = next((other.folder / NEURAL).rglob("c.*"))
    assert shard.stat().st_nlink >= 3  # both workspaces and the cache
    assert not shard.stat().st_mode & 0o222
    for key in ("cache.dir", "cache.shared", "cache.type"):
        author.dvc("config", "--local", "--unset", key)


def test_an_experiment_goes_to_a_colleague(author: Project, tmp_path: Path) -> None:
    with open_remote("folder", tmp_path / "remote") as remote:
        remote.of(author)
        author.dvc("push", "-q", "--with-deps", *STAGES)
        author.dvc("exp", "run", "-q", "-n", "few", "-S", "go.filters.min_moves=40", "convert@go")
        author.dvc("exp", "push", "-q", "origin", "few")
        author.git("checkout", "-q", "--", ".")
        other = clone(author, tmp_path / "other", remote)
        assert "few" in other.dvc("exp", "list", "origin")
        other.dvc("exp", "pull", "-q", "origin", "few")
        other.dvc("exp", "branch", "-q", "few", "few")
        other.git("checkout", "-q", "few")
        other.dvc("pull", "-q", "convert@go")
        assert problems(other, GO) == ()
        author.dvc("checkout", "-q", "-f", "--with-deps", *STAGES)
        assert verify(other.folder / GO).digest != verify(author.folder / GO).digest
        told = other.dvc("exp", "show", "--csv", "--only-changed")
        assert "few" in told


def test_damage_in_a_remote_goes_no_further(author: Project, tmp_path: Path) -> None:
    with open_remote("folder", tmp_path / "remote") as remote:
        remote.of(author)
        author.dvc("push", "-q", GO)
        assert remote.folder is not None
        damaged = max(remote.folder.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
        damaged.chmod(0o644)
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        other = clone(author, tmp_path / "other", remote)
        other.dvc("remote", "modify", "--local", "shared", "verify", "true")
        other.dvc("pull", "-q", GO, code=1)
        assert not (other.folder / ".dvc/cache" / damaged.relative_to(remote.folder)).exists()
        # Without the setting DVC takes it; the store's own check does not.
        careless = clone(author, tmp_path / "careless", remote)
        careless.dvc("pull", "-q", GO)
        assert any("is not what was sealed" in problem for problem in problems(careless, GO))
