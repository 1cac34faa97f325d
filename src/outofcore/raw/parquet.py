"""Parquet files of the raw input, opened to be read a few rows at a time."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from outofcore.errors import RawInputError
from outofcore.raw.files import Member

_PAGE_BYTES = 1 << 20


def open_parquet(member: Member, *dictionaries: str) -> Any:
    """A ``pyarrow.parquet.ParquetFile``, whose columns named by ``dictionaries`` stay compact.

    Raises RawInputError if the member cannot be sought in: compressed as a whole, or in an archive.
    """
    import pyarrow.parquet as pq  # late: it takes a tenth of a second, and few have such files

    try:
        return pq.ParquetFile(member.stream, buffer_size=_PAGE_BYTES, pre_buffer=False, read_dictionary=dictionaries)
    except (io.UnsupportedOperation, tarfile.StreamError, AttributeError) as error:  # tar streams cannot seek
        raise RawInputError(
            f"{member.name}: Parquet is read from its end, so not from an archive or a compressed file; unpack it"
        ) from error
