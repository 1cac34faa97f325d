"""What every format offers: arrays by name, read in slices along time."""

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
    """A session that cannot be converted as a whole.

    Attributes
    ----------
    reason
        One short word, as counted in the metrics.
    """

    def __init__(self, detail: str, *, reason: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Recording(Protocol):
    """An open session.

    Attributes
    ----------
    streamed
        Whether its arrays can only be read from their beginning on: compressed members, text.
    unit
        Unit of all times where the format prescribes one; None where the params tell it.
    """

    streamed: bool
    unit: TimeUnit | None

    def names(self) -> Sequence[str]:
        """Names of all arrays, for patterns and messages."""
        ...

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """An array by name, its axis ``axis`` brought to the front.

        Raises
        ------
        KeyError
            If there is none of that name.
        SessionError
            If it is no array of numbers or words inside this very file.
        """
        ...

    def trains(self, name: str) -> list[SlicedArray]:
        """Vectors by neuron, as each format keeps vectors of unequal length. Raises as :meth:`array`."""
        ...

    def clock(self, name: str) -> Clock | None:
        """The clock that the format keeps beside an array; None where it keeps none."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def find_array(recording: Recording, field: str, name: str, axis: int = 0) -> SlicedArray:
    """The array that ``names.<field>`` means.

    Raises
    ------
    SessionError
        If it is not there (reason ``missing_field``), is no array, or its parts do not fit together.
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
    """An array that must be a vector, kept as a column or a row perhaps. Raises as :func:`find_array`."""
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
    """Names that a pattern means, ``*`` inside one path segment, in natural order."""
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
    """Values in the byte order of the machine, truth values as 0 and 1, words as text."""
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if values.dtype.kind in "SO":
        return np.array([_word(value) for value in values.reshape(-1)], dtype=str).reshape(values.shape)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def clean(error: BaseException) -> str:
    """What an exception says, in one line and without a path of this machine."""
    return re.sub(r"'?/[^\s',:]+/", "", " ".join(str(error).split())) or type(error).__name__
