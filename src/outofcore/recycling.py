"""Memory that is used again once nobody refers to it.

The allocator returns a freed batch of wide rows to the kernel, which clears its pages one by one for the next batch:
about half of the work of copying the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class Recycler:
    """Allocates arrays, from at most ``most`` kept pieces of memory; threads may share it.

    By default as many as threads take before the consumer drops the next: for one array per group of batches.
    """

    def __init__(self, most: int = 4) -> None:
        self._most = most
        # Only single operations of a deque, which need no lock: memory may come back in the middle of any of them.
        self._spare: deque[npt.NDArray[np.uint8]] = deque(maxlen=most)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An uninitialised array; when it and all its views are gone, its memory is kept."""
        memory = self._take(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        return np.asarray(_Lease(memory, self._spare)).view(dtype).reshape(shape)

    def __reduce__(self) -> tuple[type[Recycler], tuple[int]]:
        return Recycler, (self._most,)  # a copy has memory of its own

    def _take(self, size: int) -> npt.NDArray[np.uint8]:
        for _ in range(len(self._spare)):
            try:
                memory = self._spare.pop()  # the last to come back is still in the processor's cache
            except IndexError:  # another thread took it
                break
            if len(memory) == size:
                return memory
            self._spare.appendleft(memory)
        return np.empty(size, np.uint8)


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
