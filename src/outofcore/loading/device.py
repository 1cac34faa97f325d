"""A loader's work on an accelerator: one stream, events between it and the consumer's, one reservation of memory.

:class:`OnDevice` holds the rows of a split there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakSet

import numpy as np
import torch

from outofcore.domains.task import Batch
from outofcore.errors import BudgetError
from outofcore.loading.batch_memory import Recyclers
from outofcore.loading.gather import BatchBuffer
from outofcore.loading.memory import Ledger, MemoryEstimate
from outofcore.loading.residency import Residency, ResidencyPlan
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.settings.sizes import format_bytes

SHARE = 0.25  # of an accelerator's memory, for all loaders of the process; the rest is for the model
_WITH_STREAMS = frozenset(("cuda",))
STAGED_BYTES = 1 << 20  # of chunks that wait in pinned memory for their copy to a device, for each thread
GATHERED_ROWS = 1 << 14  # whose places are computed together where the processor is the device
SMALL_BYTES = 16 << 10  # a smaller piece of a group is copied, which is fast, and does not hold the group


@dataclass(eq=False)
class Reservation:
    """Memory of a device that a loader holds, or will."""

    device: torch.device
    bytes: int
    allocated: bool = False  # and so no longer free


_reservations: WeakSet[Reservation] = WeakSet()


def reserve(device: torch.device, size: int) -> Reservation:
    """Reserve memory until the reservation is dropped."""
    reservation = Reservation(device, size)
    _reservations.add(reservation)
    return reservation


def available(device: torch.device | None) -> int:
    """Bytes of a device's memory that a loader may take, besides those that others have reserved."""
    if device is None or device.type != "cuda":
        return 0
    own = [each for each in tuple(_reservations) if each.device == device]
    memory = torch.cuda.mem_get_info(device)[0] + sum(each.bytes for each in own if each.allocated)
    return max(0, int(SHARE * memory) - sum(each.bytes for each in own))


def staged_chunks(chunk_bytes: int) -> int:
    """Chunks that a thread decodes, and then copies to a device together."""
    return max(1, STAGED_BYTES // max(chunk_bytes, 1))


class DeviceStream:
    """Moves batches to a device, if one is named, in the thread that made them, without blocking the consumer.

    All that a loader does on a device with streams is queued on one of its own. A batch comes with an event, which the
    consumer's stream waits for.
    """

    def __init__(self, device: torch.device | None) -> None:
        self.device = device
        self._stream: torch.cuda.Stream | None = None
        if device is not None and device.type in _WITH_STREAMS:
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no types here

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
                f"device {self.device}: no memory left for the loader's rows and batches; use smaller batches, or "
                "residency='ram' or 'streamed', which hold rows in this machine's memory"
            ) from error

    def send(self, batch: Mapping[str, torch.Tensor]) -> Batch:
        """Start copying tensors to the device, from pinned memory where it has streams; inside :meth:`queue`."""
        return {name: self._copy(tensor) for name, tensor in batch.items()} if self.has_memory else dict(batch)

    def finish(self) -> Any:
        """An event of all that was queued so far, once it is done; inside :meth:`queue`."""
        if self._stream is None:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        event.synchronize()  # blocks only this worker, whose pinned memory can be freed then
        return event

    def receive(self, batch: Batch, event: Any) -> Batch:
        """Let the consumer's stream wait for a batch, and tell the allocator that it uses it."""
        if event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            for tensor in batch.values():
                tensor.record_stream(current)
        return batch

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._stream is None:
            return tensor.to(self.device)
        pinned = tensor.pin_memory() if tensor.device.type == "cpu" else tensor
        return pinned.to(self.device, non_blocking=True)


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


