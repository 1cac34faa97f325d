"""From gathered rows to a dict of tensors on the consumer's device."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from outofcore.domains.reading import Draws, Reading
from outofcore.loading.gather import Room
from outofcore.loading.permutation import random_words
from outofcore.loading.residency.base import Residency
from outofcore.loading.transfer import Transfer

Batch = dict[str, torch.Tensor]


@runtime_checkable
class DeviceReading(Protocol):
    """A reading that can also work on rows that are already on a device."""

    def on_device(self, rows: Mapping[str, torch.Tensor], draws: Draws) -> Batch:
        """Turn rows on a device into tensors there; unsigned words are signed ones of the same bits."""
        ...


class RawReading:
    """Stored fields as tensors, without a domain's reading.

    Unsigned words that torch cannot index are widened to the next signed type; uint64 keeps its bits as int64.
    ``dtypes`` are the stored ones.
    """

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.fields = tuple(dtypes)
        self._unsigned = {name: dtype.name for name, dtype in dtypes.items() if dtype.name in ("uint16", "uint32")}

    def __call__(self, rows: Mapping[str, Any], draws: Draws) -> Batch:
        """Rows as tensors."""
        del draws
        wider = {"uint16": np.int32, "uint32": np.int64}
        batch = {}
        for name, array in rows.items():
            plain = array.view(np.int64) if array.dtype == np.uint64 else array
            batch[name] = torch.from_numpy(plain.astype(wider.get(plain.dtype.name, plain.dtype), copy=False))
        return batch

    def on_device(self, rows: Mapping[str, torch.Tensor], draws: Draws) -> Batch:
        """The same from tensors with unsigned words as signed ones of the same bits."""
        del draws
        batch = dict(rows)
        for name, stored in self._unsigned.items():
            wide, mask = (torch.int32, 2**16 - 1) if stored == "uint16" else (torch.int64, 2**32 - 1)
            batch[name] = rows[name].to(wide) & mask
        return batch


class BatchMaker:
    """Makes batches, in several threads at once.

    ``key`` determines random choices, together with a sample's position. ``part`` is the part's place in the store if
    batches of several parts are mixed: a batch then contains it as ``part``, int64 (batch,).
    """

    def __init__(
        self,
        residency: Residency,
        reading: Reading,
        transfer: Transfer,
        key: int,
        part: int | None = None,
    ) -> None:
        self._residency = residency
        self._reading = reading
        self._transfer = transfer
        self._key = key
        self._part = part
        self._spare: dict[int, list[Room]] = {}
        self._lock = threading.Lock()

    def begin(self, count: int) -> Room:
        """Room for the rows of a batch."""
        with self._lock:
            spare = self._spare.get(count)
            if spare:
                return spare.pop()
        return self._residency.allocate(count)

    def finish(self, room: Room, counts: Sequence[int], first: int, step: int) -> list[Batch]:
        """Turn rows into tensors, and the tensors into batches of ``counts`` samples each.

        The samples are at positions ``first``, ``first + step``, ...
        """
        total = sum(counts)
        draws = random_words(first, step, total, self._key)
        if self._residency.name != "device":
            made = self._reading(room.arrays, draws)
        elif isinstance(self._reading, DeviceReading):
            made = self._reading.on_device(room.arrays, draws)
        else:
            made = self._reading(self._to_host(room.arrays), draws)
        if self._part is not None:
            where = next(iter(made.values())).device
            made = {**made, "part": torch.full((total,), self._part, device=where)}
        if not any(room.holds(tensor.data_ptr()) for tensor in made.values()):  # else it has become the batch
            with self._lock:
                self._spare.setdefault(total, []).append(room)
        made = self._transfer.send(made)
        if len(counts) == 1:
            return [made]
        pieces = [torch.split(tensor, list(counts)) for tensor in made.values()]
        return [dict(zip(made, batch, strict=True)) for batch in zip(*pieces, strict=True)]

    def _to_host(self, rows: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
        return {name: rows[name].cpu().numpy().view(array.dtype) for name, array in self._residency.fields.items()}
