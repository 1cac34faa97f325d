"""A user's function of batches, called in the loader's threads."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode

from outofcore.checks import refuse, shown
from outofcore.domains.task import Batch
from outofcore.errors import ParamsError

Function = Callable[[Batch], Batch]

_UNTRACED = 16 << 10  # bytes of Python's own objects while a function is measured


class Transform:
    """Calls the function, and checks that all results have the names, dtypes and shapes of the first."""

    def __init__(self, function: object) -> None:
        if not callable(function):
            refuse("map", "a function of a batch", function)
        self._function: Function = function
        where = function if hasattr(function, "__qualname__") else type(function)
        self._name = f"{where.__module__}.{where.__qualname__}"
        self._form: dict[str, Any] = {}

    def check(self, sample: Batch) -> tuple[int, int]:
        """Call the function twice on the same two samples.

        Returns the bytes per sample that it allocates for its result, and the most that it allocates at once.
        """
        samples = [{name: torch.cat((tensor, tensor)) for name, tensor in sample.items()} for _ in range(2)]
        given = {tensor.untyped_storage().data_ptr() for batch in samples for tensor in batch.values()}
        self._form = {}
        first = self(samples[0], 2)
        with AllocatedBytes(samples[1].values()) as allocated:
            second = self(samples[1], 2)
        if first.keys() != second.keys() or any(_bits(first[name]) != _bits(second[name]) for name in first):
            self._refuse("returned two results for the same batch, so that no state could be resumed exactly")
        new = [tensor for tensor in first.values() if tensor.untyped_storage().data_ptr() not in given]
        result = sum(tensor.nbytes for tensor in new) // 2
        return result, max(allocated.bytes // 2, 2 * result)  # what is small is not seen among Python's own objects

    def __call__(self, batch: Batch, count: int) -> Batch:
        """The result for a batch of so many samples."""
        try:
            result = self._function(batch)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise ParamsError(
                f"map: {self._name} raised {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        if not isinstance(result, dict) or not result or not all(_is_tensor(*item) for item in result.items()):
            self._refuse(f"returned {shown(result, 80)}, expected a dict of names and tensors")
        for name, tensor in result.items():
            if tensor.ndim == 0 or len(tensor) != count:
                self._refuse(f"returned {name!r} of shape {tuple(tensor.shape)}, expected {count} samples first")
        form = {name: (tensor.dtype, tuple(tensor.shape[1:])) for name, tensor in result.items()}
        self._form = self._form or form
        if form != self._form:
            name = next(key for key in {**self._form, **form} if form.get(key) != self._form.get(key))
            self._refuse(f"returned {name!r} of {form.get(name)}, and {self._form.get(name)} in the first batch")
        return result

    def _refuse(self, what: str) -> None:
        raise ParamsError(f"map: {self._name} {what}")


def _is_tensor(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, torch.Tensor)


def _bits(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What equal tensors share, also those with NaN."""
    plain = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return tensor.dtype, tensor.shape, plain.numpy().tobytes()


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
