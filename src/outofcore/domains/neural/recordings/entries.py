"""Read entries of an array from a file that may be damaged."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import SlicedArray

Mask = npt.NDArray[np.bool_]


def readable(array: SlicedArray, start: int, stop: int) -> tuple[npt.NDArray[Any], Mask]:
    """Entries ``start`` to ``stop``, 0 where the file is damaged, and which of them were read."""
    try:
        return array.read(start, stop), np.ones(stop - start, bool)
    except OSError:
        if stop - start == 1:
            return np.zeros((1, *array.shape[1:]), array.dtype), np.zeros(1, bool)
        middle = (start + stop) // 2
        left, right = readable(array, start, middle), readable(array, middle, stop)
        return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def take(array: SlicedArray, index: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], Mask]:
    """Entries by number, in any order, with repeats; neighbours are read together, each entry once."""
    if not len(index):
        return np.empty((0, *array.shape[1:]), array.dtype), np.empty(0, bool)
    first, last = int(index[0]), int(index[-1])
    if last - first == len(index) - 1 and bool((np.diff(index) == 1).all()):
        return readable(array, first, last + 1)
    wanted, place = np.unique(index, return_inverse=True)
    breaks = np.flatnonzero(np.diff(wanted) > 1) + 1
    runs = [readable(array, int(run[0]), int(run[-1]) + 1) for run in np.split(wanted, breaks)]
    values = np.concatenate([run[0] for run in runs])
    return values[place], np.concatenate([run[1] for run in runs])[place]


def identify(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Labels as integers: whole numbers unchanged, words and fractions hashed, NaN as -1."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        numbers = whole_numbers(values)
        odd = np.isfinite(values) & (numbers == -1) & (values != -1)
        numbers[odd] = _hashes(values[odd].astype(str))
        return numbers
    return _hashes(values.astype(str))


def whole_numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Floating-point values as integers; -1 for fractions and beyond 2**62."""
    wide = values.astype(np.float64)  # a narrow type has no 2**62
    whole = np.isfinite(wide) & (wide == np.floor(wide)) & (np.abs(wide) < 2.0**62)
    return np.where(whole, np.where(whole, wide, 0).astype(np.int64), -1)


def _hashes(words: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    known, place = np.unique(words, return_inverse=True)
    numbers = [int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) >> 1 for word in known]
    named = [-1 if word in ("nan", "") else number for word, number in zip(known, numbers, strict=True)]
    return np.array(named, np.int64)[place].reshape(words.shape)
