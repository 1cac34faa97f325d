"""From gathered rows to a dict of tensors on the consumer's device."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from outofcore.domains.reading import DeviceReading, Reading
from outofcore.loading.gather import Room
from outofcore.loading.permutation import random_words
from outofcore.loading.residency import Residency
from outofcore.loading.transfer import Transfer

Batch = dict[str, torch.Tensor]


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
