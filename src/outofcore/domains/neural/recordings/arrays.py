"""Arrays in files, read in slices along time, and views composed of them."""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from lzma import LZMAError
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from zstandard import ZstdError

from outofcore.errors import RawInputError
from outofcore.ndarrays import Ints
from outofcore.system.failures import NamedFile, raise_if_of_system

Mask = npt.NDArray[np.bool_]

# Limits on the number of values, absolute and per stored byte (deflate reaches 1,032).
FREE_BYTES, MOST_FOLD = 64 << 20, 2000

BLOCK_BYTES = 1 << 20
"""Bytes of a stream that are decoded at once."""

WHOLE_BYTES = 256 << 20
"""Bytes of what is compressed as one stream: a text, a member of an archive. It is read whole."""

DAMAGE = (
    *(OSError, EOFError, RuntimeError, TypeError, ValueError, KeyError),
    *(BadZipFile, LZMAError, TokenError, ZstdError, struct.error, zlib.error),
)
"""Raised by libraries for a damaged file: invalid types, names that cannot be decoded, references to nothing."""

DAMAGED = (
    "damaged there, or a chunk was never written (Zarr leaves out what holds its fill value alone, "
    "unless it is written with write_empty_chunks)"
)


class SessionError(RawInputError):
    """A session that cannot be converted as a whole; ``reason`` is the word counted in the metrics."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@contextmanager
def refusing(what: str, disk: NamedFile | None = None, damage: tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Convert errors that a library raises for a damaged file to a SessionError that begins with ``what``.

    ``disk`` is the file that it reads, if it takes an error of the system for damage.
    """
    try:
        yield
    except MemoryError:
        raise
    except damage as error:
        raise_if_of_system((disk and disk.trouble) or error)
        raise SessionError("unreadable_file", f"{what}: {clean(error)}") from error


@dataclass(frozen=True)
class RecordedArray:
    shape: tuple[int, ...]  # time first
    dtype: np.dtype[Any]  # in the byte order of the machine
    read: Callable[[int, int], npt.NDArray[Any]]  # entries from, to (exclusive); raises OSError if damaged there

    @property
    def columns(self) -> int:
        """Columns of a (samples, columns) or (samples,) array."""
        return self.shape[1] if len(self.shape) == 2 else 1


def sliced(
    values: Any, axis: int, name: str, *, turned: bool = False, damage: tuple[type[Exception], ...] = DAMAGE
) -> RecordedArray:
    """An array of a library that reads slices, time first; ``turned`` has all axes reversed in the file."""
    shape = time_first(values.shape[::-1] if turned else values.shape, axis, name)
    place = len(shape) - 1 - axis if turned else axis

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        try:
            entries = native(np.asarray(values[(*(slice(None),) * place, slice(start, stop))]))
        except damage as error:
            raise_if_of_system(error)
            raise OSError(f"{name}, entries {start} to {stop}: {clean(error)}") from error
        return np.moveaxis(entries.T if turned else entries, axis, 0)

    return RecordedArray(shape, native_dtype(values.dtype), read)


