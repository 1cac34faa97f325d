"""Common interface of the formats: arrays by name, read in slices along time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import Concatenated, Flat, SlicedArray
from outofcore.errors import RawInputError
from outofcore.raw.files import natural_order

if TYPE_CHECKING:
    from outofcore.domains.neural.clocks import Clock
    from outofcore.domains.neural.params import TimeUnit


class SessionError(RawInputError):
    """A session that cannot be converted as a whole; ``reason`` is the word counted in the metrics."""

    def __init__(self, detail: str, *, reason: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Recording(Protocol):
    """An open session."""

    streamed: bool  # arrays can only be read sequentially: compressed members, text
    unit: TimeUnit | None  # of all times if the format prescribes one; None if params.yaml gives it

    def names(self) -> Sequence[str]:
        """Names of all arrays, for patterns and messages."""
        ...

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """An array by name, with axis ``axis`` moved to the front.

        Raises KeyError if it does not exist, SessionError unless it holds numbers or words within this file.
        """
        ...

    def trains(self, name: str) -> list[SlicedArray]:
        """One vector per neuron, as the format stores ragged vectors. Raises as :meth:`array`."""
        ...

    def clock(self, name: str, count: int) -> Clock | None:
        """The format's own clock for an array of ``count`` entries along time, or None."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


def find_array(recording: Recording, field: str, name: str, axis: int = 0) -> SlicedArray:
    """The array that ``names.<field>`` refers to.

    Raises SessionError if it is missing (reason ``missing_field``), not an array, or of mismatched parts.
    """
    try:
        if "*" not in name:
            return _checked(recording.array(name, axis), field, name)
        arrays = [_checked(recording.array(each, axis), field, each) for each in matching(recording, name)]
    except KeyError:
        arrays = []
    if not arrays:
        raise missing(recording, field, name)
    if len({array.shape[1:] for array in arrays}) > 1:
        shapes = sorted({array.shape[1:] for array in arrays})
        message = f"names.{field} = {name!r}: expected arrays that differ along time alone, got rows of {shapes}"
        raise SessionError(message, reason="unequal_shapes")
    return Concatenated(arrays)


def find_vector(recording: Recording, field: str, name: str) -> SlicedArray:
    """A vector, possibly stored as a column or row. Raises as :func:`find_array`."""
    array = find_array(recording, field, name)
    if len(array.shape) == 1:
        return array
    if sum(size != 1 for size in array.shape) > 1:
        message = f"names.{field} = {name!r}: expected a vector, got shape {array.shape}"
        raise SessionError(message, reason="wrong_shape")
    return Flat(array)


def missing(recording: Recording, field: str, name: str) -> SessionError:
    """The error for a name that is not there, with the names that are."""
    there = list(recording.names())
    shown = ", ".join(there[:24]) + (f" and {len(there) - 24} more" if len(there) > 24 else "")
    message = f"names.{field} = {name!r}: no such array; there are {shown or 'none'}"
    return SessionError(message, reason="missing_field")


def matching(recording: Recording, pattern: str) -> list[str]:
    """Names matching a pattern, ``*`` within one path segment, in natural order."""
    steps = pattern.strip("/").split("/")
    found = [
        name
        for name in recording.names()
        if len(parts := name.split("/")) == len(steps) and all(map(fnmatchcase, parts, steps))
    ]
    return sorted(found, key=natural_order)


def _checked(array: SlicedArray, field: str, name: str) -> SlicedArray:
    if not array.shape or array.dtype.kind not in "biufSUOT":
        what = f"a single value of {array.dtype}" if not array.shape else f"values of {array.dtype}"
        message = f"names.{field} = {name!r}: expected an array of numbers, got {what}"
        raise SessionError(message, reason="wrong_type")
    return array


def native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values in native byte order, booleans as 0 and 1, words as text."""
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if values.dtype.kind in "SO":
        return np.array([_word(value) for value in values.reshape(-1)], dtype=str).reshape(values.shape)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def clean(error: BaseException) -> str:
    """An exception's message in one line, without local paths."""
    return re.sub(r"'?/[^\s',:]+/", "", " ".join(str(error).split())) or type(error).__name__
