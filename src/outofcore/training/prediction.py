"""What a training step will hold in memory: weights and states are counted, activations measured on two samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.order.balanced import Balanced
from outofcore.training.optimizers import state_bytes

MEASURED = (2, 3)
"""Samples of the two steps: one alone is too few for a batch norm."""
FEW_PARAMETERS = 10**7
"""Of a model that is made: to try a larger one without memory loads torch's compiler, for a second."""
HALVED = {functional.linear, functional.conv1d, functional.conv2d, functional.conv3d, torch.matmul, Tensor.matmul}
HALVED |= {Tensor.__matmul__, torch.bmm, torch.einsum}
"""Functions that take 16 bits in mixed precision."""


@dataclass(frozen=True, kw_only=True)
class ModelMemory:
    """Bytes that a training step holds."""

    parameters: int  # their number
    model: int  # weights
    gradients: int
    optimizer: int  # its states
    activations: int  # kept for the backward pass, and gradients on their way
    samples: int  # that pass through the model at a time
    whole: bool  # whether a batch passes whole, whatever the micro-batch
    balanced: tuple[int, int, int] | None = None  # groups, entries and rows of a balanced batch
    columns: tuple[str, ...] = ()  # of the sequences, that its validation reads

    @property
    def states(self) -> int:
        """Bytes that do not depend on the micro-batch."""
        return self.model + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        return self.states + self.activations


def model_memory(make: Callable[[], Task], sample: Batch, section: TrainSection, micro_batch: int) -> ModelMemory:
    """Bytes of a training step of the task that ``make`` returns, on copies of a sample.

    Two small forward passes are extended in proportion to the samples that pass at a time: ``micro_batch``, or the
    whole batch if that is 0. Those of a large task take no memory, on the meta device, unless it reads values of its
    tensors.
    """
    try:
        with torch.device("meta"):
            task = make()
        if sum(parameter.numel() for parameter in task.parameters()) <= FEW_PARAMETERS:
            task = make()
        few, more = (_kept(task, sample, count, section) for count in MEASURED)
    except (RuntimeError, TypeError):
        task = make()
        few, more = (_kept(task, sample, count, section) for count in MEASURED)
    sampling = task.loader_options().get("shuffle")
    balanced = (sampling.groups, sampling.entries, sampling.rows) if isinstance(sampling, Balanced) else None
    size = math.prod(balanced) if balanced else section.batch_size
    batch = {name: tensor.new_empty(0).expand(size, 0) for name, tensor in sample.items()}
    samples, least = (len(next(iter(next(task.micro_batches(batch, most)).values()))) for most in (micro_batch, 1))
    weights = [parameter for parameter in task.parameters() if parameter.requires_grad]
    weight_bytes = sum(weight.nbytes for weight in weights)
    return ModelMemory(
        parameters=sum(weight.numel() for weight in weights),
        model=weight_bytes,
        gradients=weight_bytes,
        optimizer=state_bytes((weight.numel() for weight in weights), section.optimizer),
        activations=few + (more - few) * (samples - MEASURED[0]),
        samples=samples,
        whole=least == size > 1,
        balanced=balanced,
        columns=tuple(task.columns),
    )


def _kept(task: Task, sample: Batch, count: int, section: TrainSection) -> int:
    """Bytes that a forward pass keeps for the backward pass, and twice its largest tensor: gradients on their way."""
    device = next(task.parameters()).device
    batch = {name: tensor.new_zeros((count, *tensor.shape[1:]), device=device) for name, tensor in sample.items()}
    given = [tensor.untyped_storage() for tensor in (*task.parameters(), *task.buffers(), *batch.values())]
    others = {id(storage) for storage in given}
    kept: dict[int, torch.UntypedStorage] = {}  # by storage: several tensors may be views of one

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if id(storage) not in others:
            kept[id(storage)] = storage
        return tensor

    with (
        device,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        _AsOnDevices(mixed=section.precision == "bf16-mixed"),
    ):
        task(batch)
    sizes = [storage.nbytes() for storage in kept.values()]
    return sum(sizes) + 2 * max(sizes, default=0)


class _AsOnDevices(TorchFunctionMode):
    """What the meta device lacks: mixed precision, and attention that keeps no table of all pairs."""

    def __init__(self, *, mixed: bool) -> None:
        super().__init__()
        self._mixed = mixed

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is functional.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        if self._mixed and function in HALVED:
            args = tuple(map(_half, args))
            kwargs = {name: _half(value) for name, value in (kwargs or {}).items()}
        return function(*args, **(kwargs or {}))


def _half(value: Any) -> Any:
    return value.bfloat16() if isinstance(value, Tensor) and value.is_floating_point() else value


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Any:
    return _Attention.apply(query, key, value)  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = value.new_empty((*query.shape[:-1], value.shape[-1]))
        ctx.save_for_backward(query, key, value, mixed, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return mixed
