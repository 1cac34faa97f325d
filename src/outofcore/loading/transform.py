"""A user's function of batches, called in the loader's threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from outofcore.checks import refuse, shown
from outofcore.domains.task import Batch
from outofcore.errors import ParamsError
from outofcore.loading.batch_memory import AllocatedBytes

Function = Callable[[Batch], Batch]


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
        own = {tensor.untyped_storage().data_ptr() for batch in samples for tensor in batch.values()}
        self._form = {}
        first = self(samples[0], 2)
        with AllocatedBytes(samples[1].values()) as allocated:
            second = self(samples[1], 2)
        if first.keys() != second.keys() or any(_bits(first[name]) != _bits(second[name]) for name in first):
            self._refuse("returned two results for the same batch, so that no state could be resumed exactly")
        result = sum(tensor.nbytes for tensor in first.values() if tensor.untyped_storage().data_ptr() not in own) // 2
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
