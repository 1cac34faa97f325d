"""Write files that survive a power loss; an error is one line with the file and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outofcore.errors import StoreError

_CURES = {
    errno.EACCES: "give this user write permission there",
    errno.EPERM: "give this user write permission there",
    errno.EROFS: "mount that filesystem for writing, or write elsewhere",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or lower store.shard_rows",
    errno.EIO: "check that disk",
}


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
        message = f"{path} cannot be written: {error.strerror or error}; {cure}, and run again"
        raise StoreError(message) from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file to the disk, with missing folders."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # this filesystem flushes no folders
                raise
        finally:
            os.close(handle)
