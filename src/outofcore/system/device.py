"""A loader's work on an accelerator: a stream, and what the consumer's stream must know of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import accumulate, pairwise
from typing import Any

import torch

from outofcore.errors import BudgetError

Batch = dict[str, torch.Tensor]
_WITH_STREAMS = frozenset(("cuda",))
SMALL_BYTES = 16 << 10  # a smaller piece of a group is copied, which is fast, and does not hold the group


class DeviceStream:
    """Moves batches to a device, if one is named, in the thread that made them, without blocking the consumer.

    All that a loader does on a device with streams is queued on one of its own. A batch is handed over when that work
    is done, and already marked for the stream that took the last one: a consumer that stays on its stream calls torch
    for none of its tensors, which takes the interpreter's lock from the threads that make batches, and waits for it.
    """

    def __init__(self, device: torch.device | None) -> None:
        self.device = device
        self._stream: torch.cuda.Stream | None = None
        if device is not None and device.type in _WITH_STREAMS:
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no types here
            self._consumer = torch.cuda.current_stream(device)  # until a batch is taken on another

    @property
    def has_memory(self) -> bool:
        """Whether the device has memory of its own; the processor has not."""
        return self._stream is not None or (self.device is not None and self.device.type != "cpu")

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Queue what this thread does on the device after what the loader did; raises BudgetError if out of memory."""
        try:
            with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
                yield
        except torch.OutOfMemoryError as error:
            raise BudgetError(
                f"device {self.device}: no memory left for the loader's batches; use smaller ones"
            ) from error

    def send(self, batch: Mapping[str, torch.Tensor]) -> Batch:
        """Start copying tensors to the device, from pinned memory where it has streams; inside :meth:`queue`."""
        return {name: self._copy(tensor) for name, tensor in batch.items()} if self.has_memory else dict(batch)

    def finish(self, batches: Iterable[Batch]) -> Any:
        """Mark batches for the consumer's stream, which is returned, and wait until they are made; in :meth:`queue`."""
        if self._stream is None:
            return None
        consumer = self._consumer
        _mark(batches, consumer)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        event.synchronize()  # blocks only this worker, whose pinned memory can be freed then
        return consumer

    def receive(self, batch: Batch, marked: Any) -> Batch:
        """The batch; the allocator knows then that the consumer's stream uses it."""
        if self._stream is not None:
            current = torch.cuda.current_stream(self.device)
            if current != marked:
                _mark([batch], current)
                self._consumer = current
        return batch

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._stream is None:
            return tensor.to(self.device)
        pinned = tensor.pin_memory() if tensor.device.type == "cpu" else tensor
        return pinned.to(self.device, non_blocking=True)


def _mark(batches: Iterable[Batch], stream: torch.cuda.Stream) -> None:
    """Let memory of batches that are freed be used again once this stream has done what it has queued by then."""
    for batch in batches:
        for tensor in batch.values():
            tensor.record_stream(stream)


def split_batches(tensors: Mapping[str, torch.Tensor], counts: Sequence[int]) -> list[Batch]:
    """Batches of a group, each with storage of its own, so that one that is saved does not write the whole group."""
    if len(counts) == 1:
        return [dict(tensors)]
    pieces = [_split(tensor, list(counts)) for tensor in tensors.values()]
    return [dict(zip(tensors, batch, strict=True)) for batch in zip(*pieces, strict=True)]


def _split(tensor: torch.Tensor, counts: list[int]) -> Sequence[torch.Tensor]:
    """The pieces of a tensor along its first axis: slices of its memory, or copies where pieces are small."""
    small = tensor.nbytes < SMALL_BYTES * len(counts)
    in_turn = tensor.stride(0) == max(tensor.stride())  # a piece's memory has nothing of the others'
    if in_turn and not small and tensor.device.type == "cpu" and not tensor.requires_grad:
        with suppress(TypeError):  # a type that numpy lacks, such as bfloat16
            rows = tensor.numpy()
            return [torch.from_numpy(rows[start:stop]) for start, stop in pairwise(accumulate(counts, initial=0))]
    return torch.split_with_sizes_copy(tensor, counts)  # type: ignore[func-returns-value, return-value]  # no out=
