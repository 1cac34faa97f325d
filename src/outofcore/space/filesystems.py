"""The filesystem of a path, and how much the user may still write there."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Filesystem:
    """A filesystem; paths on one filesystem share its free space."""

    identity: str  # equal wherever it is mounted; btrfs subvolumes share one
    mount: Path = field(compare=False)
    kind: str = field(compare=False)  # ext4, xfs, btrfs, tmpfs, ...; "" if unknown
    folder: Path = field(compare=False)  # by which it was found; folder quotas show in the free space here

    def __str__(self) -> str:
        return f"{self.mount} ({self.kind})" if self.kind else str(self.mount)

    def free(self) -> int:
        """Bytes that an unprivileged user may still write, without root's reserve."""
        return shutil.disk_usage(existing(self.folder)).free

    def total(self) -> int:
        """Size in bytes."""
        return shutil.disk_usage(existing(self.folder)).total

    def without_inodes(self) -> bool:
        """Whether it has run out of inodes: then it is full, however many bytes are free. Windows counts none."""
        if not hasattr(os, "statvfs"):
            return False
        facts = os.statvfs(existing(self.folder))
        return facts.f_files > 0 and facts.f_favail == 0


def existing(path: Path) -> Path:
    """The path itself, or its nearest existing ancestor, with links resolved."""
    path = Path(os.path.realpath(path))
    while not path.exists():
        path = path.parent
    return path


def folder_bytes(folder: Path) -> int:
    """Bytes freed by removing a folder: files without other hard links; 0 if it does not exist."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            facts = (Path(place) / name).lstat()
            if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
                total += facts.st_size
    return total


def filesystem_of(path: str | Path) -> Filesystem:
    """The filesystem of a path, existing or not."""
    place = existing(Path(path))
    folder = place if place.is_dir() else place.parent
    if _MOUNTS.exists():
        return _by_mount_number(folder)
    device, mount = folder.stat().st_dev, folder
    while mount != mount.parent and mount.parent.stat().st_dev == device:
        mount = mount.parent
    return Filesystem(str(device), mount, "", folder)


def _by_mount_number(folder: Path) -> Filesystem:
    """By the mount number of an open folder, which is right even if mounts cover one another."""
    descriptor = os.open(folder, os.O_PATH)
    try:
        facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    finally:
        os.close(descriptor)
    number = next(line.split()[1] for line in facts.splitlines() if line.startswith("mnt_id:"))
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if fields[0] == number:
            mount = fields[4].encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
            return Filesystem(fields[2], Path(mount), after.split()[0], folder)
    return Filesystem(str(folder.stat().st_dev), folder, "", folder)  # a mount outside this process's view
