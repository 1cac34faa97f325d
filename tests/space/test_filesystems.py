"""Which filesystem a path lies on, asked of real mounts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outofcore.space.filesystems import existing, filesystem_of
from tests.space.conftest import MIB, Disk


def test_a_path_that_does_not_exist_yet_lies_where_it_would_be_made(tmp_path: Path) -> None:
    assert existing(tmp_path / "a" / "b" / "c") == tmp_path.resolve()
    assert filesystem_of(tmp_path / "a" / "b.zarr") == filesystem_of(tmp_path)


def test_free_bytes_are_those_of_a_user_without_privileges(tmp_path: Path) -> None:
    facts = os.statvfs(tmp_path)
    found = filesystem_of(tmp_path)
    assert found.free() == pytest.approx(facts.f_bavail * facts.f_frsize, rel=0.05)
    assert found.free() <= found.total() == facts.f_blocks * facts.f_frsize


def test_mount_point_is_the_one_that_df_names(tmp_path: Path) -> None:
    named = subprocess.run(["df", "--output=target,fstype", str(tmp_path)], check=True, capture_output=True, text=True)
    mount, kind = named.stdout.splitlines()[1].split()
    found = filesystem_of(tmp_path)
    assert (str(found.mount), found.kind) == (mount, kind)


@pytest.mark.root
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_another_disk_is_another_filesystem(disk: Disk, tmp_path: Path, kind: str) -> None:
    small = disk(kind, 16)
    found = filesystem_of(small / "not" / "yet")
    assert found != filesystem_of(tmp_path)
    assert (found.mount, found.kind) == (small, kind)
    assert 8 * MIB < found.free() <= 16 * MIB
    (small / "taken").write_bytes(bytes(4 * MIB))
    assert found.free() < 12.5 * MIB


@pytest.mark.root
def test_a_link_leads_to_the_filesystem_it_points_to(disk: Disk, tmp_path: Path) -> None:
    small = disk("tmpfs", 4)
    (tmp_path / "link").symlink_to(small)
    assert filesystem_of(tmp_path / "link" / "store.zarr").mount == small


@pytest.mark.root
def test_subvolumes_of_a_btrfs_share_their_space(disk: Disk) -> None:
    small = disk("btrfs", 128)
    subprocess.run(["btrfs", "subvolume", "create", str(small / "inner")], check=True, capture_output=True)
    assert (small / "inner").stat().st_dev != small.stat().st_dev
    assert filesystem_of(small / "inner") == filesystem_of(small)


@pytest.mark.root
def test_a_mount_that_covers_another_counts(disk: Disk) -> None:
    small = disk("tmpfs", 4)
    (small / "store").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small / "store")], check=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], check=True)
        try:
            assert filesystem_of(small / "store").total() == 2 * MIB
        finally:
            subprocess.run(["umount", str(small)], check=True)
        assert filesystem_of(small / "store").total() == MIB
    finally:
        subprocess.run(["umount", str(small / "store")], check=True)


@pytest.mark.root
def test_a_name_with_a_blank_and_an_umlaut(disk: Disk) -> None:
    small = disk("tmpfs", 4)
    named = small / "mit Blank ü"
    named.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(named)], check=True)
    try:
        assert filesystem_of(named).mount == named
    finally:
        subprocess.run(["umount", str(named)], check=True)


@pytest.mark.root
def test_a_filesystem_without_inodes_is_told(disk: Disk) -> None:
    small = disk("tmpfs", 4)
    assert not filesystem_of(small).without_inodes()
    subprocess.run(["mount", "-o", "remount,nr_inodes=3", str(small)], check=True)
    (small / "one").touch()
    (small / "two").touch()
    assert filesystem_of(small).without_inodes()
