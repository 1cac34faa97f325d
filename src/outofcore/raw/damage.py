"""Damage of the raw input, counted by domains as a reject: never silent, never a crash."""

from __future__ import annotations

import lzma
import struct
import tarfile
import zipfile
import zlib
from typing import Literal

from zstandard import ZstdError

from outofcore.errors import RawInputError
from outofcore.system.failures import raise_if_of_system

Reason = Literal["damaged_file", "decompression_bomb", "nested_archive", "not_a_file", "no_column"]
"""
``damaged_file``: cut short, corrupt, encrypted, or compressed by an unknown method. ``decompression_bomb``: it expands
implausibly. ``nested_archive``: an archive inside an archive. ``not_a_file``: a link or a device. ``no_column``: a
table without the column that is read.
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
"""Raised by libraries for invalid input.

ValueError for impossible names and numbers, RuntimeError for encryption and unknown methods.
"""


class DamagedInput(RawInputError, EOFError):  # noqa: N818 - the name describes the input
    """No more of a file can be read; ``why`` is for people, ``reason`` for the metrics.

    ``whole`` tells that what came before is complete, so that the damage interrupts no record.
    """

    def __init__(self, why: str, reason: Reason = "damaged_file", *, whole: bool = False) -> None:
        super().__init__(why)
        self.reason = reason
        self.whole = whole


def as_damage(error: Exception) -> DamagedInput:
    """The damage behind one of :data:`ERRORS`; an OSError of the disk rather than the file is raised again."""
    if isinstance(error, DamagedInput):
        return error
    # gzip and bz2 raise OSError without a number for bad data.
    raise_if_of_system(error)
    return DamagedInput(str(error) or type(error).__name__)
