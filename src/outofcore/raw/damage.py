"""What of the raw input cannot be read, and why: counted by domains as a reject, never silent, never a crash."""

from __future__ import annotations

import errno
import lzma
import struct
import tarfile
import zipfile
import zlib
from typing import Literal

from zstandard import ZstdError

from outofcore.errors import RawInputError

Reason = Literal["damaged_file", "decompression_bomb", "nested_archive", "not_a_file"]
"""
``damaged_file``: cut short, corrupt, encrypted, or compressed by an unknown method. ``decompression_bomb``: it becomes
absurdly more than it is on disk. ``nested_archive``: an archive inside an archive. ``not_a_file``: a link or a device.
"""

ERRORS = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    ZstdError,
)
"""What libraries raise for input that is not what it says it is.

ValueError for names and numbers that cannot be, RuntimeError for encryption and unknown methods.
"""


class DamagedInput(RawInputError, EOFError):  # noqa: N818 - reads as what it is: damaged input
    """Nothing further of a file can be read.

    Parameters
    ----------
    why
        For a person.
    reason
        For the count of rejects.
    """

    def __init__(self, why: str, reason: Reason = "damaged_file") -> None:
        super().__init__(why)
        self.reason = reason


def as_damage(error: Exception) -> DamagedInput:
    """The damage that one of :data:`ERRORS` tells of.

    Raises
    ------
    OSError
        The error itself, if it is the disk's and not the file's.
    """
    if isinstance(error, DamagedInput):
        return error
    # gzip and bz2 raise OSError without a number for bad data; a place before a file's beginning is bad data as well.
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        raise error
    return DamagedInput(str(error) or type(error).__name__)