class OnDevice(Residency):
    """Rows of the whole split as tensors on a device, gathered there: after the first epoch nothing is transferred.

    The processor as a device makes batches as other residencies do, in memory that is used again.
    """

    name, forecast = "device", "mapped"

    @classmethod
    def suits(cls, needs: MemoryEstimate, budget: int) -> str:
        room = available(needs.accelerator) if needs.device else 0
        if not 0 < _split_bytes(needs) <= room or needs.least(sum(cls.ledger(needs).values())) > budget:
            return ""
        size = f"{format_bytes(needs.decoded)} decoded"
        return f"{size} fit the {format_bytes(room)} that loaders may take of the accelerator's memory"

    @staticmethod
    def ledger(needs: MemoryEstimate) -> Ledger:
        """Decoded chunks on their way to the device; all, if the processor is the device."""
        staged = needs.threads * staged_chunks(needs.chunk) if needs.decoding else 0
        own = needs.accelerator is None or needs.accelerator.type == "cpu"
        rows = {"all rows": _split_bytes(needs)} if own else {}
        return rows | {"rows on their way to the device": staged * needs.chunk}

    @classmethod
    def plan(cls, needs: MemoryEstimate, budget: int, reason: str) -> ResidencyPlan:
        plan = super().plan(needs, budget, reason)
        return replace(plan, reservation=reserve(needs.accelerator, _split_bytes(needs)) if needs.accelerator else None)

    def __init__(self, split: Split, plan: ResidencyPlan, stream: DeviceStream, recyclers: Recyclers) -> None:
        super().__init__(split, plan, stream, recyclers)
        self.device, self.on_device = stream.device or torch.device("cpu"), stream.has_memory
        self._tensors: dict[str, torch.Tensor] = {}

    def allocate(self, count: int) -> BatchBuffer:
        if not self.on_device:
            return super().allocate(count)
        window = (self.length,) if self.length > 1 else ()
        with self.stream.queue():
            return BatchBuffer(
                {
                    name: torch.empty((count, *window, *tensor.shape[1:]), dtype=tensor.dtype, device=self.device)
                    for name, tensor in self._tensors.items()
                }
            )

    def gather(self, first: Ints, buffer: BatchBuffer, at: int) -> None:
        slab = len(first) if self.on_device else max(1, GATHERED_ROWS // self.length)
        for start in range(0, len(first), slab or 1):
            self._gather(first[start : start + slab], buffer, at + start)

    def _gather(self, first: Ints, buffer: BatchBuffer, at: int) -> None:
        with self.stream.queue():
            rows = first if self.packs is None else self.packs.rows(first).reshape(-1)
            places = torch.from_numpy(rows).to(self.device)
            if self.length > 1 and self.packs is None:
                steps = torch.arange(self.length, device=self.device)
                origins = torch.from_numpy(self.origins[(first + self.length - 1) // self.chunk_rows]).to(self.device)
                places = torch.maximum(places[:, None] + steps, origins[:, None]).reshape(-1)
            for name, tensor in self._tensors.items():
                array = buffer.arrays[name][at : at + len(first)]
                out = torch.from_numpy(array.view(_signed(array.dtype))) if isinstance(array, np.ndarray) else array
                torch.index_select(tensor, 0, places, out=out.view(-1, *tensor.shape[1:]))

    def _reserve(self, chunks: Ints) -> Ints:
        if not self._tensors:
            with self.stream.queue():
                self._tensors = {  # all of them, or none if there is no room
                    name: torch.empty(
                        (self.chunks * self.chunk_rows, *array.shape[1:]),
                        dtype=_of_torch(_signed(array.dtype)),
                        device=self.device,
                    )
                    for name, array in self.fields.items()
                }
            if self.reservation is not None:
                self.reservation.allocated = True
        return super()._reserve(chunks)

    def _piece(self, count: int) -> int:
        del count
        return staged_chunks(self._chunk_bytes)

    def _load(self, chunks: Ints) -> int:
        """Decode chunks, and copy them to the device."""
        staged = [self._staging(name, len(chunks)) for name in self.fields]
        decoded = [tensor.numpy().view(array.dtype) for tensor, array in zip(staged, self.fields.values(), strict=True)]
        read = self._decode(chunks, decoded, np.arange(len(chunks)))
        with self.stream.queue():
            places = torch.from_numpy(chunks).to(self.device)
            for tensor, rows in zip(self._tensors.values(), staged, strict=True):
                sent = rows.to(self.device, non_blocking=True)
                tensor.view(self.chunks, self.chunk_rows, *rows.shape[2:]).index_copy_(0, places, sent)
        return read

    def _staging(self, name: str, chunks: int) -> torch.Tensor:
        """Memory for so many chunks of a field: pinned where the device has streams, else used again."""
        array = self.fields[name]
        shape, dtype = (chunks, self.chunk_rows, *array.shape[1:]), _signed(array.dtype)
        if self.device.type in _WITH_STREAMS:
            return torch.empty(shape, dtype=_of_torch(dtype), pin_memory=self.device.type == "cuda")
        return torch.from_numpy(self.recyclers[f"staged {name}"].empty(shape, dtype))


def _split_bytes(needs: MemoryEstimate) -> int:
    """Bytes of the whole split, which an accelerator holds."""
    return (needs.chunks + needs.unused) * needs.chunk


def _signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a field's tensor: unsigned words become signed ones, which every device can gather."""
    return np.dtype({"uint16": np.int16, "uint32": np.int32, "uint64": np.int64}.get(dtype.name, dtype))


def _of_torch(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype
