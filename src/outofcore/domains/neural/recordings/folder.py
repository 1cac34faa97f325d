"""A session stored as a folder of .npy files and text columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path, PurePosixPath

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

TEXT = (".txt", ".csv", ".tsv", ".dat")


class FolderRecording(Recording):
    """A folder; arrays are named by relative path, ``.npy`` optional; ``[2]`` or ``[speed]`` for a column of text."""

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


def split_column(name: str) -> tuple[str, int | str | None]:
    """``stimulus.txt.gz[1]``, ``run.csv[speed]`` -> the file and the number or title of its column, None if missing."""
    found = re.fullmatch(r"(.*)\[([^]]+)\]", name)
    if found is None:
        return name, None
    column = found[2].strip()
    return found[1], int(column) if column.isdecimal() else column


def named_files(name: str) -> PurePosixPath:
    """Files matching a name or pattern; the suffix .npy is optional."""
    return PurePosixPath(split_column(name)[0])


def text_array(path: Path, column: int | str | None, axis: int = 0) -> Array:
    """A text of numbers or one column of it, separated by commas, semicolons, tabs or blanks; ``#`` for comments.

    The first line may be a header; it is one if the column is a title. A later entry that is not a number is NaN, as is
    a line whose number of entries differs from the first. A text of one column is a vector, one of several a table.
    """
    try:
        head = list(islice(chain.from_iterable(_line_blocks(path)), 2))
        titled = isinstance(column, str)
        column = _titled(path.name, head, column) if isinstance(column, str) else column
        header = int(titled or (bool(head) and None in map(_number, _wanted(head[0], column))))
        columns = len(_cells(head[header])) if len(head) > header else 0
        rows = sum(map(len, _line_blocks(path))) - header
    except STREAM_DAMAGE as error:
        message = f"{path.name}: damaged: {clean(error)}"
        raise SessionError(message, reason="unreadable_file") from error
    if column is not None and column >= columns > 0:
        message = f"{path.name}: no column {column}, lines have {columns}, numbered from 0"
        raise SessionError(message, reason="wrong_shape")
    if axis:
        message = f"{path.name}: a text of {rows} x {columns} numbers, and time is not first; transpose it"
        raise SessionError(message, reason="wrong_shape")
    vector = column is not None or columns <= 1
    shape = (rows,) if vector else (rows, columns)

    def blocks() -> Iterator[npt.NDArray[np.float64]]:
        skipped = header
        for lines in _line_blocks(path):
            values = [_numbers(_wanted(line, column), 1 if vector else columns) for line in lines[skipped:]]
            yield np.array(values, np.float64).reshape(-1, *shape[1:])
            skipped = skipped if not lines else 0

    return streamed(shape, np.dtype(np.float64), blocks)


def _titled(name: str, head: list[bytes], title: str) -> int:
    """Number of the column with a title in the first line."""
    titles = [cell.decode("utf-8", "replace").strip("\ufeff\"'") for cell in _cells(next(iter(head), b""))]
    if titles.count(title) != 1:
        message = f"{name}: expected one column {title!r}, its first line has {', '.join(titles[:24])}"
        raise SessionError(message, reason="missing_field")
    return titles.index(title)


def _line_blocks(path: Path) -> Iterator[list[bytes]]:
    """Data lines, stripped of comments and blanks, about a megabyte at a time."""
    with path.open("rb") as raw:
        stream = decompressed(raw, path.name)
        while lines := stream.readlines(BLOCK_BYTES):
            bare = (line.split(b"#", 1)[0].strip() for line in lines)
            yield [line for line in bare if line]


def _wanted(line: bytes, column: int | None) -> list[bytes]:
    """The cell of a column, none if the line is too short; or all cells."""
    cells = _cells(line)
    return cells if column is None else cells[column : column + 1]


def _cells(line: bytes) -> list[bytes]:
    separator = next((mark for mark in (b",", b";", b"\t") if mark in line), None)
    return [cell.strip() for cell in line.split(separator)]


def _numbers(cells: list[bytes], columns: int) -> list[float]:
    if len(cells) != columns:
        return [math.nan] * columns
    return [math.nan if number is None else number for number in map(_number, cells)]


def _number(cell: bytes) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
