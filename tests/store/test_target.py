"""A store gets its place by renames that can be undone; what is not ours is refused and left alone."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.errors import OutOfCoreError, ParamsError, StoreError
from outofcore.store.reader import open_store
from outofcore.store.target import Target
from tests.own_arrays import Data, data_of
from tests.store.synced import Synced


def place(sealed: Path, final: Path) -> None:
    with Target(final) as target:
        target.put_back(sealed)
        target.place(sealed)


def tree(folder: Path) -> dict[str, bytes | str]:
    """Everything in a folder, links by where they lead."""
    return {
        path.relative_to(folder).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("apart", [False, True], ids=["one filesystem", "two filesystems"])
def test_all_of_a_store_is_on_the_disk_before_it_has_its_name(
    make_store: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """Records what is synced: a power loss after the last rename finds every byte and every name."""
    synced, rename, published = Synced(monkeypatch), Path.rename, []

    def renamed(path: Path, target: Path) -> Path:
        if apart and path.name == "a.zarr.growing":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if target == tmp_path / "a.zarr":
            published.append(path)
            for each in (path, *path.rglob("*")):
                if each.is_dir():
                    assert synced.names(each) == {inner.name for inner in each.iterdir()}, f"names in {each}"
                else:
                    assert synced.size(each) == each.stat().st_size, f"{each} was not synced"
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    final = make_store()
    assert len(published) == 1
    assert {"zarr.json", "seal.json"} <= {path.name for path in final.iterdir()}
    assert final.name in synced.names(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize("refused", ["copy", "rename", "stopped"])
def test_a_store_that_cannot_be_replaced_stays(
    make_store: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    work, final = make_store("new.zarr", batches=[[5]]), make_store("old.zarr", batches=[[7]])
    rename, copy, copied = Path.rename, shutil.copyfile, []

    def renamed(path: Path, target: Path) -> Path:
        if path == work:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))  # of another filesystem
        if path.name == "arriving" and refused != "copy":
            raise KeyboardInterrupt if refused == "stopped" else OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    def copied_to(source: Path, target: Path) -> Path:
        copied.append(target)
        if refused == "copy" and len(copied) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return copy(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", renamed)
        patched.setattr(shutil, "copyfile", copied_to)
        with pytest.raises({"copy": OSError, "rename": StoreError, "stopped": KeyboardInterrupt}[refused]):
            place(work, final)
    assert len(copied) >= 3
    assert not list(final.parent.glob("*.work.*"))
    assert len(open_store(final).rows("train")) == 7
    assert len(open_store(work).rows("train")) == 5
    place(work, final)
    assert len(open_store(final).rows("train")) == 5
    assert not list(final.parent.glob("old.zarr.work*"))


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("all of it")


def an_empty_folder(path: Path) -> None:
    path.mkdir()


def a_file(path: Path) -> None:
    path.write_text("all of it")


def a_link(path: Path) -> None:
    a_folder(path.parent / "precious")
    path.symlink_to(path.parent / "precious")


def a_link_to_a_work_folder(path: Path) -> None:
    other = path.parent / "other.zarr"
    with Target(other) as target:
        (target.path / "journal").write_text("of another conversion")
    path.symlink_to(target.path)


def a_folder_with_a_linked_mark(path: Path) -> None:
    a_link_to_a_work_folder(path)
    mark = path.resolve() / "outofcore-work"
    path.unlink()
    a_folder(path)
    (path / mark.name).symlink_to(mark)


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


PGN = '[Event "x"]\n[Result "1-0"]\n\n1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n'


def convert(out: Path) -> None:
    (out / "k.pgn").write_text(PGN)
    outofcore.convert("chess", out / "k.pgn", out / "s.zarr", splits={"val": 0.0, "test": 0.0}, replace=True)


def write(out: Path) -> None:
    outofcore.write_store(out / "s.zarr", data_of(20))


@pytest.mark.parametrize(("run", "scratch"), [(convert, False), (convert, True), (write, False)])
@pytest.mark.parametrize(
    "make",
    [a_folder, an_empty_folder, a_file, a_link, a_link_to_a_work_folder, a_folder_with_a_linked_mark, a_fifo],
)
def test_what_others_have_where_we_would_work_is_refused_and_left_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[Path], None],
    make: Callable[[Path], None],
    scratch: bool,
) -> None:
    place = tmp_path / "s.zarr.work"
    if scratch:
        monkeypatch.setenv("OUTOFCORE_SCRATCH", str(tmp_path / "scratch"))
        digest = hashlib.sha256(os.fsencode(tmp_path.resolve() / "s.zarr")).hexdigest()[:8]
        place = tmp_path / "scratch" / f"s.zarr.{digest}.work"
        place.parent.mkdir()
    make(place)
    before = tree(tmp_path)
    with pytest.raises(StoreError, match=r"got somebody else's; nothing was touched") as told:
        run(tmp_path)
    assert "\n" not in str(told.value)
    after = tree(tmp_path)
    assert {each: after[each] for each in before} == before
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("make", [a_folder, an_empty_folder, a_file, a_link, a_fifo])
def test_what_others_have_where_rejects_are_listed_is_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    convert(tmp_path)
    convert(tmp_path)  # replaces the list
    (tmp_path / "s.zarr.rejects.csv").unlink()
    make(tmp_path / "s.zarr.rejects.csv")
    before = tree(tmp_path)
    with pytest.raises(StoreError, match=r"rejects\.csv: expected no such path, or an earlier list of rejects"):
        convert(tmp_path)
    assert tree(tmp_path) == before


def test_links_inside_a_work_folder_lead_nowhere(tmp_path: Path) -> None:
    """A process that was killed, or somebody with access, may have left links where files are to grow."""
    a_folder(tmp_path / "precious")
    before = tree(tmp_path / "precious")
    with Target(tmp_path / "s.zarr") as target:
        for name in ("arrays", "store", "arriving", "replaced"):
            (target.path / name).symlink_to(tmp_path / "precious")
    write(tmp_path)
    (tmp_path / "s.zarr").rename(tmp_path / "arrays.zarr")
    with Target(tmp_path / "s.zarr") as target:
        for name in ("arriving", "replaced"):
            (target.path / name).symlink_to(tmp_path / "precious")
    convert(tmp_path)
    assert tree(tmp_path / "precious") == before
    assert len(open_store(tmp_path / "s.zarr").rows("train")) == 7
    assert not (tmp_path / "s.zarr.work").exists()


@pytest.mark.parametrize("run", [convert, write])
@pytest.mark.parametrize(
    ("added", "content"),
    [("notes.txt", b"mine"), ("train/mine.npy", b"1"), ("seal.json", b"{}"), ("seal.json", b'{"files": ["a"]}')],
)
def test_a_store_with_something_else_in_it_is_not_replaced(
    tmp_path: Path, run: Callable[[Path], None], added: str, content: bytes
) -> None:
    write(tmp_path)
    (tmp_path / "s.zarr" / added).write_bytes(content)
    before = tree(tmp_path / "s.zarr")
    with pytest.raises(OutOfCoreError, match=r"expected (nothing but|a new folder, or) a sealed store to replace"):
        run(tmp_path)
    assert tree(tmp_path / "s.zarr") == before


def test_a_damaged_store_and_one_of_another_format_can_be_replaced(tmp_path: Path) -> None:
    write(tmp_path)
    seal = tmp_path / "s.zarr" / "seal.json"
    seal.write_bytes(seal.read_bytes().replace(b'"format":', b'"format":7'))
    shard = next((tmp_path / "s.zarr").rglob("c.0*"))
    shard.unlink()
    convert(tmp_path)
    assert open_store(tmp_path / "s.zarr").domain == "chess"


def refuse_locks(code: int) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("code", [0, errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EBADF])
def test_two_that_write_one_store_never_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """On mounts without locks as well, and whatever the scratch is."""
    if code:
        monkeypatch.setattr("fcntl.flock", refuse_locks(code))
    refusals: list[str] = []

    def refused(run: Callable[[Path], None]) -> None:
        with pytest.raises(StoreError) as told:
            run(tmp_path)
        refusals.append(str(told.value))

    def meanwhile() -> Iterator[Data]:
        yield data_of(5)
        for number in range(2):
            monkeypatch.setenv("OUTOFCORE_SCRATCH", str(tmp_path / f"scratch{number}"))
            refused(convert)
        thread = threading.Thread(target=refused, args=(write,))
        thread.start()
        thread.join()
        yield data_of(5)

    store = outofcore.write_store(tmp_path / "s.zarr", meanwhile())
    assert len(store.rows("train")) == 10
    assert len(refusals) == 3
    assert all("another process writes this store" in refusal for refusal in refusals)
    assert not list(tmp_path.glob("*.work*"))
    convert(tmp_path)


def test_an_argument_says_what_must_not_be_replaced(tmp_path: Path) -> None:
    a_folder(tmp_path / "s.zarr")
    for run in (write, convert):
        with pytest.raises(ParamsError, match=r"s\.zarr: expected a new folder, or a sealed store to replace"):
            run(tmp_path)
    assert (tmp_path / "s.zarr" / "thesis.txt").read_text() == "all of it"
    assert np.array_equal(sorted(tree(tmp_path)), ["k.pgn", "s.zarr/thesis.txt"])


class Killed(BaseException):
    """Ends a process: nothing that it would still do to the disk is done."""


class Steps:
    """Ends the process before its n-th change of names, or sync, from the moment on that a store is on its way."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = sys.maxsize
        self.names: list[str] = []
        self._begun = False
        patch.setattr(os, "fsync", lambda _: None)
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync"):
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def die(self, left: int) -> None:
        self.left, self.names, self._begun = left, [], False

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._begun |= len(args) > 1 and str(args[1]).endswith("/arriving")
            self.left -= self._begun
            if self.left < 0:
                raise Killed
            self.names += [change.__name__] * self._begun
            return change(*args, **kwargs)

        return counted


