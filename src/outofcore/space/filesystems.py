"""Which filesystem a path lies on, and how much this user may still write there."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Filesystem:
    """A filesystem: places of one filesystem share their free space.

    Attributes
    ----------
    identity
        Equal for equal filesystems, wherever they are mounted; subvolumes of a btrfs are one filesystem.
    mount
        Where it is mounted.
    kind
        ``ext4``, ``xfs``, ``btrfs``, ``tmpfs``, ...; "" where the system does not say.
    folder
        The folder by which it was found; a quota on folders shows in the space that is asked for there.
    """

    identity: str
    mount: Path = field(compare=False)
    kind: str = field(compare=False)
    folder: Path = field(compare=False)

    def __str__(self) -> str:
        return f"{self.mount} ({self.kind})" if self.kind else str(self.mount)

    def free(self) -> int:
        """Bytes that a user without privileges may still write: what is reserved for root is not free."""
        facts = os.statvfs(existing(self.folder))
        return facts.f_bavail * facts.f_frsize

    def total(self) -> int:
        """Size in bytes."""
        facts = os.statvfs(existing(self.folder))
        return facts.f_blocks * facts.f_frsize

    def without_inodes(self) -> bool:
        """Whether it counts files and has room for none: then it is full, however many bytes are free."""
        facts = os.statvfs(existing(self.folder))
        return facts.f_files > 0 and facts.f_favail == 0


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that exists, links resolved: where it would be made."""
    path = Path(os.path.realpath(path))
    while not path.exists():
        path = path.parent
    return path


def folder_bytes(folder: Path) -> int:
    """Bytes that would be free if a folder were removed: of files that no other name leads to; 0 without the folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            facts = (Path(place) / name).lstat()
            if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
                total += facts.st_size
    return total


def filesystem_of(path: str | Path) -> Filesystem:
    """The filesystem that a path lies on, or would lie on if it were made."""
    place = existing(Path(path))
    folder = place if place.is_dir() else place.parent
    if _MOUNTS.exists():
        return _by_mount_number(folder)
    device, mount = folder.stat().st_dev, folder
    while mount != mount.parent and mount.parent.stat().st_dev == device:
        mount = mount.parent
    return Filesystem(str(device), mount, "", folder)


def _by_mount_number(folder: Path) -> Filesystem:
    """As the kernel tells: an open folder states the number of its mount, however mounts cover one another."""
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
