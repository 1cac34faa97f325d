"""The training loader as the trainer takes it: each batch with the loader's state behind it, and the time it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

from outofcore.domains.task import Batch

LoaderState = dict[str, Any]


class Loader(Protocol):
    """What training asks of a loader; one iteration is one epoch."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order the next iteration follows."""
        ...

    def state_dict(self) -> LoaderState:
        """Where the loader stands, after the last batch that it gave."""
        ...

    def load_state_dict(self, state: LoaderState) -> None:
        """Go on, with the next iteration, from there."""
        ...


class Feed:
    """One epoch of batches, or what is left of it.

    A trainer may fetch a batch before it has trained on the one before; so that a checkpoint never counts a batch that
    was only fetched, each batch comes with the state that belongs to it.

    Parameters
    ----------
    loader
        The training loader.
    epoch
        Which epoch.
    done
        Batches of it that were trained on before.
    state
        The loader's state after those; None at the start of an epoch.

    Attributes
    ----------
    waited
        Seconds that the trainer waited for batches.
    """

    def __init__(self, loader: Loader, epoch: int, done: int = 0, state: LoaderState | None = None) -> None:
        self.waited = 0.0
        self._loader = loader
        loader.set_epoch(epoch)
        self._left = len(loader) - done
        if state is not None:
            loader.load_state_dict(state)

    def __len__(self) -> int:
        return self._left

    def __iter__(self) -> Iterator[tuple[Batch, LoaderState]]:
        batches = iter(self._loader)
        while True:
            since = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - since
            if batch is None:
                return
            yield batch, self._loader.state_dict()
