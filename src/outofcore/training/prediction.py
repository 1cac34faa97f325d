"""What training will hold in memory, before there is a store: the model by parts, the loaders by residency."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from outofcore.domains.reading import OfSequences, Reading, Windowed
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.loading.batch_memory import SampleBytes, loose_bytes
from outofcore.loading.memory import SAMPLE_BYTES, MemoryEstimate, decoding_bytes, memory_estimate, table_bytes
from outofcore.loading.sequences import indexable
from outofcore.order.balanced import Balanced
from outofcore.order.plain import PlainSampler
from outofcore.order.windows import Window, Windows
from outofcore.store.schema import Field, Layout, Schema
from outofcore.training.optimizers import state_bytes

PROCESS_BYTES = (850 if torch.version.cuda else 500) << 20
"""The interpreter, its libraries and compiled code in a training process on a CPU; a test measures it.

Builds of torch for CUDA load its libraries even if the process trains on a CPU.
"""
MEASURED = (2, 3)
"""Samples of the two steps: one alone is too few for a batch norm."""
SMALL = 10**7
"""Elements of the tensors that a small task makes."""
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
        task = _made(make)
        few, more = (_kept(task, sample, count, section) for count in MEASURED)
    except (RuntimeError, TypeError):
        task = make()
        few, more = (_kept(task, sample, count, section) for count in MEASURED)
    sampling = task.loader_options().get("shuffle")
    balanced = (sampling.groups, sampling.entries, sampling.rows) if isinstance(sampling, Balanced) else None
    size = math.prod(balanced) if balanced else section.batch_size
    batch = {name: tensor.new_empty(0).expand(size, 0) for name, tensor in sample.items()}
    samples, least = (_length(next(task.micro_batches(batch, most))) for most in (micro_batch, 1))
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


def _made(make: Callable[[], Task]) -> Task:
    """A small task, or a large one on the meta device, whose first operation loads torch's compiler for 2 seconds."""
    with suppress(MemoryError), _Few():
        return make()
    with torch.device("meta"):
        return make()


class _Few(TorchFunctionMode):
    """Raises MemoryError once the tensors that are made have more elements than :data:`SMALL`."""

    def __init__(self) -> None:
        super().__init__()
        self._made = 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self._made += result.numel() if isinstance(result, Tensor) else 0
        if self._made > SMALL:
            raise MemoryError
        return result


def _length(batch: Batch) -> int:
    return len(next(iter(batch.values())))


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


def made_up_sample(schema: Schema, reading: Reading) -> tuple[Batch, SampleBytes]:
    """A batch of one sample of empty rows, and the bytes of its rows and tensors."""
    window = _window(reading)
    length = (window.length,) if window and window.length > 1 else ()
    given = [*_fields(schema, reading), *_taken(schema, reading)]
    rows = {field.name: np.full((1, *length, *field.shape), field.fill, field.dtype) for field in given}
    batch = reading(rows, np.zeros(1, np.uint64))
    return batch, SampleBytes(
        sum(array.nbytes for array in rows.values()) + SAMPLE_BYTES,
        sum(tensor.nbytes for tensor in batch.values()),
        *loose_bytes(batch.values(), rows.values()),
    )


def loader_needs(
    schema: Schema,
    rows: int,
    reading: Reading,
    section: TrainSection,
    layout: Layout,
    threads: int,
    balanced: tuple[int, int, int] | None = None,
    world: int = 1,
    columns: Sequence[Field] = (),
    sequences: int = 0,
) -> MemoryEstimate:
    """What the shuffled loader of one long sequence needs; a balanced entry lies in at most two chunks.

    ``columns`` of so many ``sequences`` come with the samples.
    """
    value = _values_bytes(columns)
    taken = [*columns, *(field for field in _taken(schema, reading) if field not in columns)]
    table = sequences * (8 + _values_bytes(taken)) if taken else 0
    fields, chunks = _fields(schema, reading), -(-rows // layout.chunk_rows)
    windows = _windows(reading, rows)
    sampler = PlainSampler(windows, layout.chunk_rows, 0, shuffle=True, pool_blocks=section.pool_blocks)
    limits, size = sampler.limits(math.gcd(world, sampler.lanes)), section.batch_size
    if balanced:  # a pool is a batch
        size = math.prod(balanced)
        limits = replace(limits, samples=size, chunks=min(2 * balanced[0] * balanced[1], chunks))
    sample, chunk = made_up_sample(schema, reading)[1], layout.chunk_rows * sum(field.row_bytes for field in fields)
    pool_chunks = chunks if limits.chunks is None else limits.chunks
    return memory_estimate(
        replace(sample, tensors=sample.tensors + value),
        limits,
        world,
        batch_size=size,
        chunk=chunk,
        chunks=chunks,
        decoding=decoding_bytes(threads, chunk, chunks, pool_chunks, local=True),
        tables=table_bytes(chunks, len(fields)) + table,
        opening=table + 16 * sequences,
        threads=threads,
        mappable=layout.codec == "none",
        access="recurring" if balanced else "pools",
    )


def _windows(reading: Reading, rows: int) -> Windows:
    window = _window(reading)
    return Windows(
        rows,
        window,
        phase=window is not None and bool(window.phase),
        sequences=lambda: (np.zeros(1, np.int64), np.array([rows])),
    )


def _fields(schema: Schema, reading: Reading) -> list[Field]:
    return [field for field in schema.rows if field.name in reading.fields]


def _taken(schema: Schema, reading: Reading) -> list[Field]:
    """Columns of the sequences that the reading takes with the rows."""
    taken = reading.columns if isinstance(reading, OfSequences) else ()
    return [field for field in schema.sequences if field.name in taken]


def _values_bytes(columns: Iterable[Field]) -> int:
    """Bytes of the columns' values of one sequence."""
    return sum(indexable(np.zeros((1, *field.shape), field.dtype)).nbytes for field in columns)


def _window(reading: Reading) -> Window | None:
    return Window(**reading.window) if isinstance(reading, Windowed) and reading.window else None
