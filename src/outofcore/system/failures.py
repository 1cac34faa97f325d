"""Errors of the system (of a disk, of a limit) behind what libraries raise or swallow: they are no damage of a file."""

from __future__ import annotations

import errno
import io
import os
import re
from typing import Any

OF_CONTENT = (errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.EOVERFLOW)
"""Errors of the system that content causes: a place before the beginning of a file, a folder where a file must be."""


def raise_if_of_system(error: BaseException) -> None:
    """Raise the OSError of the system behind what a library raised: it is no damage of the file, and ends the work.

    HDF5 keeps the number of the error in its text alone.
    """
    if isinstance(error, OSError) and error.errno not in (None, *OF_CONTENT):
        raise error
    match = re.search(r"name = '([^']*)'.*\berrno = (\d+)", str(error))
    if match and int(match[2]) not in (0, *OF_CONTENT):
        raise OSError(int(match[2]), os.strerror(int(match[2])), match[1]) from error


class NamedFile(io.FileIO):
    """A file that adds its name to errors of the system, and remembers them, as libraries swallow them."""

    trouble: OSError | None = None

    def readinto(self, target: Any) -> int:
        try:
            return super().readinto(target)
        except OSError as error:
            self._remember(error)
            raise

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            self._remember(error)
            raise

    def _remember(self, error: OSError) -> None:
        error.filename = os.fspath(self.name)
        self.trouble = error
