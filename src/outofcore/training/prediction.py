"""What training will hold in memory, before there is a store: the model by parts, the loaders by residency."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from outofcore.domains.reading import DeviceReading, Reading, Windowed
from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch, Task
from outofcore.importing import large_imports
from outofcore.loading.columns import indexable
from outofcore.loading.memory import Needs
from outofcore.loading.order import PlainSampler, cut_samples
from outofcore.loading.windows import Window, Windows
from outofcore.store.schema import Field, Layout, Schema
from outofcore.training.optimizers import Optimizer, make_optimizer, state_bytes

UNPREDICTABLE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
"""What torch raises for a step that needs values of tensors, not only their shapes."""
STEP_SECONDS = 0.1
"""A step that takes longer is long enough to be measured."""


@dataclass(frozen=True, kw_only=True)
class ModelMemory:
    """Bytes that a training step holds."""

    parameters: int  # their number
    model: int  # weights
    gradients: int
    optimizer: int  # its states
    activations: int  # kept for the backward pass, and temporaries of both passes
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
    """Measure a step of the task that ``make`` returns, on copies of a sample.

    The tensors of the step have shapes and no content: a model of any size takes no memory, and a second or two.
    ``micro_batch`` is in samples, 0 for the whole batch.
    """
    mixed = section.precision == "bf16-mixed"
    with large_imports():  # torch's compiler
        shapes_only = FakeTensorMode(allow_non_fake_inputs=True)
    with shapes_only:
        task = make()
        options = task.loader_options().get("balanced")
        balanced = (options["groups"], options["entries"], options["rows"]) if options else None
        size = math.prod(balanced) if balanced else section.batch_size
        batch = {name: tensor.new_zeros((size, *tensor.shape[1:])) for name, tensor in sample.items()}
        piece = next(task.micro_batches(batch, micro_batch))
        samples, least = _length(piece), _length(next(task.micro_batches(batch, 1)))
        weights = [parameter for parameter in task.parameters() if parameter.requires_grad]
        for parameter in weights:
            parameter.grad = torch.zeros_like(parameter)  # of the micro-batches before
        piece = {name: tensor.clone() for name, tensor in piece.items()}  # of its own size, not a view of the batch
        with _Allocations([*task.parameters(), *task.buffers(), *(weight.grad for weight in weights)]) as allocations:
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed, cache_enabled=False):
                loss, _ = task(piece)
            loss.backward()
    held = sum(weight.nbytes for weight in weights)
    return ModelMemory(
        parameters=sum(weight.numel() for weight in weights),
        model=held,
        gradients=held,
        optimizer=state_bytes((weight.numel() for weight in weights), section.optimizer),
        activations=allocations.peak,
        samples=samples,
        whole=least == size > 1,
        balanced=balanced,
        columns=tuple(task.columns),
    )


def _length(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def seconds_per_sample(
    make: Callable[[], Task], sample: Batch, section: TrainSection, threads: int, most: int
) -> float:
    """Of training on this processor, measured on steps of more and more samples, at most ``most``.

    One thread finds how many make a step that is long enough: on a busy machine several wait for each other, so that a
    step of one sample takes as long as one of many.
    """
    task, count, least = make(), 1, math.inf
    optimizer = make_optimizer(task, section.optimizer, learning_rate=0.0, weight_decay=0.0)
    before = torch.get_num_threads()
    try:
        for number in sorted({1, threads}):
            torch.set_num_threads(number)
            while True:
                batch = {name: tensor.new_zeros((count, *tensor.shape[1:])) for name, tensor in sample.items()}
                # The very first step prepares the others; with one thread, each size is measured again.
                seconds = min(_step_seconds(task, optimizer, batch) for _ in range(2 if number == 1 else 1))
                least = min(least, seconds / count)  # that least disturbed by other load
                if seconds > STEP_SECONDS or count >= most:
                    break
                count = min(4 * count, most)
    finally:
        torch.set_num_threads(before)
    return least


def _step_seconds(task: Task, optimizer: Optimizer, batch: Batch) -> float:
    started = time.perf_counter()
    optimizer.zero_grad()
    task(batch)[0].backward()
    optimizer.step()
    return time.perf_counter() - started


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors made during its block; views of one storage count once."""

    def __init__(self, known: Iterable[Tensor | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self._held = 0
        self._known = weakref.WeakSet(each.untyped_storage() for each in known if each is not None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage()) not in self._known:
                self._known.add(storage)
                self._add(storage.nbytes())
                weakref.finalize(storage, self._add, -storage.nbytes())
        return made

    def _add(self, size: int) -> None:
        self._held += size
        self.peak = max(self.peak, self._held)


def made_up_sample(schema: Schema, reading: Reading) -> tuple[Batch, int]:
    """A batch of one sample of empty rows, and the bytes of its rows and tensors."""
    window = _window(reading)
    length = (window.length,) if window and window.length > 1 else ()
    rows = {
        field.name: np.full((1, *length, *field.shape), field.fill, field.dtype) for field in _fields(schema, reading)
    }
    batch = reading(rows, np.zeros(1, np.uint64))
    held = sum(array.nbytes for array in rows.values()) + sum(tensor.nbytes for tensor in batch.values())
    return batch, held


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
) -> Needs:
    """What the shuffled loader of one long sequence needs; a balanced entry lies in at most two chunks.

    ``columns`` of so many ``sequences`` come with the samples.
    """
    value = 8 + sum(indexable(np.zeros((1, *each.shape), each.dtype)).nbytes for each in columns) if columns else 0
    fields, chunk_rows = _fields(schema, reading), layout.chunk_rows
    windows = _windows(reading, rows)
    cut = cut_samples(windows, chunk_rows, shuffle=True, pool_blocks=section.pool_blocks, block_rows=None)
    sampler = PlainSampler(windows, cut, 0, chunk_rows)
    chunks = -(-rows // chunk_rows)
    pool_chunks, pool_samples = sampler.pool_chunks(world), sampler.pool_samples(world)
    batch = -(-section.batch_size // world)
    if balanced:  # a pool is a batch
        pool_chunks, pool_samples = min(2 * balanced[0] * balanced[1], chunks), math.prod(balanced)
        batch = pool_samples
    return Needs(
        chunk=chunk_rows * sum(field.row_bytes for field in fields),
        chunks=chunks,
        pool_blocks=section.pool_blocks,
        pool_chunks=pool_chunks,
        pool_samples=pool_samples,
        batch=batch * (made_up_sample(schema, reading)[1] + value),
        tables=sampler.table_bytes + 16 * chunks * len(fields) + sequences * value,
        threads=threads,
        mappable=layout.codec == "none",
        access="recurring" if balanced else "pools",
        device=isinstance(reading, DeviceReading),
    )


def samples_of(reading: Reading, rows: int) -> int:
    """Samples of a split with these rows in one sequence."""
    return _windows(reading, rows).samples


def _windows(reading: Reading, rows: int) -> Windows:
    return Windows(
        rows,
        _window(reading),
        phase=bool(getattr(reading, "phase", False)),
        sequences=lambda: (np.zeros(1, np.int64), np.array([rows])),
    )


def _fields(schema: Schema, reading: Reading) -> list[Field]:
    return [field for field in schema.rows if field.name in reading.fields]


def _window(reading: Reading) -> Window | None:
    return Window(**reading.window) if isinstance(reading, Windowed) and reading.window else None
