"""A session that is a folder of .npy files and of text with numbers in columns."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from zstandard import ZstdError

from outofcore.domains.neural.recordings.arrays import SlicedArray
from outofcore.domains.neural.recordings.npy import npy_array
from outofcore.domains.neural.recordings.recording import SessionError, clean
from outofcore.domains.neural.recordings.streamed import BLOCK_BYTES, StreamedArray
from outofcore.raw.files import decompressed, plain_name

if TYPE_CHECKING:
    from outofcore.domains.neural.clocks import Clock
    from outofcore.domains.neural.params import TimeUnit

TEXT = (".txt", ".csv", ".tsv", ".dat")


class FolderRecording:
    """A folder; arrays are named by their path in it, ``.npy`` left out or not, ``[2]`` for a column of text."""

    unit: TimeUnit | None = None

    def __init__(self, root: Path, files: tuple[str, ...]) -> None:
        self._root = root
        self._files = files
        self.streamed = any(plain_name(name).lower().endswith(TEXT) for name in files)

    def names(self) -> list[str]:
        """Paths of all files."""
        return [name.removesuffix(".npy") for name in self._files]

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """A file by its path in the folder."""
        file, column = split_column(name)
        if file in self._files and not file.endswith(".npy"):
            return text_column(self._root / file, column)
        if f"{file.removesuffix('.npy')}.npy" not in self._files:
            raise KeyError(name)
        return npy_array(self._root / f"{file.removesuffix('.npy')}.npy", file, axis)

    def trains(self, name: str) -> list[SlicedArray]:
        """One vector; with ``*`` in the name, a file for each neuron."""
        return [self.array(name)]

    def clock(self, name: str) -> Clock | None:
        """A folder keeps clocks in files of their own."""
        del name
        return None

    def close(self) -> None:
        """Nothing is held open between reads."""


def split_column(name: str) -> tuple[str, int]:
    """``stimulus.txt.gz[1]`` -> the file and column 1; column 0 where none is named."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", name)
    return (found[1], int(found[2])) if found else (name, 0)


def named_files(name: str) -> PurePosixPath:
    """The file that a name means, as a pattern: its suffix may be left out for .npy."""
    return PurePosixPath(split_column(name)[0])


def text_column(path: Path, column: int) -> StreamedArray:
    """A column of a text of numbers: separated by commas, semicolons, tabs or blanks, ``#`` begins a comment.

    The first line may name the columns. A later entry that is no number counts as not-a-number.
    """
    try:
        count = sum(len(block) for block in _column_blocks(path, column))
    except (OSError, EOFError, zlib.error, ZstdError) as error:
        message = f"{path.name}: damaged: {clean(error)}"
        raise SessionError(message, reason="unreadable_file") from error
    return StreamedArray((count,), np.dtype(np.float64), lambda: _column_blocks(path, column))


def _column_blocks(path: Path, column: int) -> Iterator[npt.NDArray[Any]]:
    titled = None
    with path.open("rb") as raw:
        for lines in _line_blocks(decompressed(raw, path.name)):
            cells = [_cell(line, column) for line in lines]
            if titled is None and cells:
                titled = _number(cells[0]) is None
                cells = cells[titled:]
            values = (_number(cell) for cell in cells)
            yield np.array([np.nan if value is None else value for value in values], np.float64)


def _line_blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lines that hold data, trimmed, comments cut off, about a megabyte at a time."""
    rest = b""
    while content := stream.read(BLOCK_BYTES):
        *lines, rest = (rest + content).split(b"\n")
        yield _data(lines)
    yield _data([rest])


def _data(lines: list[bytes]) -> list[bytes]:
    bare = (line.split(b"#", 1)[0].strip() for line in lines)
    return [line for line in bare if line]


def _cell(line: bytes, column: int) -> bytes:
    separator = next((mark for mark in (b",", b";", b"\t") if mark in line), None)
    cells = line.split(separator)
    return cells[column].strip() if column < len(cells) else b"nan"


def _number(cell: bytes) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
