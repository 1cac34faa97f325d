"""Rows of a whole split as tensors of an accelerator: the residency ``device``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from outofcore.loading.batch_memory import Recyclers
from outofcore.loading.gather import BatchBuffer
from outofcore.loading.memory import Ledger, MemoryEstimate
from outofcore.loading.residency import Residency, ResidencyPlan
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.settings.sizes import format_bytes
from outofcore.system.device import DeviceStream

STAGED_BYTES = 1 << 20  # of chunks that wait in pinned memory for their copy to a device, for each thread
GATHERED_ROWS = 1 << 14  # whose places are computed together where the processor is the device


class OnDevice(Residency):
    """Rows of the whole split as tensors on a device, gathered there: after the first epoch nothing is transferred.

    The processor as a device makes batches as other residencies do, in memory that is used again.
    """

    name, forecast = "device", "mapped"

    @classmethod
    def suits(cls, needs: MemoryEstimate, budget: int) -> str:
        room = needs.accelerator_room if needs.device else 0
        if not 0 < _split_bytes(needs) <= room or needs.least(sum(cls.ledger(needs).values())) > budget:
            return ""
        size = f"{format_bytes(needs.decoded)} decoded"
        return f"{size} fit the {format_bytes(room)} that loaders may take of the accelerator's memory"

    @staticmethod
    def ledger(needs: MemoryEstimate) -> Ledger:
        """Decoded chunks on their way to the device; all, if the processor is the device."""
        staged = needs.threads * _staged_chunks(needs.chunk) if needs.decoding else 0
        own = needs.accelerator is None or needs.accelerator.type == "cpu"
        rows = {"all rows": _split_bytes(needs)} if own else {}
        return rows | {"rows on their way to the device": staged * needs.chunk}

    @classmethod
    def plan(cls, needs: MemoryEstimate, budget: int, reason: str) -> ResidencyPlan:
        return replace(super().plan(needs, budget, reason), device_bytes=_split_bytes(needs))

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
        slab = max(1, len(first) if self.on_device else GATHERED_ROWS // self.length)
        for start in range(0, len(first), slab):
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
        return _staged_chunks(self._chunk_bytes)

    def _load(self, chunks: Ints) -> int:
        """Decode chunks, and copy them to the device."""
        staged = [self._staging(name, len(chunks)) for name in self.fields]
        decoded = [tensor.numpy().view(array.dtype) for tensor, array in zip(staged, self.fields.values(), strict=True)]
        read = self._decode(chunks, decoded, np.arange(len(chunks)))
        pinned = self.device.type == "cuda"
        with self.stream.queue():
            places = torch.from_numpy(chunks).to(self.device)
            for tensor, rows in zip(self._tensors.values(), staged, strict=True):
                sent = rows.to(self.device, non_blocking=pinned)  # other memory is used again as soon as this returns
                tensor.view(self.chunks, self.chunk_rows, *rows.shape[2:]).index_copy_(0, places, sent)
        return read

    def _staging(self, name: str, chunks: int) -> torch.Tensor:
        """Memory for so many chunks of a field: pinned for CUDA, else used again."""
        array = self.fields[name]
        shape, dtype = (chunks, self.chunk_rows, *array.shape[1:]), _signed(array.dtype)
        if self.device.type == "cuda":
            return torch.empty(shape, dtype=_of_torch(dtype), pin_memory=True)
        return torch.from_numpy(self.recyclers[f"staged {name}"].empty(shape, dtype))


def _split_bytes(needs: MemoryEstimate) -> int:
    """Bytes of the whole split, which an accelerator holds."""
    return (needs.chunks + needs.unused) * needs.chunk


def _signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a field's tensor: unsigned words become signed ones, which every device can gather."""
    return np.dtype({"uint16": np.int16, "uint32": np.int32, "uint64": np.int64}.get(dtype.name, dtype))


def _of_torch(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


def _staged_chunks(chunk_bytes: int) -> int:
    """Chunks that a thread decodes, and then copies to a device together."""
    return max(1, STAGED_BYTES // max(chunk_bytes, 1))
