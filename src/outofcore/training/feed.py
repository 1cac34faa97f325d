"""The training loader for the trainer: each batch with the loader's state after it, and its waiting time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from outofcore.domains.task import Batch

LoaderState = dict[str, Any]


class Loader(Protocol):
    """Interface of a loader for training; one iteration is one epoch."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        ...

    def state_dict(self) -> LoaderState:
        """The loader's position after the last batch that it delivered."""
        ...

    def load_state_dict(self, state: LoaderState) -> None:
        """Resume at that position with the next iteration."""
        ...


class Feed:
    """One epoch of batches, or the rest of it.

    A trainer may prefetch a batch. Each batch carries the loader's state after it, so that a checkpoint never counts
    one that was only fetched. ``done`` batches were trained on before, ``state`` is the loader's state after them,
    ``most`` limits the epoch; ``waited`` are seconds spent waiting.
    """

    def __init__(
        self, loader: Loader, epoch: int, done: int = 0, state: LoaderState | None = None, *, most: int | None = None
    ) -> None:
        self.waited = 0.0
        self._loader = loader
        loader.set_epoch(epoch)
        self._left = (len(loader) if most is None else min(len(loader), most)) - done
        self._most = most
        if state is not None:
            loader.load_state_dict(state)

    def __len__(self) -> int:
        return self._left

    def __iter__(self) -> Iterator[tuple[Batch, LoaderState]]:
        batches = islice(self._loader, self._most)
        while True:
            since = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - since
            if batch is None:
                return
            yield batch, self._loader.state_dict()
