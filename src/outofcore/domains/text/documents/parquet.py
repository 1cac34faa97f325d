"""Parquet: one document per row, read a few rows at a time."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from outofcore.errors import RawInputError
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member

_UNIT_BYTES = 2 << 20
_PAGE_BYTES = 1 << 20
_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)


def values(member: Member, column: str) -> Iterator[tuple[int, bytes, npt.NDArray[np.int64]]]:
    """The values of a string or bytes column, about two megabytes at a time.

    Yields the first row, the concatenated bytes of the values, and the length of each (-1 for null). The member must be
    seekable: not compressed as a whole or in an archive. Raises DamagedInput if it is not valid Parquet, RawInputError
    if it is not seekable or lacks the column.
    """
    try:
        file = pq.ParquetFile(member.stream, buffer_size=_PAGE_BYTES, pre_buffer=False)
    except (io.UnsupportedOperation, tarfile.StreamError, AttributeError) as error:  # tar streams cannot seek
        message = f"{member.name}: Parquet is read from its end, so not from an archive or a compressed file; unpack it"
        raise RawInputError(message) from error
    except (pa.ArrowException, OSError) as error:
        raise _damage(member.name, error) from error
    names = file.schema_arrow.names
    if column not in names or not _is_text(file.schema_arrow.field(column).type):
        message = (
            f"{member.name}: text.source.text_column: expected a column {column!r} of strings; "
            f"there are {', '.join(f'{name} ({file.schema_arrow.field(name).type})' for name in names)}"
        )
        raise RawInputError(message)
    row = 0
    try:
        for batch in file.iter_batches(batch_size=_rows(file), columns=[column], use_threads=False):
            array = batch.column(0).cast(pa.large_binary())
            lengths = np.asarray(pc.fill_null(pc.binary_length(array), -1), np.int64)
            yield row, _content(array.fill_null(b"")), lengths
            row += len(array)
    except (pa.ArrowException, OSError) as error:
        raise _damage(member.name, error) from error


def _damage(name: str, error: Exception) -> DamagedInput:
    """Arrow's message about damage, in one line; disk errors propagate."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return DamagedInput(f"{name}: expected a Parquet file, {' '.join(str(error).split())}")


def _is_text(kind: Any) -> bool:
    """Whether a type is an Arrow string or bytes, including dictionaries and extension types (JSON)."""
    if isinstance(kind, pa.BaseExtensionType):
        return _is_text(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(is_text(kind) for is_text in _TEXTS)


def _rows(file: Any) -> int:
    """Number of rows that hold at most about two megabytes, by the sizes stated in the file.

    Of all columns: asked for those of one column, pyarrow 26 aborts the process where its statistics are damaged.
    """
    size = rows = 0
    for group in range(file.metadata.num_row_groups):
        facts = file.metadata.row_group(group)
        size += facts.total_byte_size
        rows += facts.num_rows
    return max(1, int(rows * _UNIT_BYTES / max(size, 1))) if rows else 1


def _content(array: Any) -> bytes:
    """The bytes of all values, concatenated."""
    if not len(array):
        return b""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    return b"" if data is None else bytes(memoryview(data)[int(offsets[0]) : int(offsets[-1])])
