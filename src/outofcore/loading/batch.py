"""From gathered rows to what the consumer receives: a dict of tensors, on its device."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from outofcore.domains.domain import Reading
from outofcore.loading.gather import Room
from outofcore.loading.permutation import key
from outofcore.loading.residency.base import Residency
from outofcore.loading.transfer import Transfer

Batch = dict[str, torch.Tensor]

_AUGMENT = 32  # what a key is for; the order's and the samplers' purposes lie below


@runtime_checkable
class DeviceReading(Protocol):
    """A reading that can also do its work where rows already lie on a device."""

    def on_device(self, rows: Mapping[str, torch.Tensor], generator: np.random.Generator) -> Batch:
        """Turn rows on a device into tensors there; unsigned words come as signed ones of the same bits."""
        ...


class RawReading:
    """Stored fields as tensors: the reading of a loader that was given none.

    Unsigned words that torch cannot index are widened to the next signed type; uint64 keeps its bits as int64.

    Parameters
    ----------
    dtypes
        Stored dtype of each field.
    """

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.fields = tuple(dtypes)
        self._unsigned = {name: dtype.name for name, dtype in dtypes.items() if dtype.name in ("uint16", "uint32")}

    def __call__(self, rows: Mapping[str, Any], generator: np.random.Generator) -> Batch:
        """Rows as tensors."""
        del generator
        wider = {"uint16": np.int32, "uint32": np.int64}
        batch = {}
        for name, array in rows.items():
            plain = array.view(np.int64) if array.dtype == np.uint64 else array
            batch[name] = torch.from_numpy(plain.astype(wider.get(plain.dtype.name, plain.dtype), copy=False))
        return batch

    def on_device(self, rows: Mapping[str, torch.Tensor], generator: np.random.Generator) -> Batch:
        """The same from tensors in which unsigned words lie as signed ones."""
        del generator
        batch = dict(rows)
        for name, stored in self._unsigned.items():
            wide, mask = (torch.int32, 2**16 - 1) if stored == "uint16" else (torch.int64, 2**32 - 1)
            batch[name] = rows[name].to(wide) & mask
        return batch


class _Key(np.random.bit_generator.ISeedSequence):
    """A key of Philox as it is: for one given as ``key=``, numpy asks the system for a seed first, and drops it."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: object = np.uint32) -> npt.NDArray[np.uint64]:
        """The key's two words."""
        del n_words, dtype
        return self._words


class BatchMaker:
    """Makes batches, in several threads at once.

    Parameters
    ----------
    residency
        Where rows come from.
    reading
        How rows become tensors.
    transfer
        How tensors go to the consumer's device.
    words
        What the random choices of an epoch depend on: seed, epoch, rank, number of ranks.
    part
        Place in the store of the part that is read, where batches of several come together: a batch then says its
        own as ``part``, int64 (batch,).
    """

    def __init__(
        self,
        residency: Residency,
        reading: Reading,
        transfer: Transfer,
        words: tuple[int, ...],
        part: int | None = None,
    ) -> None:
        self._residency = residency
        self._reading = reading
        self._transfer = transfer
        self._key = _Key(np.array([key(*words[:2], _AUGMENT), key(*words[2:], part or 0)], np.uint64))
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

    def finish(self, room: Room, count: int, position: int) -> Batch:
        """Turn the rows of the ``count`` samples from a position on into tensors."""
        counter = np.array([0, 0, 0, position], np.uint64)
        philox = np.random.Philox(self._key, counter=counter)  # type: ignore[arg-type] # any ISeedSequence will do
        generator = np.random.Generator(philox)
        if self._residency.name != "device":
            batch = self._reading(room.arrays, generator)
        elif isinstance(self._reading, DeviceReading):
            batch = self._reading.on_device(room.arrays, generator)
        else:
            batch = self._reading(self._to_host(room.arrays), generator)
        if self._part is not None:
            where = next(iter(batch.values())).device
            batch = {**batch, "part": torch.full((count,), self._part, device=where)}
        if not any(room.holds(tensor.data_ptr()) for tensor in batch.values()):  # else the room has become the batch
            with self._lock:
                self._spare.setdefault(count, []).append(room)
        return self._transfer.send(batch)

    def _to_host(self, rows: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
        return {name: rows[name].cpu().numpy().view(array.dtype) for name, array in self._residency.fields.items()}
