"""Locks of files and folders that one process uses at a time."""

from __future__ import annotations

import errno
import fcntl

_TAKEN = {errno.EAGAIN, errno.EACCES}


def take(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _TAKEN  # of others: the filesystem has no locks
    return True
