"""A file is on the disk before it counts; what the filesystem refuses is one line with the path and a way out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from outofcore.errors import StoreError
from outofcore.store.durable import sync_folder, write_file, writing

CURES = {
    errno.EIO: "check that disk, and run again",
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
