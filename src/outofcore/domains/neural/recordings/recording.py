"""Common interface of the formats: arrays by name, read in slices along time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, columns_of, concatenated, flat
from outofcore.ndarrays import Ints
from outofcore.raw.files import natural_order

INTERVALS = (("start_time", "stop_time"), ("start", "end"))
"""Arrays of a group that holds intervals, in NWB and in torch_brain."""


class Recording:
    """An open session. A format is a module here with a subclass: what it reads is stated there, and nowhere else.

    A library that other formats do without is imported by :func:`library`, when a file is opened.
    """

    format = ""  # a word of its own
    suffixes: tuple[str, ...] = ()  # endings of files that are a session each
    folder_suffix = ""  # ending of folders that are a session each
    member_suffixes: tuple[str, ...] = ()  # endings of the files in a folder that is a session, before a compression's

    # Opened once, and read by one thread: for libraries that open a file once, and arrays that are decompressed whole.
    # Files of other formats are open several times at once, since each worker opens them.
    one_reader = False
    always_read: tuple[str, ...] = ()  # what is read if it is there, without a setting
    unit: TimeUnit | None = None  # of all times if the format prescribes one; None if params.yaml gives it

    def __init__(self, path: Path) -> None:
        """Open a file or a folder; raises SessionError."""

    @classmethod
    def open(cls, root: Path, members: tuple[str, ...]) -> Recording:
        """Open a file, or a folder with some files of interest, relative to it; raises SessionError."""
        del members
        return cls(root)

    def names(self) -> Sequence[str]:
        """Names of all arrays, for patterns and messages."""
        raise NotImplementedError

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        """An array by name, axis ``axis`` first; raises KeyError, or SessionError for neither numbers nor words."""
        raise NotImplementedError

    def cells(self, name: str, axis: int = 0) -> list[RecordedArray] | None:
        """The arrays of a MATLAB cell array or of ragged rows, None for anything else. Raises as :meth:`array`."""
        del name, axis
        return None

    def members(self, name: str) -> list[str] | None:
        """Names of the arrays in a group, None for anything else. Raises as :meth:`array`."""
        del name
        return None

    def trains(self, name: str) -> list[RecordedArray]:
        """One vector per neuron: those of a group, cells, ragged rows, or one vector. Raises as :meth:`array`."""
        members = self.members(name)
        if members is None:
            return self.cells(name) or [self.array(name)]
        return _vectors_of(name, {key: self.array(f"{name}/{key}") for key in sorted(members, key=natural_order)})

    def column(self, name: str, column: str) -> npt.NDArray[Any]:
        """Numbers or words of the neurons of ``name``, an entry each: here another array. Raises SessionError."""
        del name
        try:
            entries = flat(array_named(self, column), f"source.units: {column!r}: expected an entry for each neuron")
        except KeyError:
            raise SessionError(
                "missing_field",
                f"source.units: no array {column!r} for the neurons; there are {', '.join(self.names())}",
            ) from None
        return entries.read(0, entries.shape[0])

    def column_of_labels(self, name: str, column: str, labels: Ints) -> npt.NDArray[Any]:
        """Numbers or words of the neurons that ``name`` labels, an entry for each label. Raises SessionError."""
        del labels
        raise SessionError(
            "missing_field",
            f"source.units: neurons of one vector of spikes are known by their labels: expected the column {name!r}, "
            "with the labels that are wanted as values, or in a folder a column of a text with a line for each label "
            f"(cluster_group.tsv[group]), got {column!r}",
        )

    def clock(self, name: str, count: int) -> RecordedArray | None:
        """The format's own clock, in nanoseconds, for an array of ``count`` entries along time, or None."""
        del name, count
        return None

    def observed(self, name: str) -> list[Ints | None] | None:
        """When each train of :meth:`trains` was observed, (intervals, 2) nanoseconds; None where nothing states it."""
        del name
        return None

    def invalid_times(self) -> Ints:
        """When nothing that was recorded counts, (intervals, 2) nanoseconds."""
        return np.empty((0, 2), np.int64)

    def close(self) -> None:
        """Release the file."""


