"""A file is on the disk before it counts; what the filesystem refuses is one line with the path and a way out."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import outofcore
from outofcore.errors import StoreError
from outofcore.system.durable import (
    TemporaryFolder,
    WorkFolder,
    replace_text,
    replacing,
    sync_folder,
    write_file,
    writing,
)
from tests.store.synced import Synced

CURES = {
    errno.EIO: "check that disk, and run again",
    errno.ENOENT: "its folder was removed meanwhile, as DVC does for another run; end that one, and run again",
    errno.EACCES: "give this user write permission there, and run again",
    errno.EPERM: "give this user write permission there, and run again",
    errno.EROFS: "mount that filesystem for writing, or write elsewhere, and run again",
    errno.EFBIG: r"raise the limit on file sizes \(ulimit -f\), or lower store.shard_rows, and run again",
    errno.ESTALE: "see what disk, permissions and limits allow, and run again",
}


@pytest.mark.parametrize("code", CURES)
def test_a_refused_write_is_one_line(tmp_path: Path, code: int) -> None:
    expected = rf"^{tmp_path} cannot be written: {os.strerror(code)}; {CURES[code]}$"
    with pytest.raises(StoreError, match=expected), writing(tmp_path):
        raise OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_left_to_the_guard_with_its_path(tmp_path: Path, code: int) -> None:
    with pytest.raises(OSError, match=os.strerror(code)) as told, writing(tmp_path):
        raise OSError(code, os.strerror(code))
    assert told.value.filename == str(tmp_path)


def test_a_file_is_synced_with_all_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, int]] = []
    fsync = os.fsync

    def recorded(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recorded)
    path = tmp_path / "new" / "file"
    write_file(path, b"content")
    sync_folder(path.parent)
    assert [inode for inode, _ in synced] == [path.stat().st_ino, path.parent.stat().st_ino]
    assert synced[0][1] == len(path.read_bytes()) == 7


def test_a_filesystem_that_syncs_no_folders_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    sync_folder(tmp_path)


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A file of the workspace, and the object of DVC's cache that it is."""
    path, cached = tmp_path / "file", tmp_path / "cached"
    cached.write_text("before")
    cached.chmod(0o444)
    os.link(cached, path)
    return path, cached


def test_what_is_linked_stays_as_it_is(linked: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path, cached = linked
    synced = Synced(monkeypatch)
    replace_text(path, "after\n")
    assert (path.read_bytes(), cached.read_text()) == (b"after\n", "before")
    assert synced.size(path) == 6
    assert synced.names(path.parent) == {"file", "cached"}


def test_a_write_that_fails_leaves_the_old_file_alone(linked: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = linked

    def fail(new: Path) -> None:
        new.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), replacing(path) as new:
        fail(new)
    assert path.read_text() == "before"
    assert {each.name for each in tmp_path.iterdir()} == {"file", "cached"}


def test_two_that_replace_a_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / "file.part").symlink_to(tmp_path / "precious")

    with replacing(path) as new:
        new.write_text("first")
        replace_text(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert {each.name for each in tmp_path.iterdir()} == {"file", "file.part"}


@pytest.mark.parametrize("code", [0, errno.ENOLCK])
def test_a_killed_process_leaves_a_work_folder_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "work"
    script = f"""
import fcntl, pathlib, sys, outofcore.system.durable
def refuse(*_): raise OSError({code}, "no locks")
if {code}: fcntl.flock = refuse
with outofcore.system.durable.WorkFolder(pathlib.Path({str(path)!r}), "taken"):
    print("in", flush=True); sys.stdin.read()
"""
    if code:

        def refuse(*_: object) -> None:
            raise OSError(code, "no locks")

        monkeypatch.setattr("fcntl.flock", refuse)
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        (path / "left").write_text("to the next")
        with pytest.raises(StoreError, match="taken"), WorkFolder(path, "taken"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with WorkFolder(path, "taken") as work:
        assert (path / "left").read_text() == "to the next"
        token = work.token
    with WorkFolder(path, "taken") as work:
        assert work.token == token
        work.empty()
    assert not list(tmp_path.iterdir())


KILLED = """
import os, pathlib, sys
from outofcore.system import durable
left = int(sys.argv[2])
def dying(call):
    def called(*arguments, **options):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), 9)
        return call(*arguments, **options)
    return called
for owner, name in ((pathlib.Path, "mkdir"), (pathlib.Path, "open"), (pathlib.Path, "rename"), (os, "fsync"),
                    (os, "rmdir"), (os, "unlink"), (durable.shutil, "rmtree")):
    setattr(owner, name, dying(getattr(owner, name)))
with durable.WorkFolder(pathlib.Path(sys.argv[1]), "taken"):
    pass
"""


@pytest.mark.long
def test_a_work_folder_of_a_process_killed_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    somebody_elses = tmp_path / "s.zarr.work.0123abcd"
    somebody_elses.mkdir()
    (somebody_elses / "precious").write_text("theirs")
    path, killed = tmp_path / "s.zarr.work", 0
    for moment in range(1, 100):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path), str(moment)], check=False)
        if not ended.returncode:
            break
        killed += len(list(tmp_path.iterdir())) > 1
        with WorkFolder(path, "taken"):
            pass
        assert [each.name for each in tmp_path.iterdir()] == [somebody_elses.name], moment
    assert killed > 5
    assert (somebody_elses / "precious").read_text() == "theirs"