def chunk_grid(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Number of chunks along each axis."""
    return tuple(-(-size // step) for size, step in zip(shape, chunks, strict=True))


def unwritten(
    shape: tuple[int, ...], chunks: tuple[int, ...], axis: int, places: Iterable[tuple[int, ...]]
) -> Mask | None:
    """Which entries along an axis are in a chunk that was never written, None if none is.

    ``places`` of the chunks that were written are indices into the grid of chunks.
    """
    grid = chunk_grid(shape, chunks)
    inside = [place for place in places if all(at < size for at, size in zip(place, grid, strict=True))]
    if not shape or len(inside) >= math.prod(grid):
        return None
    present, whole = Counter(place[axis] for place in inside), math.prod(grid) // grid[axis]
    return np.repeat([present[number] < whole for number in range(grid[axis])], chunks[axis])[: shape[axis]]


def written(array: RecordedArray, absent: Mask | None, name: str) -> RecordedArray:
    """The array, of which the entries in ``absent`` were never written: they are no values, and reading them fails."""
    if absent is None:
        return array

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        if absent[start:stop].any():
            raise OSError(f"{name}, entries {start} to {stop}: {DAMAGED}")
        return array.read(start, stop)

    return RecordedArray(array.shape, array.dtype, read)


def guard_size(name: str, shape: tuple[int, ...], size: int, stored: int) -> None:
    """Reject a shape of which most was never written: it would take days to read what is not there."""
    if size > FREE_BYTES + MOST_FOLD * stored:
        raise SessionError(
            "too_large", f"{name!r}: shape {shape} has {size} bytes of values, of which {stored} bytes are stored"
        )


def time_first(shape: tuple[int, ...], axis: int, name: str) -> tuple[int, ...]:
    """The shape with one axis moved to the front; raises SessionError if there is no such axis."""
    if axis >= len(shape) > 0:
        raise SessionError("wrong_shape", f"{name}: no axis {axis} in shape {shape}; see source.time_axis")
    return (shape[axis], *shape[:axis], *shape[axis + 1 :]) if shape else ()


def concatenated(arrays: Sequence[RecordedArray]) -> RecordedArray:
    """Arrays end to end."""
    starts = np.concatenate([[0], np.cumsum([array.shape[0] for array in arrays])]).astype(np.int64)
    dtype = np.result_type(*(array.dtype for array in arrays))
    nothing = np.empty((0, *arrays[0].shape[1:]), dtype)

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        low, high = int(np.searchsorted(starts, start, "right")) - 1, int(np.searchsorted(starts, stop, "left"))
        parts = [
            array.read(max(start, first) - first, min(stop, last) - first)
            for array, (first, last) in zip(arrays[low:high], pairwise(starts[low : high + 1].tolist()), strict=True)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([nothing, *parts])

    return RecordedArray((int(starts[-1]), *nothing.shape[1:]), dtype, read)


def part(array: RecordedArray, first: int, last: int) -> RecordedArray:
    """Entries ``first`` to ``last`` (exclusive) of another array."""
    return RecordedArray(
        (last - first, *array.shape[1:]), array.dtype, lambda start, stop: array.read(first + start, first + stop)
    )


def columns_of(array: RecordedArray, columns: Sequence[int]) -> RecordedArray:
    """Some columns of a (samples, columns) or (samples,) array."""
    chosen, width = list(columns), array.columns

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        return array.read(start, stop).reshape(-1, width)[:, chosen]

    return RecordedArray((array.shape[0], len(chosen)), array.dtype, read)


def flat(array: RecordedArray, expected: str) -> RecordedArray:
    """A vector, possibly stored as a column or a row; raises SessionError, beginning with ``expected``, for others."""
    if not array.shape or sum(size > 1 for size in array.shape) > 1:
        raise SessionError("wrong_shape", f"{expected}, got shape {array.shape}")
    if len(array.shape) == 1:
        return array

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        # A row varies along its second axis, so it has no slices along the first: it is read whole.
        if array.shape[0] == 1:
            return array.read(0, 1).reshape(-1)[start:stop]
        return array.read(start, stop).reshape(-1)

    return RecordedArray((math.prod(array.shape),), array.dtype, read)


def readable(array: RecordedArray, start: int, stop: int) -> tuple[npt.NDArray[Any], Mask]:
    """Entries ``start`` to ``stop``, 0 where the file is damaged, and which of them were read."""
    if stop <= start:
        return np.empty((0, *array.shape[1:]), array.dtype), np.empty(0, bool)
    try:
        return array.read(start, stop), np.ones(stop - start, bool)
    except OSError as error:
        raise_if_of_system(error)
        if stop - start == 1:
            return np.zeros((1, *array.shape[1:]), array.dtype), np.zeros(1, bool)
        middle = (start + stop) // 2
        left, right = readable(array, start, middle), readable(array, middle, stop)
        return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def take(array: RecordedArray, index: Ints) -> tuple[npt.NDArray[Any], Mask]:
    """Entries by number, in any order, with repeats; neighbours are read together, each entry once."""
    if not len(index):
        return readable(array, 0, 0)
    first, last = int(index[0]), int(index[-1])
    if last - first == len(index) - 1 and bool((np.diff(index) == 1).all()):
        return readable(array, first, last + 1)
    wanted, place = np.unique(index, return_inverse=True)
    breaks = np.flatnonzero(np.diff(wanted) > 1) + 1
    runs = [readable(array, int(run[0]), int(run[-1]) + 1) for run in np.split(wanted, breaks)]
    values = np.concatenate([run[0] for run in runs])
    return values[place], np.concatenate([run[1] for run in runs])[place]


def identify(values: npt.NDArray[Any]) -> Ints:
    """Labels as integers: whole numbers unchanged, words and fractions hashed, NaN as -1."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        numbers = whole_numbers(values)
        odd = np.isfinite(values) & (numbers == -1) & (values != -1)
        numbers[odd] = _hashes(values[odd].astype(str))
        return numbers
    return _hashes(values.astype(str))


def whole_numbers(values: npt.NDArray[Any]) -> Ints:
    """Floating-point values as integers; -1 for fractions and beyond 2**62."""
    wide = values.astype(np.float64)  # a narrow type has no 2**62
    whole = np.isfinite(wide) & (wide == np.floor(wide)) & (np.abs(wide) < 2.0**62)
    return np.where(whole, np.where(whole, wide, 0).astype(np.int64), -1)


def _hashes(words: npt.NDArray[Any]) -> Ints:
    known, place = np.unique(words, return_inverse=True)
    numbers = [int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) >> 1 for word in known]
    named = [-1 if word in ("nan", "") else number for word, number in zip(known, numbers, strict=True)]
    return np.array(named, np.int64)[place].reshape(words.shape)


def native_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of what :func:`native` returns, unless it is text."""
    if dtype.kind in "bT":
        return np.dtype(np.uint8 if dtype.kind == "b" else object)
    return dtype.newbyteorder("=")


def native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values in native byte order, booleans as 0 and 1, words as text."""
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if values.dtype.kind in "SOT":
        return np.array([_word(value) for value in values.reshape(-1)], dtype=str).reshape(values.shape)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def clean(error: BaseException) -> str:
    """An exception's message in one line, without local paths."""
    return re.sub(r"'?/[^\s',:]+/", "", " ".join(str(error).split())) or type(error).__name__
