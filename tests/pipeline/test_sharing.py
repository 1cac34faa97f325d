"""The promises of docs/sharing.md: a second machine gets what the first has made, and nothing runs again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from outofcore.project.written import ORDER, definition
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


def ran(told: str) -> list[str]:
    """The stages that DVC has run, by its output."""
    return re.findall(r"Running stage '(\S+)'", told)


def problems(project: Project, store: str) -> tuple[str, ...]:
    return verify(project.folder / store).problems


@pytest.mark.parametrize("way", ["folder", "ssh", "s3"])
def test_what_one_machine_made_no_other_makes_again(way: str, author: Project, tmp_path: Path) -> None:
    with open_remote(way, tmp_path / "remote") as remote:
        remote.of(author)
        author.dvc("push", "-q", "--run-cache", "--with-deps", *STAGES)

        other = clone(author, tmp_path / "some" / "where" / "else", remote)
        other.dvc("pull", "-q", "--run-cache", "--with-deps", *STAGES)
        assert ran(other.dvc("repro", *STAGES, OUTOFCORE_WORKERS="1")) == []
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


def test_no_output_is_one_that_keeps_dvc_from_remembering_a_run() -> None:
    """DVC takes no run from a remote of a stage that has an uncached output, and saves none if that is no metric."""
    for sources, sampled in ((True, ORDER), (False, ORDER), (False, ())):
        stages = yaml.safe_load(definition(ORDER, sources=sources, sampled=sampled))["stages"].values()
        for stage in (stage.get("do", stage) for stage in stages):
            outputs = [out for kind in ("outs", "metrics", "plots") for out in stage.get(kind, ())]
            assert outputs
            assert all(isinstance(out, str) for out in outputs), outputs  # with options it would be a mapping


@pytest.fixture
def games(own: Project, tmp_path: Path) -> Project:
    """A clone of a project on somebody's own games, with what has run in its cache, and a Git server."""
    games = Project(tmp_path / "games")
    own.run("git", "clone", "-q", str(own.folder), str(games.folder))
    games.run("git", "clone", "-q", "--bare", str(own.folder), str(tmp_path / "server.git"))
    games.git("remote", "set-url", "origin", str(tmp_path / "server.git"))
    shutil.copytree(own.folder / ".dvc/cache", games.folder / ".dvc/cache")
    games.dvc("checkout", "-q")
    return games


def other_clone(games: Project, name: str) -> Project:
    games.run(
        "git", "clone", "-q", str(games.folder.parent / "server.git"), str(games.folder.parent / name / "project")
    )
    return Project(games.folder.parent / name / "project")


def test_a_return_to_earlier_settings_runs_nothing_here_or_elsewhere(games: Project, tmp_path: Path) -> None:
    games.dvc("remote", "add", "-d", "shared", str(tmp_path / "remote"))
    games.git("commit", "-q", "-a", "-m", "remote")
    games.git("push", "-q", "origin", "main")
    seven, zero = ("-S", "chess.splits.seed=7"), ("-S", "chess.splits.seed=0")
    assert "convert@chess" in ran(games.dvc("exp", "run", "-n", "seven", *seven))
    store = verify(games.folder / "data/stores/chess.zarr").digest
    assert ran(games.dvc("exp", "run", *zero)) == []
    assert ran(games.dvc("exp", "run", *seven)) == []
    assert verify(games.folder / "data/stores/chess.zarr").digest == store
    games.git("checkout", "-q", "--", ".")
    games.dvc("checkout", "-q")
    games.dvc("push", "-q", "--run-cache")
    games.dvc("exp", "push", "-q", "--run-cache", "origin", "seven")

    other = other_clone(games, "tries")  # somebody who tries the same setting
    other.dvc("pull", "-q", "--run-cache")
    assert ran(other.dvc("repro")) == []
    assert other.git("status", "--short") == ""
    assert ran(other.dvc("exp", "run", "--pull", *seven)) == []
    assert verify(other.folder / "data/stores/chess.zarr").digest == store
    assert "top1" in other.dvc("metrics", "diff", "HEAD", "--all")
    assert ran(other.dvc("exp", "run", *zero)) == []
    other.git("checkout", "-q", "--", ".")
    other.dvc("checkout", "-q")
    other.dvc("exp", "run", "-q", "--queue", "-n", "queued", *seven)
    other.dvc("exp", "run", "-q", "--run-all")
    told = other.dvc("queue", "logs", "queued")
    assert "'train@chess' is cached" in told
    assert ran(told) == []

    applied = other_clone(games, "applies")
    applied.dvc("pull", "-q")
    applied.dvc("exp", "pull", "-q", "origin", "seven")
    applied.dvc("exp", "apply", "seven")
    assert ran(applied.dvc("repro")) == []
    assert verify(applied.folder / "data/stores/chess.zarr").digest == store
    shown = applied.read("reports/index.html")  # comes with the experiment
    assert json.loads(applied.read("metrics/chess/train.json"))["model"] in shown


def test_raw_files_are_fetched_or_done_without(games: Project, tmp_path: Path) -> None:
    (raw := tmp_path / "disk" / "games").mkdir(parents=True)
    shutil.copy(games.folder / "data/raw/chess/games.pgn", raw)
    games.dvc("remote", "add", "-d", "shared", str(tmp_path / "remote"))
    games.dvc("import-url", "-q", str(raw / "games.pgn"), "data/raw/published.pgn")
    params = games.folder / "params.yaml"
    params.write_text(params.read_text().replace("raw: data/raw/chess", f"raw: {raw}"))
    games.dvc("repro", "-q", "convert@chess")
    games.git("add", "-A")
    games.git("commit", "-q", "-m", "raw files")
    games.git("push", "-q", "origin", "main")
    games.dvc("push", "-q")

    other = other_clone(games, "other")
    other.dvc("pull", "-q", "data/raw/chess", "data/raw/published.pgn", "convert@chess", "check@chess", "sample@chess")
    for path in ("data/raw/chess/games.pgn", "data/raw/published.pgn"):
        assert other.read(path) == (raw / "games.pgn").read_text()
    with (raw / "games.pgn").open("a") as longer:
        longer.write('[Event "one more"]\n\n1. e4 *\n')
    other.dvc("update", "-q", "data/raw/published.pgn.dvc")
    assert other.read("data/raw/published.pgn") == (raw / "games.pgn").read_text()
    raw.rename(tmp_path / "disk" / "unmounted")
    assert ran(other.dvc("repro", "--allow-missing", "convert@chess")) == []


def test_two_branches_that_have_run_are_merged(games: Project) -> None:
    params = games.folder / "params.yaml"

    def change(old: str, new: str, branch: str) -> None:
        games.git("checkout", "-q", branch)
        params.write_text(params.read_text().replace(old, new))
        games.dvc("repro", "-q", "train@chess")
        games.git("commit", "-q", "-a", "-m", new)

    games.git("branch", "strong")
    change("min_elo: null", "min_elo: 1500", "strong")
    change("learning_rate: 0.003", "learning_rate: 0.001", "main")
    told = games.run("git", "merge", "strong", code=1)
    assert re.findall(r"CONFLICT .* in (\S+)", told) == ["dvc.lock"]
    games.git("checkout", "-q", "--ours", "dvc.lock")
    assert ran(games.dvc("repro", "train@chess")) == ["check@chess", "train@chess"]  # the store is that of the branch
    games.git("add", "dvc.lock")
    games.git("commit", "-q", "-m", "merged")
