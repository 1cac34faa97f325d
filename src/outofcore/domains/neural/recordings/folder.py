"""A session stored as a folder of .npy files and text columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import (
    BLOCK_BYTES,
    WHOLE_BYTES,
    RecordedArray,
    SessionError,
    refusing,
    sliced,
)
from outofcore.domains.neural.recordings.npy import npy_array
from outofcore.domains.neural.recordings.recording import Recording, split_column
from outofcore.ndarrays import Ints
from outofcore.raw.files import decompressed, plain_name
from outofcore.system.failures import NamedFile

TEXT = (".txt", ".csv", ".tsv", ".dat")
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "-", ".", "?", "inf", "-inf")
"""Words for a missing entry, which are no titles."""
LAYOUTS = {
    ("spike_times.npy", "spike_clusters.npy"): "Kilosort or phy: set source.names={stimulus: null, responses: null, "
    "spike_times: spike_times, spike_neurons: spike_clusters}, source.bin_width (seconds) and source.time_unit (the "
    "sample_rate of params.py)",
    ("F.npy", "iscell.npy"): "suite2p: set source.names={stimulus: null, responses: F} and "
    "source.time_axis={responses: 1}",
}
"""Files of a folder that a program of the field writes, and the settings that read them."""


class FolderRecording(Recording):
    """A folder; arrays are named by relative path, ``.npy`` optional; ``[speed]`` is a column of a text."""

    format = "folder"
    member_suffixes = (".npy", *TEXT)

    @classmethod
    def open(cls, root: Path, members: tuple[str, ...]) -> Recording:
        return cls(root, members)

    def __init__(self, root: Path, files: tuple[str, ...]) -> None:
        self._root = root
        self._files = files
        self.one_reader = any(plain_name(name).lower().endswith(TEXT) for name in files)

    def names(self) -> list[str]:
        """Paths of all files."""
        return [name.removesuffix(".npy") for name in self._files]

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        """A file by its path in the folder."""
        file, column = split_column(name)
        if file in self._files and not file.endswith(".npy"):
            return text_array(self._root / file, column, axis)
        file = f"{name.removesuffix('.npy')}.npy"
        if file not in self._files:
            raise KeyError(name)
        return npy_array(self._root / file, name, axis)

    def column_of_labels(self, name: str, column: str, labels: Ints) -> npt.NDArray[Any]:
        """A column of a text, such as phy's ``cluster_group.tsv[group]``, whose first column has the labels."""
        file, title = split_column(column)
        if file not in self._files or not isinstance(title, str):
            return super().column_of_labels(name, column, labels)
        with refusing(f"{file}: damaged"):
            lines = _lines(self._root / file) or [""]
        rows = [[cell.strip() for cell in line.split(_separator(lines[0]))] for line in lines]
        place = _titled(file, rows[0], title)
        entries = {_number(row[0]): row[place] if place < len(row) else "" for row in rows[1:]}
        words = np.array([entries.get(label, "") for label in labels.tolist()])
        if entries.keys().isdisjoint(labels.tolist()):
            raise SessionError(
                "missing_field",
                f"{file}: its first column ({rows[0][0]}) has none of the {len(labels)} labels of names.spike_neurons",
            )
        numbers = np.array([_number(word) for word in words])
        return words if any(words[np.isnan(numbers)] != "") else numbers


