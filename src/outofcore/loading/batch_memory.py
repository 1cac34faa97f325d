"""Where the tensors of batches are, and what the threads that make them keep.

Memory that torch allocates in a thread and frees stays with that thread: up to 20 times the tensor, as the C library
aligns such blocks and finds no room in the gaps (measured with glibc 2.36). So tensors of batches are in memory that is
used again. A reading that allocates its own, and a function of batches (``map``), are counted by thread. Where that
exceeds the budget, such a reading makes a few samples at a time, which are copied, at a third of the speed; of a
function, large blocks go back to the system when they are freed, which costs the time to clear their pages again.
"""

from __future__ import annotations

import tracemalloc
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import mul
from typing import Any, Self

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from outofcore.domains.task import Batch
from outofcore.system.recycling import RETURNED_BYTES, Recycler, recycled

SLAB_BYTES = RETURNED_BYTES  # of tensors that a reading allocates at a time
RETAINED = 20  # bytes that a thread keeps for each byte of the tensors that torch allocates in it; measured: 19.9
_RETAINED_BY_NUMPY = 4  # measured: up to 3.3, with eight threads
_LOOSE_SHARE = 8  # a reading may be called for a few samples at a time if its own tensors are more than an 8th of all
_UNTRACED = 16 << 10  # bytes of Python's own objects while a function is measured

Recyclers = defaultdict[str, Recycler]
"""Memory of batches by field or tensor, which splits that are read together share."""


@dataclass(frozen=True)
class SampleBytes:
    """Bytes per sample of a batch."""

    rows: int  # as stored
    tensors: int = 0  # of the batch that is delivered, and what map= got if it returns others
    loose: int = 0  # of the tensors that the reading allocates itself
    retained: int = 0  # that a thread keeps of these
    map_result: int = 0  # of what map= allocates for the batch that it returns
    map_peak: int = 0  # most that map= allocates at once, its result included

    @property
    def slab(self) -> int:
        """Samples for which the reading is called at a time, as it allocates much; 0: all of a group."""
        large = self.loose * _LOOSE_SHARE > self.tensors - self.map_result
        return max(1, SLAB_BYTES // self.loose) if large else 0

    def batch(self, samples: int) -> int:
        """Bytes of a batch of so many samples, and what a thread keeps of each of a reading that allocates little."""
        return samples * (self.rows + self.tensors + (0 if self.slab else _RETAINED_BY_NUMPY * self.loose))

    def maker(self, samples: int) -> int:
        """Bytes that a thread holds or keeps while it makes batches of so many samples.

        Large blocks of what map= allocates are returned to the system.
        """
        peak = samples * self.map_peak
        mapped = peak - samples * self.map_result + RETAINED * min(peak, RETURNED_BYTES)
        return min(self.slab, samples) * self.retained + mapped


def loose_bytes(tensors: Iterable[torch.Tensor], arrays: Iterable[Any] = ()) -> tuple[int, int]:
    """Bytes of tensors that are neither in recycled memory nor in these arrays, and what a thread keeps of them."""
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    loose = [
        tensor
        for tensor in tensors
        if not recycled(tensor.data_ptr()) and not any(start <= tensor.data_ptr() < stop for start, stop in spans)
    ]
    times = [RETAINED if tensor.untyped_storage().resizable() else _RETAINED_BY_NUMPY for tensor in loose]
    sizes = [tensor.nbytes for tensor in loose]
    return sum(sizes), sum(map(mul, times, sizes))


def joined_slabs(
    make: Callable[[slice], Mapping[str, torch.Tensor]], samples: int, slab: int, recyclers: Recyclers
) -> Batch:
    """Tensors of ``samples`` samples in recycled memory, made for ``slab`` of them at a time."""
    batch: Batch = {}
    for start in range(0, samples, slab):
        for name, tensor in make(slice(start, start + slab)).items():
            if name not in batch:
                size = tensor[0].nbytes * samples
                memory = torch.from_numpy(recyclers[f"tensor {name}"].empty((size,), np.dtype(np.uint8)))
                batch[name] = memory.view(tensor.dtype).view(samples, *tensor.shape[1:])
            batch[name][start : start + slab] = tensor
    return batch


class AllocatedBytes(TorchFunctionMode):
    """Measures the most bytes that a function allocates at once with torch and NumPy; ``arguments`` are its own."""

    def __init__(self, arguments: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._arguments = {tensor.untyped_storage().data_ptr() for tensor in arguments}
        self._tensors: list[weakref.ref[torch.Tensor]] = []
        self._most = 0
        self._traces = not tracemalloc.is_tracing()  # else somebody else's peak would be lost
        self.bytes = 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                self._tensors.append(weakref.ref(tensor))
        alive = [tensor for reference in self._tensors if (tensor := reference()) is not None]
        storages = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in alive)}
        self._most = max(self._most, sum(size for place, size in storages.items() if place not in self._arguments))
        return result

    def __enter__(self) -> Self:
        if self._traces:
            tracemalloc.start()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        traced = 0
        if self._traces:
            traced = max(0, tracemalloc.get_traced_memory()[1] - _UNTRACED)
            tracemalloc.stop()
        self.bytes = self._most + traced