def rows(count: int) -> dict[str, Any]:
    return {"x": np.arange(count, dtype="i4")}


def put(final: Path, data: Any) -> None:
    outofcore.write_store(final, data, chunk_rows=16, shard_rows=64)


def broken() -> Iterator[Any]:
    """Input of which the second piece fails."""
    yield rows(20)
    raise ArithmeticError


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("moved", "every"), [("by renames", 1), pytest.param("by copies, as on an overlay", 9, marks=pytest.mark.long)]
)
def test_a_kill_before_any_step_costs_neither_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str, every: int
) -> None:
    """What is there then is whole, and the next run leaves its own store and nothing else, also after a removal.

    Of the many removals of single files of the store before, some.
    """
    expected = {}
    for count in (100, 200, 130):
        put(tmp_path / f"{count}.zarr", rows(count))
        expected[count] = tree(tmp_path / f"{count}.zarr")
    rename = os.rename

    def renamed(path: Path, target: Path) -> None:
        if path.name == "s.zarr":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(path, target)

    if moved != "by renames":
        monkeypatch.setattr(os, "rename", renamed)
    steps = Steps(monkeypatch)
    steps.die(sys.maxsize)
    put(shutil.copytree(tmp_path / "100.zarr", tmp_path / "whole" / "s.zarr"), rows(200))
    names, last = steps.names, len(steps.names) - 4
    assert last > 15
    removes = [name in {"unlink", "rmdir"} for name in names]
    points = {number for number in range(0, last, every) if not (removes[number] and number % 5)}
    for killed in sorted(points | {last, last + 2, last + 3}):
        place = tmp_path / str(killed)
        place.mkdir()
        final = shutil.copytree(tmp_path / "100.zarr", place / "s.zarr")
        steps.die(killed)
        with pytest.raises(Killed):
            put(final, rows(200))
        steps.die(sys.maxsize)
        shutil.copytree(place, removed := tmp_path / f"{killed} removed")
        if final.exists() and moved == "by renames":
            assert tree(final) in (expected[100], expected[200])
        with pytest.raises(ArithmeticError):
            put(final, broken())
        assert tree(final) in (expected[100], expected[200])
        put(final, rows(130))
        shutil.rmtree(removed / "s.zarr", ignore_errors=True)
        put(removed / "s.zarr", rows(130))
        for folder in (place, removed):
            assert tree(folder / "s.zarr") == expected[130]
            assert [path.name for path in folder.iterdir()] == ["s.zarr"]
            shutil.rmtree(folder)
