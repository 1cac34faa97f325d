"""A session stored as a folder of .npy files and text columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import (
    BLOCK_BYTES,
    STREAM_DAMAGE,
    Array,
    SessionError,
    clean,
    streamed,
)
from outofcore.domains.neural.recordings.npy import npy_array
from outofcore.domains.neural.recordings.recording import Recording
from outofcore.raw.files import decompressed, plain_name

DOUBLE = np.dtype(np.float64)
TEXT = (".txt", ".csv", ".tsv", ".dat")


class FolderRecording(Recording):
    """A folder; arrays are named by relative path, ``.npy`` optional, ``[2]`` for a column of text."""

    def __init__(self, root: Path, files: tuple[str, ...]) -> None:
        self._root = root
        self._files = files
        self.streamed = any(plain_name(name).lower().endswith(TEXT) for name in files)

    def names(self) -> list[str]:
        """Paths of all files."""
        return [name.removesuffix(".npy") for name in self._files]

    def array(self, name: str, axis: int = 0) -> Array:
        """A file by its path in the folder."""
        file, column = split_column(name)
        if file in self._files and not file.endswith(".npy"):
            return text_array(self._root / file, column, axis)
        if f"{file.removesuffix('.npy')}.npy" not in self._files:
            raise KeyError(name)
        return npy_array(self._root / f"{file.removesuffix('.npy')}.npy", file, axis)


def split_column(name: str) -> tuple[str, int | None]:
    """``stimulus.txt.gz[1]`` -> the file and column 1; column None if none is named."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", name)
    return (found[1], int(found[2])) if found else (name, None)


def named_files(name: str) -> PurePosixPath:
    """Files matching a name or pattern; the suffix .npy is optional."""
    return PurePosixPath(split_column(name)[0])


def text_array(path: Path, column: int | None, axis: int = 0) -> Array:
    """A text of numbers or one column of it, separated by commas, semicolons, tabs or blanks; ``#`` for comments.

    The first line may be a header. A later entry that is not a number is NaN, as is a line whose number of entries
    differs from the first. A text of one column is a vector, one of several a table.
    """
    rows, columns = 0, 0
    try:
        for block in _blocks(path, column):
            rows, columns = rows + len(block), block.shape[1]
    except STREAM_DAMAGE as error:
        message = f"{path.name}: damaged: {clean(error)}"
        raise SessionError(message, reason="unreadable_file") from error
    if column is not None and column >= columns > 0:
        message = f"{path.name}: no column {column}, lines have {columns}, numbered from 0"
        raise SessionError(message, reason="wrong_shape")
    if axis:
        message = f"{path.name}: a text of {rows} x {columns} numbers, and time is not first; transpose it"
        raise SessionError(message, reason="wrong_shape")
    if column is not None or columns <= 1:
        place = column or 0
        return streamed((rows,), DOUBLE, lambda: (block[:, place] for block in _blocks(path, column)))
    return streamed((rows, columns), DOUBLE, lambda: _blocks(path, column))


def _blocks(path: Path, column: int | None) -> Iterator[npt.NDArray[np.float64]]:
    """All columns, (lines, columns), about a megabyte of text at a time."""
    columns, titled = 0, None
    with path.open("rb") as raw:
        for lines in _line_blocks(decompressed(raw, path.name)):
            rows = [_cells(line) for line in lines]
            if titled is None and rows:
                titled = any(_number(cell) is None for cell in _named(rows[0], column))
                rows = rows[titled:]
            if rows:
                columns = columns or len(rows[0])
                yield np.array([_row(row, columns, column) for row in rows], np.float64)


def _named(cells: list[bytes], column: int | None) -> list[bytes]:
    return cells if column is None else cells[column : column + 1]


def _line_blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Data lines, stripped of comments and blanks, about a megabyte at a time."""
    rest = b""
    while content := stream.read(BLOCK_BYTES):
        *lines, rest = (rest + content).split(b"\n")
        yield _data(lines)
    yield _data([rest])


def _data(lines: list[bytes]) -> list[bytes]:
    bare = (line.split(b"#", 1)[0].strip() for line in lines)
    return [line for line in bare if line]


def _cells(line: bytes) -> list[bytes]:
    separator = next((mark for mark in (b",", b";", b"\t") if mark in line), None)
    return [cell.strip() for cell in line.split(separator)]


def _row(cells: list[bytes], columns: int, column: int | None) -> list[float]:
    """The numbers of a line; other columns than the wanted one are not parsed."""
    if column is None and len(cells) != columns:
        return [math.nan] * columns
    values = [math.nan] * columns
    for place in range(columns) if column is None else (column,):
        number = _number(cells[place]) if place < min(len(cells), columns) else None
        if number is not None:
            values[place] = number
    return values


def _number(cell: bytes) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