def text_array(path: Path, column: int | str | None, axis: int = 0) -> RecordedArray:
    """A text of numbers or one column of it, separated by commas, semicolons, tabs or blanks; ``#`` for comments.

    The first line is a header if the column is a title, or if it has words and no number. An entry that is not a number
    is NaN. A text of one column is a vector, one of several a table.
    """
    with refusing(f"{path.name}: damaged"):
        lines = _lines(path)
    if not lines:
        return sliced(np.empty(0), axis, path.name)
    first = [cell.strip("\"'") for cell in _cells(lines[0])]
    place = _titled(path.name, first, column) if isinstance(column, str) else column
    data = lines[1:] if isinstance(column, str) or _is_header(path.name, first, lines[1:]) else lines
    if not data:
        return sliced(np.empty(0), axis, path.name)
    second = _cells(data[0])
    if data is not lines and _words(second, data[1:]) and all(math.isnan(_number(cell)) for cell in second):
        raise SessionError(
            "unclear_header",
            f"{path.name}: its second line has no number either ({', '.join(second[:8])}): leave it out",
        )
    separator, width = _separator(data[0]), len(second)
    if place is not None and place >= width:
        raise SessionError("wrong_shape", f"{path.name}: no column {place}, lines have {width}, numbered from 0")
    unequal = next((line for line in data if len(line.split(separator)) != width), None)
    if unequal is not None:
        raise SessionError(
            "unequal_length",
            f"{path.name}: expected {width} entries in each line, as in the first, got {unequal[:40]!r}",
        )
    try:
        values = np.loadtxt(data, delimiter=separator, usecols=place, ndmin=2)
    except ValueError:  # some entry is no number
        values = np.loadtxt(data, delimiter=separator, usecols=place, ndmin=2, converters=_number)
        for empty in np.flatnonzero(np.isnan(values).all(axis=0)).tolist():
            number = empty if place is None else place
            cells = {line.split(separator)[number].strip(" \"'") for line in data}
            if words := {cell for cell in cells if cell.lower() not in MISSING}:
                message = f"{path.name}: column {number} has no number, but {min(words)!r:.40}; name the columns that "
                message += "are meant, and write decimals with a point"
                raise SessionError("wrong_type", message) from None
    return sliced(values[:, 0] if place is not None or values.shape[1] <= 1 else values, axis, path.name)


def _lines(path: Path) -> list[str]:
    """Data lines, without comments; raises SessionError for more than may be held in memory."""
    content = bytearray()
    with BufferedReader(NamedFile(path)) as raw:
        stream = decompressed(raw, path.name)
        while block := stream.read(BLOCK_BYTES):
            content += block
            if len(content) > WHOLE_BYTES:
                most = f"{WHOLE_BYTES >> 20} MiB"
                raise SessionError(
                    "too_large", f"{path.name}: more than {most} of text, which is read whole; save it as .npy"
                )
    bare = (line.split("#", 1)[0].rstrip().lstrip(" ") for line in content.decode("utf-8-sig", "replace").splitlines())
    return [line for line in bare if line]


def _separator(line: str) -> str | None:
    return next((mark for mark in (",", ";", "\t") if mark in line), None)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(_separator(line))]


def _titled(name: str, titles: Sequence[str], title: str) -> int:
    """Number of the column with a title."""
    if titles.count(title) != 1:
        raise SessionError(
            "missing_field", f"{name}: expected one column {title!r}, its first line has {', '.join(titles[:24])}"
        )
    return titles.index(title)


def _is_header(name: str, first: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether the first line has titles; raises SessionError where that cannot be known."""
    words = _words(first, rest)
    numbers = [cell for cell in first if not math.isnan(_number(cell))]
    numbered = first[0] == "" and first[1:] == [str(number) for number in range(len(first) - 1)]  # by pandas
    if numbers and (words or numbered):
        message = f"{name}: its first line has titles and numbers ({', '.join(first[:8])}): leave it out, or name a "
        message += "column by its title"
        raise SessionError("unclear_header", message)
    return bool(words)


def _words(cells: Sequence[str], rest: Sequence[str]) -> list[str]:
    """What is neither a number nor missing; a word that comes again marks what is missing."""
    words = [cell for cell in cells if cell.lower() not in MISSING and math.isnan(_number(cell))]
    return [] if any(word in _cells(line) for word in words for line in rest) else words


def _number(cell: str) -> float:
    try:
        return float(cell.strip().strip("\"'"))
    except ValueError:
        return math.nan
