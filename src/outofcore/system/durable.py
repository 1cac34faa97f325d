"""Files that survive a power loss, locks, and work folders; an error is one line with the file and what to do."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from filelock import FileLock, SoftFileLock, Timeout

from outofcore.errors import StoreError
from outofcore.system.descriptors import OPENS_FOLDERS, Descriptor

_CURES = {
    errno.EACCES: "give this user write permission there",
    errno.EPERM: "give this user write permission there",
    errno.EROFS: "mount that filesystem for writing, or write elsewhere",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or lower store.shard_rows",
    errno.EIO: "check that disk",
    errno.ENOENT: "its folder was removed meanwhile, as DVC does for another run; end that one",
}
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EINVAL}  # of a mount without flock
LOCK, MARK = "lock", "outofcore-work"
TEMPORARY = "outofcore-"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a filesystem error into one line with the path; a full disk is left to the disk guard."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            error.filename = error.filename or str(path)
            raise
        cure = _CURES.get(error.errno or 0, "see what disk, permissions and limits allow")
        raise StoreError(f"{path} cannot be written: {error.strerror or error}; {cure}, and run again") from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file to the disk, with missing folders, in a folder that nobody else writes to."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file that takes the place of ``path`` at the end, on the disk; creates missing folders.

    The previous file is unchanged under any other names that it has: DVC links what it caches.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # of no other process, and not a link of others
    new.open("xb").close()
    try:
        yield new
        with new.open("r+b") as stream:  # Windows flushes no file that is open for reading only
            os.fsync(stream.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished(path: Path) -> None:
    """Remove what killed processes left of replacing a file; for the only process that may replace it now."""
    for left in path.parent.glob("*.part") if path.parent.is_dir() else ():
        if re.fullmatch(re.escape(path.name) + r"\.[0-9a-f]{8}\.part", left.name) and not left.is_symlink():
            left.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file."""
    with writing(path), replacing(path) as new:
        new.write_bytes(content)


def replace_text(path: Path, text: str) -> None:
    """Replace a text file, UTF-8 with the line ends of the text."""
    replace_file(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Replace a file by JSON for people."""
    replace_text(path, json.dumps(value, indent=2) + "\n")


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where a system opens folders."""
    if not OPENS_FOLDERS:
        return
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # this filesystem flushes no folders
                raise
        finally:
            os.close(handle)


@contextmanager
def locked(folder: Path, refusal: str) -> Iterator[None]:
    """Keep other processes and threads out of a folder of ours; raises StoreError(``refusal``) if one is there.

    Where the filesystem has no locks, a file that names the process takes the place of one.
    """
    with writing(folder / LOCK):
        try:
            try:
                lock = FileLock(folder / LOCK, timeout=0, thread_local=False, fallback_to_soft=False)
                lock.acquire()
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                lock = SoftFileLock(folder / f"{LOCK}.holder", timeout=0, thread_local=False)
                lock.acquire()
        except Timeout as error:
            way = f"; if that process has ended, remove {error.lock_file}" if isinstance(lock, SoftFileLock) else ""
            raise StoreError(refusal + way) from error
    try:
        yield
    finally:
        lock.release()


class WorkFolder:
    """A folder of ours in which files grow, used by one process at a time (as a context manager).

    It is created by us and carries a mark; a folder without one, or a link, belongs to somebody else and is refused. At
    the end it is removed unless something is left in it for the next process.
    """

    def __init__(self, path: Path, refusal: str) -> None:
        self.path = path
        self._refusal = refusal
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(self.path):
                self._create()
        self.token = self._mark()
        self._held.enter_context(locked(self.path, self._refusal))
        self._remove_leftovers()
        return self

    def __exit__(self, *_: object) -> None:
        left = {path.name for path in self._content()}
        with self._held:
            if left:
                return
            # Under another name first, so that nobody finds it half removed.
            gone = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
            with suppress(OSError, StoreError):
                sync_folder(self.path)  # after a power loss, nothing in it would hide that the rest is ours
                self.path.rename(gone)
                shutil.rmtree(gone)

    def empty(self) -> None:
        """Remove everything in the folder."""
        for path in self._content():
            remove(path)

    def _content(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return [path for path in self.path.iterdir() if not _is_own(path)]
        return []

    def _remove_leftovers(self) -> None:
        """Remove the folders under other names that processes left which were killed while they made or removed it."""
        for path in self.path.parent.glob(f"{glob.escape(self.path.name)}.{'[0-9a-f]' * 8}"):
            with suppress(OSError):
                if not path.is_symlink() and all(map(_is_own, path.iterdir())):
                    shutil.rmtree(path)

    def _create(self) -> None:
        new = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        new.mkdir()
        try:
            write_file(new / MARK, f"work folder of outofcore {secrets.token_hex(16)}\n".encode())
            sync_folder(new)
            new.rename(self.path)
        except (OSError, StoreError):
            if not os.path.lexists(self.path):  # else another process was faster, and took this for a leftover
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
        sync_folder(self.path.parent)

    def _mark(self) -> str:
        """The token in the mark; raises StoreError without one."""
        with suppress(OSError):
            if stat.S_ISDIR(self.path.lstat().st_mode):
                content = Descriptor(self.path / MARK, getattr(os, "O_NOFOLLOW", 0)).read(0, 100)
                mark = re.fullmatch(rb"work folder of outofcore ([0-9a-f]{32})\n", content)
                if mark:
                    return mark[1].decode()
        raise StoreError(
            f"{self.path}: expected no such path, or a work folder that outofcore made ({MARK} in it), got somebody "
            "else's; nothing was touched: rename it, or choose another target"
        )


class TemporaryFolder:
    """A folder in the system's place for temporary files, locked until it is removed.

    What killed processes of this user have left there is removed first: folders whose lock nobody holds.
    """

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
            with suppress(OSError, StoreError):
                facts = left.lstat()
                if stat.S_ISDIR(facts.st_mode) and _is_of_this_user(facts) and (left / LOCK).is_file():
                    with locked(left, ""):
                        shutil.rmtree(left)
        self._held = ExitStack()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=TEMPORARY))
            try:
                self._held.enter_context(locked(self.path, ""))
            except StoreError as error:
                if isinstance(error.__cause__, Timeout | FileNotFoundError):
                    continue  # before it was locked, another process has taken it for a dead one's
                raise
            if (self.path / LOCK).exists():
                return

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()


def _is_of_this_user(facts: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or facts.st_uid == os.getuid()


def _is_own(path: Path) -> bool:
    """Whether a path in a work folder is its mark or its lock."""
    return path.name in (MARK, LOCK, f"{LOCK}.holder")


def remove(path: Path) -> None:
    """Remove a file, a link or a folder; not what a link points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
