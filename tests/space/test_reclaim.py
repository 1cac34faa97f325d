"""What ``outofcore gc`` removes, and what it leaves, with the real DVC."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.space.dvc_cache import DvcCache, find_cache
from outofcore.space.reclaim import find_garbage, remove
from tests.lines_project import call
from tests.space.conftest import dvc

STAGE = """stages:
  write:
    cmd: python write.py ${size}
    deps: [write.py]
    params: [size]
    outs: [out]
"""
WRITE = """import os, pathlib, sys, time
pathlib.Path("out").write_bytes(bytes([int(sys.argv[1]) % 251]) * int(sys.argv[1]))
here = pathlib.Path(os.environ.get("WAIT", "nowhere"))
while (here / "wait").exists():
    (here / "waiting").touch()
    time.sleep(0.05)
"""
COMMITTED, BEFORE, EXPERIMENT, LOST = 1000, 2000, 3000, 4000


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def write(folder: Path, size: int, *command: str) -> None:
    (folder / "params.yaml").write_text(f"size: {size}\n")
    ended = dvc(folder, *(command or ("repro", "-q")))
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with two commits, an experiment, and a result that belongs to none of them; to be copied."""
    root = tmp_path_factory.mktemp("whole") / "p"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AUTHOR", "COMMITTER"):
            for what in ("NAME", "EMAIL"):
                patch.setenv(f"GIT_{name}_{what}", "tests@example.org")
        make(root)
        yield root


@pytest.fixture
def ran(whole: Path, tmp_path: Path) -> Path:
    """That project, in a folder of its own."""
    return Path(shutil.copytree(whole, tmp_path / "p"))


