"""What DVC's commit costs: our forecast against what the real DVC does on real filesystems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dvc_objects.fs.generic import test_links as links_that_work
from dvc_objects.fs.local import localfs

from outofcore.errors import SpaceError
from outofcore.space.dvc_cache import DvcCache, find_cache
from outofcore.space.links import commit_of, plan_commit, working_links
from tests.space.conftest import MIB, Disk, dvc, project, used

FILES = 6


def standing(file: Path) -> str:
    """How a file of the workspace hangs together with the cache, as far as the system shows it."""
    if file.is_symlink():
        return "symlink"
    return "hardlink" if file.stat().st_nlink > 1 else "a file of its own"


def test_links_are_tried_not_assumed(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    working = working_links(a, b)
    of_dvc = links_that_work(["reflink", "hardlink", "symlink"], localfs, str(a), localfs, str(b / "link"))
    assert set(working) == {*of_dvc, "copy"} >= {"hardlink", "symlink"}
    assert list(a.iterdir()) == list(b.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("kind", "mib", "expected"),
    [
        ("tmpfs", 4, {"hardlink", "symlink", "copy"}),
        ("ext4", 4, {"hardlink", "symlink", "copy"}),
        ("btrfs", 128, {"reflink", "hardlink", "symlink", "copy"}),
        ("xfs", 320, {"reflink", "hardlink", "symlink", "copy"}),
    ],
)
def test_links_that_each_filesystem_offers(disk: Disk, kind: str, mib: int, expected: set[str], tmp_path: Path) -> None:
    small = disk(kind, mib)
    assert set(working_links(small, small)) == expected
    assert set(working_links(small, tmp_path)) == {"symlink", "copy"}
    assert [entry.name for entry in small.iterdir() if entry.name != "lost+found"] == []


def test_a_folder_that_may_not_be_written_counts_as_copy(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    locked = Path("/sys") if os.geteuid() == 0 else tmp_path / "locked"  # where root may not write either
    assert working_links(locked, tmp_path) == ("copy",)


@pytest.mark.root
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize(("kind", "mib"), [("ext4", 64), ("xfs", 320)])
def test_forecast_is_what_dvc_does(disk: Disk, kind: str, mib: int, *, apart: bool) -> None:
    work = disk(kind, mib)
    caches = disk(kind, mib) if apart else work
    kinds = ["reflink,copy", "hardlink,symlink,copy", "hardlink,symlink", "symlink"]
    for number, types in enumerate(kinds if kind == "ext4" else kinds[1:3]):
        folder = caches / f"cache{number}"
        root = project(work / f"p{number}", f"[cache]\n    type = {types}\n    dir = {folder}\n", files=FILES)
        cache = find_cache(root)
        assert cache is not None
        before = used(work), used(caches)
        forecast = commit_of(root / "out.zarr", cache)
        done = dvc(root, "repro", "-q")
        assert done.returncode == 0, done.stderr
        grown = [after - start for after, start in zip((used(work), used(caches)), before, strict=True)]
        kept = sum(grown) if apart else grown[0]
        assert kept == pytest.approx(forecast.copies_kept * FILES * MIB, rel=0.12), types
        if apart:
            assert grown[1] == pytest.approx(forecast.copies_made * FILES * MIB, rel=0.12), types
        assert standing(root / "out.zarr" / "c.0") == {
            "reflink": "a file of its own",
            "copy": "a file of its own",
        }.get(forecast.in_workspace, forecast.in_workspace), types


@pytest.mark.root
@pytest.mark.parametrize(("types", "ends_well"), [("hardlink,symlink", True), ("symlink", False)])
def test_a_symlink_needs_two_copies_for_a_moment(disk: Disk, types: str, *, ends_well: bool) -> None:
    small = disk("ext4", 12)
    root = project(small / "p", f"[cache]\n    type = {types}\n", files=FILES)
    cache = find_cache(root)
    assert cache is not None
    forecast = commit_of(root / "out.zarr", cache)
    assert forecast.copies_kept == 1
    assert (forecast.copies_made == 0) is ends_well
    assert (dvc(root, "repro", "-q").returncode == 0) is ends_well


@pytest.mark.root
def test_links_that_cannot_be_made_are_refused_before_the_work(disk: Disk, tmp_path: Path) -> None:
    small = disk("tmpfs", 16)
    root = project(tmp_path / "p", f"[cache]\n    type = hardlink\n    dir = {small / 'cache'}\n", files=1)
    cache = find_cache(root)
    assert cache is not None
    with pytest.raises(
        SpaceError,
        match=r"cache\.type hardlink allows no link .* set one that does: 'dvc config cache\.type symlink,copy'",
    ):
        commit_of(root / "out.zarr", cache)
    assert dvc(root, "repro", "-q").returncode != 0


@pytest.mark.parametrize(
    ("types", "working", "made", "kept", "checkout"),
    [
        ("hardlink,symlink", "hardlink,symlink", 0, 1, 0),
        ("hardlink,symlink", "symlink", 1, 1, 0),
        ("hardlink,symlink,copy", "symlink", 1, 2, 0),
        ("symlink,copy", "hardlink,symlink", 1, 2, 0),
        ("symlink", "hardlink,symlink", 1, 1, 0),
        ("reflink,copy", "hardlink,symlink", 1, 2, 1),
        ("reflink,hardlink,symlink", "hardlink,symlink", 1, 2, 0),
        ("copy", "reflink,hardlink,symlink", 0, 1, 1),
        ("hardlink,copy", "reflink,hardlink,symlink", 0, 1, 0),
    ],
)
def test_copies_by_type_and_by_what_works(types: str, working: str, made: int, kept: int, checkout: int) -> None:
    cache = DvcCache(Path("/p"), Path("/p/.dvc/cache"), tuple(types.split(",")), "config")
    commit = plan_commit(cache, (*working.split(","), "copy"))
    assert commit is not None
    assert (commit.copies_made, commit.copies_kept, commit.copies_checked_out) == (made, kept, checkout)
