"""The whole split on an accelerator, gathered there: after the first epoch nothing is transferred."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from outofcore.loading.gather import Room
from outofcore.loading.residency.base import Ints, Residency, Work
from outofcore.store.reader import Array


def as_torch(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor sharing the memory; unsigned words become signed ones, which every device can gather."""
    signed = {"uint16": np.int16, "uint32": np.int32, "uint64": np.int64}.get(array.dtype.name)
    return torch.from_numpy(array.view(signed) if signed else array)


class OnDevice(Residency):
    """Rows of the whole split as tensors on a device."""

    name = "device"

    def __init__(self, fields: Mapping[str, Array], length: int, device: torch.device) -> None:
        super().__init__(fields, length)
        self.device = device
        self._lock = threading.Lock()
        self._here = np.zeros(self.chunks, np.bool_)
        self._tensors: dict[str, torch.Tensor] = {}

    def bring(self, chunks: Ints) -> list[Work]:
        """The work decodes the chunks that are needed for the first time, and copies them to the device."""
        if not self._tensors:
            self._tensors = {  # all of them, or none if there is no room
                name: torch.empty(
                    (self.chunks * self.chunk_rows, *array.shape[1:]),
                    dtype=as_torch(np.empty(0, array.dtype)).dtype,
                    device=self.device,
                )
                for name, array in self.fields.items()
            }
        return [partial(self._load, int(chunk)) for chunk in chunks[~self._here[chunks]]]

    def release(self, chunks: Ints) -> None:
        """Do nothing: data on the device stays there."""

    def settle(self) -> None:
        """Do nothing."""

    def allocate(self, count: int) -> Room:
        """Uninitialised tensors on the device."""
        window = (self.length,) if self.length > 1 else ()
        return Room(
            {
                name: torch.empty((count, *window, *tensor.shape[1:]), dtype=tensor.dtype, device=self.device)
                for name, tensor in self._tensors.items()
            }
        )

    def gather(self, first: Ints, room: Room, at: int) -> None:
        """Select the rows on the device."""
        places = torch.from_numpy(first).to(self.device)
        if self.length > 1:
            steps = torch.arange(self.length, device=self.device)
            places = (places[:, None] + steps).clamp_(min=0).reshape(-1)
        for name, tensor in self._tensors.items():
            out = room.arrays[name][at : at + len(first)]
            torch.index_select(tensor, 0, places, out=out.view(-1, *tensor.shape[1:]))

    def _load(self, chunk: int) -> None:
        read = 0
        for name, array in self.fields.items():
            decoded = np.empty((self.chunk_rows, *array.shape[1:]), array.dtype)
            read += array.chunk(chunk, decoded)
            first = chunk * self.chunk_rows
            self._tensors[name][first : first + self.chunk_rows].copy_(as_torch(decoded))
        self._here[chunk] = True
        with self._lock:
            self.bytes_read += read