def library(name: str) -> Any:
    """A library that one format alone needs, imported where it is used; raises SessionError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise SessionError("missing_package", f"needs the package {package} ({error}): install it") from error


def _vectors_of(name: str, members: Mapping[str, RecordedArray]) -> list[RecordedArray]:
    """Vectors of a group, a neuron each; raises SessionError for members that are not of one kind."""
    kinds = {array.dtype.kind.replace("u", "i") for array in members.values()}
    lengths = {array.shape for array in members.values()}
    columns = len(members) > 1 and len(lengths) == 1 and not any(re.search(r"\d", key) for key in members)
    if len(kinds) > 1 or columns:
        listed = ", ".join(f"{key} ({array.dtype} {array.shape})" for key, array in [*members.items()][:8])
        message = f"names.spike_times = {name!r}: a group must have a vector of times for each neuron, got {listed}; "
        message += (
            "if one of them has the neuron of each spike, name it as names.spike_neurons and the times themselves"
        )
        raise SessionError("wrong_type", message)
    return [*members.values()]


def array_named(recording: Recording, name: str, axis: int = 0) -> RecordedArray:
    """An array, or a column of one by its number in brackets. Raises as :meth:`Recording.array`."""
    try:
        return recording.array(name, axis)
    except KeyError:
        title, column = split_column(name)
        if column is None:
            raise
        array = recording.array(title, axis)
    if len(array.shape) > 2 or not isinstance(column, int) or column >= array.columns:
        what = f"{name!r}: expected the number of a column, from 0, of an array (samples, columns)"
        raise SessionError("wrong_shape", f"{what}; its shape is {array.shape}")
    return columns_of(array, [column])


def find_array(recording: Recording, field: str, name: str, axis: int = 0) -> RecordedArray:
    """The array that ``names.<field>`` refers to; raises SessionError."""
    try:
        if "*" not in name:
            return checked(array_named(recording, name, axis), field, name)
        arrays = [checked(recording.array(path, axis), field, path) for path in matching(recording, name).values()]
    except KeyError:
        arrays = []
    if not arrays:
        raise missing(recording, field, name)
    return joined(field, name, arrays)


def intervals_of(recording: Recording, name: str) -> RecordedArray | None:
    """Start and stop of each interval (intervals, 2) in a group that has both. Raises as :meth:`Recording.array`."""
    keys = next((keys for keys in INTERVALS if set(keys) <= {*(recording.members(name) or ())}), None)
    if keys is None:
        return None
    start, stop = (recording.array(f"{name}/{key}") for key in keys)
    return _paired(name, keys, start, stop)


def find_trial(recording: Recording, name: str | tuple[str, str]) -> RecordedArray:
    """What marks the trials: an array, or two vectors of starts and stops. Raises as :func:`find_array`."""
    if isinstance(name, str):
        return find_array(recording, "trial", name)
    return _paired("names.trial", name, *(find_vector(recording, "trial", vector) for vector in name))


def _paired(name: str, keys: tuple[str, str], start: RecordedArray, stop: RecordedArray) -> RecordedArray:
    """Start and stop of each interval (intervals, 2); raises SessionError for vectors that do not fit together."""
    if len(start.shape) != 1 or start.shape != stop.shape:
        raise SessionError(
            "unequal_length",
            f"{name}: expected {' and '.join(keys)} of one length, got shapes {start.shape} and {stop.shape}",
        )
    if (start.dtype.kind in "biuf") != (stop.dtype.kind in "biuf"):
        raise SessionError(
            "wrong_type", f"{name}: expected {' and '.join(keys)} of one type, got {start.dtype} and {stop.dtype}"
        )

    def read(first: int, end: int) -> npt.NDArray[Any]:
        return np.stack([start.read(first, end), stop.read(first, end)], axis=1)

    return RecordedArray((start.shape[0], 2), np.result_type(start.dtype, stop.dtype), read)


def joined(field: str, name: str, arrays: Sequence[RecordedArray]) -> RecordedArray:
    """Arrays end to end; raises SessionError if they differ in more than their length."""
    shapes = sorted({array.shape[1:] for array in arrays})
    if len(shapes) > 1:
        raise SessionError(
            "unequal_shapes",
            f"names.{field} = {name!r}: expected arrays that differ along time alone, got rows of {shapes}",
        )
    return concatenated(arrays)


def find_vector(recording: Recording, field: str, name: str) -> RecordedArray:
    """A vector, possibly stored as a column or row. Raises as :func:`find_array`."""
    array, expected = find_array(recording, field, name), f"names.{field} = {name!r}: expected a vector"
    if sum(size != 1 for size in array.shape) > 1:  # also an empty matrix
        raise SessionError("wrong_shape", f"{expected}, got shape {array.shape}")
    return flat(array, expected)


def missing(recording: Recording, field: str, name: str) -> SessionError:
    """The error for a name that is not there, with the names that are."""
    none = "; without a stimulus, set it to null" if field == "stimulus" else ""
    names = recording.names()
    alone = "; a session is one file, or one folder of .npy: save its arrays together" if len(names) == 1 else ""
    message = f"names.{field} = {name!r}: no such array; there are {first_names(names) or 'none'}{alone}{none}"
    return SessionError("missing_field", message)


def first_names(names: Sequence[str], most: int = 24) -> str:
    """The first of many names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def matching(recording: Recording, pattern: str) -> dict[tuple[str, ...], str]:
    """Names that match a pattern, in natural order, by what each ``*`` stands for: a part of one path segment."""
    whole = re.compile("([^/]*)".join(map(re.escape, pattern.strip("/").split("*"))))
    names = sorted(recording.names(), key=natural_order)
    return {match.groups(): name for name in names if (match := whole.fullmatch(name))}


def split_column(name: str) -> tuple[str, int | str | None]:
    """``stimulus.txt.gz[1]``, ``run.csv[speed]`` -> the file and the number or title of its column, None if missing."""
    match = re.fullmatch(r"(.*)\[([^]]+)\]", name)
    if match is None:
        return name, None
    column = match[2].strip()
    return match[1], int(column) if column.isdecimal() else column


def unread(recording: Recording, names: Sequence[str]) -> tuple[str, ...]:
    """The arrays, in natural order, that none of these names and patterns means, nor a group that they mean."""
    files = (split_column(name)[0].removesuffix(".npy").strip("/") for name in names)
    meant = re.compile("|".join("([^/]*)".join(map(re.escape, name.split("*"))) + "(/.*)?" for name in files))
    return tuple(name for name in sorted(recording.names(), key=natural_order) if not meant.fullmatch(name))


def checked(array: RecordedArray, field: str, name: str) -> RecordedArray:
    """The array, if it is one of numbers or words; raises SessionError."""
    if not array.shape or array.dtype.kind not in "biufSUOT":
        what = f"a single value of {array.dtype}" if not array.shape else f"values of {array.dtype}"
        raise SessionError("wrong_type", f"names.{field} = {name!r}: expected an array of numbers, got {what}")
    return array
