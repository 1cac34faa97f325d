"""Arrays in files, read in slices along their first axis, and views composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class SlicedArray(Protocol):
    """An array in a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Time first."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """In the byte order of the machine."""
        ...

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` of the first axis; raises OSError if the file is damaged there."""
        ...


class Concatenated:
    """Arrays end to end: a session that keeps one array per trial."""

    def __init__(self, arrays: Sequence[SlicedArray]) -> None:
        self._arrays = arrays
        self.starts = np.concatenate([[0], np.cumsum([array.shape[0] for array in arrays])]).astype(np.int64)
        self.shape = (int(self.starts[-1]), *arrays[0].shape[1:])
        self.dtype = np.result_type(*(array.dtype for array in arrays))

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop``."""
        parts = [np.empty((0, *self.shape[1:]), self.dtype)]
        for array, first, last in zip(self._arrays, self.starts[:-1], self.starts[1:], strict=True):
            if first < stop and last > start:
                parts.append(array.read(int(max(start, first) - first), int(min(stop, last) - first)))
        return parts[1] if len(parts) == 2 else np.concatenate(parts)


class Part:
    """A range of the entries of another array."""

    def __init__(self, array: SlicedArray, start: int, stop: int) -> None:
        self._array, self._start = array, start
        self.shape = (stop - start, *array.shape[1:])
        self.dtype = array.dtype

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` of the range."""
        return self._array.read(self._start + start, self._start + stop)


class Flat:
    """A vector stored as a column or a row."""

    def __init__(self, array: SlicedArray) -> None:
        self._array = array
        self._row = array.shape[0] == 1 and len(array.shape) > 1
        self.shape = (int(np.prod(array.shape, dtype=np.int64)),)
        self.dtype = array.dtype

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop``."""
        # A row varies along its second axis, so it has no slices along the first: it is read whole.
        if self._row:
            return self._array.read(0, 1).reshape(-1)[start:stop]
        return self._array.read(start, stop).reshape(-1)
