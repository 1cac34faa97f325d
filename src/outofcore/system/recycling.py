"""Memory that is used again once nobody refers to it.

The allocator returns a freed batch of wide rows to the kernel, which clears its pages one by one for the next batch.
On a busy machine that took longer than copying the rows.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes

KEPT = 16
"""Pieces of memory that wait for the next array; those of all batches in flight, which are made by up to 8 threads."""

RETURNED_BYTES = 256 << 10
"""Least block that goes back to the system when it is freed, once :func:`return_freed_memory` was called."""

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt(3)

_in_use: dict[int, int] = {}  # first address and size of the memory of arrays

_LARGEST = (32 << 20) - (64 << 10)  # bytes; just below the largest block from which glibc learns


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory, of batches that other code allocates, instead of returning it to the kernel.

    It returns what exceeds twice the largest mapped block that was freed so far (``mallopt(3)``, M_MMAP_THRESHOLD),
    and allocates smaller blocks from what it kept. One that is never written costs nothing. Elsewhere this has no
    effect.
    """
    np.empty(_LARGEST, np.uint8)


@cache
def return_freed_memory() -> None:
    """Let glibc return large blocks to the system when they are freed, for the rest of the process.

    Otherwise each thread keeps up to 20 times what it frees. Elsewhere than with glibc this has no effect.
    """
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, RETURNED_BYTES)
        library.mallopt(_TRIM_THRESHOLD, RETURNED_BYTES)


def recycled(address: int) -> bool:
    """Whether an address is in memory of a :class:`Recycler`."""
    return any(start <= address < start + _in_use.get(start, 0) for start in list(_in_use))


class Recycler:
    """Allocates arrays one after another; threads may share it. Memory that is too small for the next is not kept."""

    def __init__(self) -> None:
        # Only single operations of a deque, which need no lock: memory may come back in the middle of any of them.
        self._spare: deque[Bytes] = deque(maxlen=KEPT)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An uninitialised array; when it and all its views are gone, its memory is kept."""
        size = math.prod(shape) * dtype.itemsize
        return np.asarray(_Lease(self._take(size), size, self._spare)).view(dtype).reshape(shape)

    def __reduce__(self) -> tuple[type[Recycler], tuple[()]]:
        return Recycler, ()  # a copy has memory of its own

    def _take(self, size: int) -> Bytes:
        try:
            while len(memory := self._spare.pop()) < size:  # the last to come back is still in the processor's cache
                pass
        except IndexError:
            return np.empty(size, np.uint8)
        return memory


class _Lease:
    """What arrays refer to as long as they use the memory.

    It must not be an array: numpy makes a view refer to the array that owns the memory, past those in between.
    """

    def __init__(self, memory: Bytes, size: int, spare: deque[Bytes]) -> None:
        self.__array_interface__ = memory[:size].__array_interface__
        self._memory = memory
        self._spare = spare
        self._address: int = self.__array_interface__["data"][0]  # numpy imports to tell it, too late at the end
        _in_use[self._address] = memory.nbytes

    def __del__(self) -> None:
        _in_use.pop(self._address, None)
        self._spare.append(self._memory)


Recyclers = defaultdict[str, Recycler]
"""Memory of batches by field, which splits that are read together share."""