@pytest.fixture(autouse=True)
def gc_in_a_fork(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """``dvc gc`` does not start Python each time; the test of the command line runs all as a user does."""
    if request.function is not test_it_shows_what_nothing_needs_and_removes_that_alone:
        monkeypatch.setattr("outofcore.space.reclaim.subprocess", SimpleNamespace(run=run_gc))


def run_gc(command: list[str], *, cwd: Path, **_: object) -> subprocess.CompletedProcess[str]:
    assert command[:3] == [sys.executable, "-m", "dvc"]
    return dvc(cwd, *command[3:])


def make(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    assert dvc(root, "init", "-q").returncode == 0
    (root / "dvc.yaml").write_text(STAGE)
    (root / "write.py").write_text(WRITE)
    for size in (BEFORE, COMMITTED):
        write(root, size)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", str(size))
    write(root, COMMITTED, "exp", "run", "-q", "-S", f"size={EXPERIMENT}")
    write(root, LOST)
    write(root, COMMITTED)


def kept(root: Path) -> set[int]:
    """Sizes of the cache's objects."""
    return {path.stat().st_size for path in cache_of(root).objects.rglob("*") if path.is_file()}


def cache_of(root: Path) -> DvcCache:
    cache = find_cache(root)
    assert cache is not None
    return cache


def test_it_shows_what_nothing_needs_and_removes_that_alone(ran: Path) -> None:
    everything = {COMMITTED, BEFORE, EXPERIMENT, LOST}
    assert kept(ran) == everything
    shown = call("gc", "--folder", ran)
    assert "files that nothing needs: 1" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "'outofcore gc --yes' with the same options removes it and frees 4.00 kB"
    assert kept(ran) == everything
    done = json.loads(call("gc", "--yes", "--json", "--folder", ran).stdout)
    assert (done["freed"], done["removed"], len(done["objects"])) == (LOST, True, 1)
    assert kept(ran) == everything - {LOST}
    assert call("gc", "--yes", "--folder", ran).stdout == "nothing to remove\n"
    assert dvc(ran, "status").stdout.strip().endswith("up to date.")


def test_the_commits_before_the_last_can_be_given_away(ran: Path) -> None:
    remove(find_garbage(ran, tips=True), ran, tips=True)
    assert kept(ran) == {COMMITTED, EXPERIMENT}


def test_what_another_project_needs_of_the_cache_stays(ran: Path, tmp_path: Path) -> None:
    cache = cache_of(ran)
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(ran), str(other))
    assert dvc(other, "cache", "dir", "--local", str(cache.folder)).returncode == 0
    write(other, LOST)
    assert find_garbage(ran).objects
    assert find_garbage(ran, projects=[other]).objects == ()
    assert find_garbage(other).outside == str(cache.folder)  # where the first project is not known
    assert "is outside of this project" in call("gc", "--tips", "--folder", other).stdout


def test_nothing_is_removed_while_a_stage_runs(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAIT", str(ran))
    (ran / "wait").touch()
    for command in (("repro",), ("exp", "run", "--temp")):
        (ran / "params.yaml").write_text(f"size: {LOST + len(command)}\n")
        running = subprocess.Popen(
            [sys.executable, "-m", "dvc", *command], cwd=ran, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while not (ran / "waiting").exists() and running.poll() is None:
                time.sleep(0.05)
            with pytest.raises(OutOfCoreError, match="is running, and what it makes"):
                find_garbage(ran)
        finally:
            (ran / "wait").unlink()
            running.wait()
        assert running.returncode == 0
        find_garbage(ran)
        (ran / "waiting").unlink()
        (ran / "wait").touch()


@pytest.mark.parametrize("words", ["repro", "exp run --temp", "-v exp queue-worker dvc-exp-1"])
def test_nothing_is_removed_before_the_first_lock_of_a_run(ran: Path, tmp_path: Path, words: str) -> None:
    begun = tmp_path / "dvc"  # which is all that there is of it: a process of this name
    begun.write_text("print('begun', flush=True)\ninput()\n")
    command = [sys.executable, str(begun), *words.split()]
    with subprocess.Popen(command, cwd=ran, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        with pytest.raises(OutOfCoreError, match=f"{words} is running, and what it makes"):
            find_garbage(ran)
        running.communicate("\n")
    find_garbage(ran)


def test_what_a_stopped_run_resumes_from_is_kept_unless_asked_for(ran: Path) -> None:
    work, partial = ran / "data/stores/chess.zarr.work", ran / "models/chess.partial"
    for folder in (work, partial):
        folder.mkdir(parents=True)
        (folder / "piece").write_bytes(bytes(500))
    killed = cache_of(ran).experiments / "standalone" / "tmpabc"
    (killed / ".dvc").mkdir(parents=True)
    (killed / "out").write_bytes(bytes(700))
    shown = call("gc", "--folder", ran).stdout
    assert "kept: data/stores/chess.zarr.work, 500 B, of a stopped run; 'dvc repro' resumes it" in shown
    assert "of an experiment that was killed" in shown
    found = find_garbage(ran)
    assert found.freed == LOST + 700
    remove(found, ran)
    assert work.exists()
    assert partial.exists()
    assert not killed.exists()
    remove(find_garbage(ran, unfinished=True), ran)
    assert not work.exists()
    assert not partial.exists()


def test_without_git_the_workspace_counts(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    assert dvc(root, "init", "-q", "--no-scm").returncode == 0
    (root / "dvc.yaml").write_text(STAGE)
    (root / "write.py").write_text(WRITE)
    for size in (LOST, COMMITTED):
        write(root, size)
    remove(find_garbage(root), root)
    assert kept(root) == {COMMITTED}
    git(root, "init", "-q")  # whose commits DVC would not look at
    with pytest.raises(OutOfCoreError, match=r"core\.no_scm"):
        find_garbage(root)


def test_what_dvc_cannot_read_ends_it_in_one_line(ran: Path) -> None:
    (ran / "dvc.lock").write_text("stages: [\n")
    with pytest.raises(OutOfCoreError, match="'dvc gc' cannot tell what is needed: ") as error:
        find_garbage(ran)
    assert len(str(error.value).splitlines()) == 1
    assert LOST in kept(ran)
    with pytest.raises(ParamsError, match=r"found no \.dvc folder"):
        find_garbage(ran.parent)