def test_one_module_writes_files() -> None:
    """A file that something else writes can be left half written, or change what DVC's cache links to it."""
    package = Path(outofcore.__file__).parent
    found = set()
    for path in [*package.rglob("*.py"), *(Path(__file__).parents[2] / "stages").glob("*.py")]:
        if path.name in ("durable.py", "sample.py"):  # samples are made in a folder of their own
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if name in ("write_text", "write_bytes"):
                found.add(path.name)
    assert not found


HOLD = """
import sys, time
from outofcore.system.durable import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "store.zarr").mkdir()
(folder.path / "store.zarr" / "c.0").write_bytes(b"1")
print(folder.path, flush=True)
time.sleep(600)
"""


def holder(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a temporary folder, and that folder."""
    environment = os.environ | {"TMPDIR": str(place)}
    process = subprocess.Popen([sys.executable, "-c", HOLD], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_temporary_folder_of_a_killed_process_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else: not that of a living process, nor what is not locked as ours is, nor what a link leads to."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    foreign = {tmp_path / "outofcore-notes": None, tmp_path / "outofcore-file": b"mine", tmp_path / "else": None}
    for path, content in foreign.items():
        path.mkdir() if content is None else path.write_bytes(content)
    (tmp_path / "else" / "lock").touch()
    (tmp_path / "outofcore-link").symlink_to(tmp_path / "else")
    killed, left = holder(tmp_path)
    living, used = holder(tmp_path)
    try:
        killed.kill()
        killed.wait()
        assert left.is_dir()
        folder = TemporaryFolder()
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {path.name for path in (*foreign, used, folder.path)} | {"outofcore-link"}
        assert (used / "store.zarr" / "c.0").read_bytes() == b"1"
        assert (tmp_path / "else" / "lock").exists()
        folder.remove()
        assert not folder.path.exists()
    finally:
        living.kill()
        living.wait()
        for process in (killed, living):
            assert process.stdout is not None
            process.stdout.close()


def test_what_was_removed_from_a_work_folder_is_off_the_disk_before_the_folder_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power loss between leaves a folder under another name that nobody knows as ours."""
    synced, names, removed = Synced(monkeypatch), list[set[str]](), shutil.rmtree

    def watched(path: Path, **options: Any) -> None:
        if path.name.startswith("work."):
            names.append(synced.names(path))
        removed(path, **options)

    with WorkFolder(tmp_path / "work", "in use") as work:
        (work.path / "grown").write_text("1")
        sync_folder(work.path)
        work.empty()
        monkeypatch.setattr(shutil, "rmtree", watched)
    assert names == [{"outofcore-work", "lock"}]


def test_a_file_whose_name_begins_as_that_of_the_lock_is_content(tmp_path: Path) -> None:
    with WorkFolder(tmp_path / "work", "busy") as work:
        (work.path / "lockdown.zarr").write_text("mine")
    assert (tmp_path / "work/lockdown.zarr").read_text() == "mine"
    with WorkFolder(tmp_path / "work", "busy") as work:
        work.empty()
    assert not (tmp_path / "work").exists()
