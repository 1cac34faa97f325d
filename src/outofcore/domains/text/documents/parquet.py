"""Parquet and streams of Arrow: one document per row, read a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outofcore.ndarrays import Ints
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member, open_parquet, plain_name
from outofcore.system.failures import raise_if_of_system

MOST_DOCUMENTS = 1 << 14
"""Documents of a unit: a rejected one takes some hundred bytes, an empty one takes none of its file."""

_T = TypeVar("_T")
_UNIT_BYTES = 2 << 20
_SMALL_GROUP_BYTES = 8 << 20
_FEW_ROWS = 64
_MOST_ROWS = 1 << 16
_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)


def values(member: Member, column: str) -> Iterator[tuple[int, bytes, Ints]]:
    """The values of a string or bytes column, about two megabytes at a time; the first of several of one name.

    A column may be inside of others: ``message.content``. ``.arrow`` is a stream, as ``datasets`` saves it to a disk.
    Yields the first row, the concatenated bytes of the values, and the length of each (-1 for null). A Parquet file
    must be seekable: not compressed as a whole or in an archive. Raises DamagedInput if the member is not valid or
    lacks the column, RawInputError if it is not seekable.
    """
    arrow = plain_name(member.name).lower().endswith(".arrow")
    try:
        file = pa.ipc.open_stream(member.stream) if arrow else open_parquet(member)
    except (pa.ArrowException, OSError) as error:
        raise _damage(member.name, error) from error
    schema = file.schema if arrow else file.schema_arrow
    path = [column] if column in schema.names else column.split(".")
    if not _is_text(_type_at(schema, path)):
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
        raise DamagedInput(
            f"text.source.text_column: expected a column {column!r} of strings; there are {columns}", "no_column"
        )
    row = 0
    try:
        pieces = _batches(file, path) if arrow else _pieces(file, member, path)
        for group in grouped(pieces, lambda array: (array.nbytes, len(array))):
            array = pa.concat_arrays(group)
            lengths = np.asarray(pc.fill_null(pc.binary_length(array), -1), np.int64)
            yield row, _content(array.fill_null(b"")), lengths
            row += len(array)
    except (pa.ArrowException, OSError) as error:
        raise _damage(member.name, error) from error


def _type_at(schema: Any, path: Sequence[str]) -> Any:
    """The type of a column; that of nulls if there is none."""
    place: Any = schema
    for name in path:
        fields = list(place) if isinstance(place, pa.Schema | pa.StructType) else []
        place = next((field.type for field in fields if field.name == name), pa.null())
    return place


def _batches(stream: Any, path: Sequence[str]) -> Iterator[Any]:
    """The column of a stream, in few rows."""
    for batch in stream:
        array = batch.column(batch.schema.names.index(path[0]))
        array.validate(full=True)  # offsets are those of the file
        yield from _slices(array, path)


def _pieces(file: Any, member: Member, path: Sequence[str]) -> Iterator[Any]:
    """The column in arrays of about two megabytes at most, whatever is repeated in the file.

    A page may name a value of its dictionary any number of times. A dictionary is kept where a row group is small:
    Arrow collects it over the whole group. Of a larger one a few rows are read at a time.
    """
    compact, total = None, 0
    for group in range(file.metadata.num_row_groups):
        facts = file.metadata.row_group(group)
        # Of all columns: asked for those of one, pyarrow 26 aborts the process where its statistics are damaged.
        rows = max(1, int(facts.num_rows * _UNIT_BYTES / max(facts.total_byte_size, 1)))
        done = count = 0
        if facts.total_byte_size <= _SMALL_GROUP_BYTES:
            compact = compact or open_parquet(member, ".".join(path))
            with suppress(pa.ArrowException, OSError):  # values that are stored as differences have no dictionary
                for array in _arrays(compact, group, path, min(rows, _MOST_ROWS)):
                    yield array
                    done += len(array)
                if done == facts.num_rows:
                    total += done
                    continue
        for array in _arrays(file, group, path, min(rows, _FEW_ROWS)):
            count += len(array)
            if done < len(array):
                yield array.slice(done)
            done = max(0, done - len(array))
        _check_rows(f"row group {group}", facts.num_rows, count)
        total += count
    _check_rows("the file", file.metadata.num_rows, total)


def _check_rows(place: str, stated: int, count: int) -> None:
    """Arrow reads the rows that are there, whatever number the file states."""
    if stated != count:
        raise pa.ArrowInvalid(f"{place} states {stated:,} rows and holds {count:,}")


def _arrays(file: Any, group: int, path: Sequence[str], rows: int) -> Iterator[Any]:
    for batch in file.iter_batches(rows, row_groups=[group], columns=[".".join(path)], use_threads=False):
        yield from _slices(batch.column(0), path)


def _slices(array: Any, path: Sequence[str]) -> Iterator[Any]:
    """A column, or what is inside of it, in pieces of few rows."""
    for name in path[1:]:
        array = pc.struct_field(array, name)
    if pa.types.is_dictionary(array.type):
        yield from _decoded(array)
    else:
        for first in range(0, len(array), _FEW_ROWS):
            yield array.slice(first, _FEW_ROWS).cast(pa.large_binary())


def _decoded(array: Any) -> Iterator[Any]:
    """The values of a dictionary array, in pieces."""
    sizes = pc.fill_null(pc.binary_length(array.dictionary).take(array.indices), 0)
    ends = np.cumsum(np.asarray(sizes, np.int64))
    first = 0
    while first < len(array):
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + _UNIT_BYTES, "right")))
        stop = min(stop, first + MOST_DOCUMENTS)
        yield array.slice(first, stop - first).dictionary_decode().cast(pa.large_binary())
        first = stop


def grouped(items: Iterable[_T], weigh: Callable[[_T], tuple[int, int]]) -> Iterator[list[_T]]:
    """Consecutive items of up to two megabytes together, and of no more documents than a unit has.

    ``weigh`` returns the bytes and the documents of an item. Items before damage are yielded before it is raised.
    """
    waiting: list[_T] = []
    size = count = 0
    damage: Exception | None = None
    try:
        for item in items:
            item_bytes, documents = weigh(item)
            if waiting and (size + item_bytes > _UNIT_BYTES or count + documents > MOST_DOCUMENTS):
                yield waiting
                waiting, size, count = [], 0, 0
            waiting.append(item)
            size, count = size + item_bytes, count + documents
    except (DamagedInput, pa.ArrowException, OSError) as error:
        damage = error
    if waiting:
        yield waiting
    if damage is not None:
        raise damage


def _damage(name: str, error: Exception) -> DamagedInput:
    """Arrow's message about damage, in one line; an error of the system is raised again."""
    raise_if_of_system(error)
    kind = "an Arrow stream" if plain_name(name).lower().endswith(".arrow") else "a Parquet file"
    return DamagedInput(f"{name}: expected {kind}, {' '.join(str(error).split())}")


def _is_text(kind: Any) -> bool:
    """Whether a type is an Arrow string or bytes, including dictionaries and extension types (JSON)."""
    if isinstance(kind, pa.BaseExtensionType):
        return _is_text(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(is_text(kind) for is_text in _TEXTS)


def _content(array: Any) -> bytes:
    """The bytes of all values, concatenated."""
    if not len(array):
        return b""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    return b"" if data is None else bytes(memoryview(data)[int(offsets[0]) : int(offsets[-1])])
