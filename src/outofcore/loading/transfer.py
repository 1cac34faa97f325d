"""Transfer batches to an accelerator, on a separate stream while the previous one is in use."""

from __future__ import annotations

import torch

Batch = dict[str, torch.Tensor]


class Transfer:
    """Moves batches to a device, in the thread that made them, without blocking the consumer.

    ``device`` None or the CPU leaves them where they are.
    """

    def __init__(self, device: torch.device | None) -> None:
        self.device = device
        self._stream: torch.cuda.Stream | None = None
        if device is not None and device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no types here

    def send(self, batch: Batch) -> Batch:
        """Start copying a batch; on CUDA from pinned memory, on a separate stream."""
        if self.device is None or self.device.type == "cpu":
            return batch
        if self._stream is None:
            return {name: tensor.to(self.device) for name, tensor in batch.items()}
        with torch.cuda.stream(self._stream):
            sent = {name: self._copy(tensor) for name, tensor in batch.items()}
        # Blocks only this worker; the pinned memory can be freed when the copy is done.
        self._stream.synchronize()
        return sent

    def receive(self, batch: Batch) -> Batch:
        """Tell the allocator that the consumer's stream now uses the batch."""
        if self._stream is not None:
            current = torch.cuda.current_stream(self.device)
            for tensor in batch.values():
                tensor.record_stream(current)
        return batch

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        pinned = tensor.pin_memory() if tensor.device.type == "cpu" else tensor
        return pinned.to(self.device, non_blocking=True)
