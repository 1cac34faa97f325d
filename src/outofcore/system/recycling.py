"""Memory that is used again once nobody refers to it.

The allocator returns a freed batch of wide rows to the kernel, which clears its pages one by one for the next batch.
On a busy machine that took longer than copying the rows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

KEPT = 4
"""Pieces of memory that wait for the next array; a thread takes one soon after the consumer has dropped it."""

_LARGEST = (32 << 20) - (64 << 10)  # bytes; just below the largest block from which glibc learns


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory, of batches that other code allocates, instead of returning it to the kernel.

    It returns what exceeds twice the largest mapped block that was freed so far (``mallopt(3)``, M_MMAP_THRESHOLD),
    and allocates smaller blocks from what it kept. One that is never written costs nothing. Elsewhere this has no
    effect.
    """
    np.empty(_LARGEST, np.uint8)


class Recycler:
    """Allocates arrays of one size after another; threads may share it. Memory of another size is not kept."""

    def __init__(self) -> None:
        # Only single operations of a deque, which need no lock: memory may come back in the middle of any of them.
        self._spare: deque[npt.NDArray[np.uint8]] = deque(maxlen=KEPT)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An uninitialised array; when it and all its views are gone, its memory is kept."""
        memory = self._take(math.prod(shape) * dtype.itemsize)
        return np.asarray(_Lease(memory, self._spare)).view(dtype).reshape(shape)

    def __reduce__(self) -> tuple[type[Recycler], tuple[()]]:
        return Recycler, ()  # a copy has memory of its own

    def _take(self, size: int) -> npt.NDArray[np.uint8]:
        try:
            while len(memory := self._spare.pop()) != size:  # the last to come back is still in the processor's cache
                pass
        except IndexError:
            return np.empty(size, np.uint8)
        return memory


class _Lease:
    """What arrays refer to as long as they use the memory.

    It must not be an array: numpy makes a view refer to the array that owns the memory, past those in between.
    """

    def __init__(self, memory: npt.NDArray[np.uint8], spare: deque[npt.NDArray[np.uint8]]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory
        self._spare = spare

    def __del__(self) -> None:
        self._spare.append(self._memory)
