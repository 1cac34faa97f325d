"""What has been flushed to the disk: sizes of files and the names in folders, by inode, which survives a rename."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest


class Synced:
    """Records what each fsync of this process finds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._sizes: dict[int, int] = {}
        self._names: dict[int, set[str]] = {}
        fsync = os.fsync

        def synced(handle: int) -> None:
            facts = os.fstat(handle)
            if stat.S_ISDIR(facts.st_mode):
                self._names[facts.st_ino] = set(os.listdir(handle))
            else:
                self._sizes[facts.st_ino] = facts.st_size
            fsync(handle)

        patch.setattr(os, "fsync", synced)

    def size(self, file: Path) -> int:
        """Bytes of a file that were there when it was last flushed; -1 if it never was."""
        return self._sizes.get(file.stat().st_ino, -1)

    def names(self, folder: Path) -> set[str]:
        """Names in a folder when it was last flushed."""
        return self._names.get(folder.stat().st_ino, set())
