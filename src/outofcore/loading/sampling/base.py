"""What the loader asks of a way of sampling."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class EpochPlan(Protocol):
    """The samples of one epoch, over all ranks, pool by pool."""

    @property
    def positions(self) -> int:
        """Samples of the epoch."""
        ...

    @property
    def pools(self) -> int:
        """Number of pools."""
        ...

    def pool_start(self, pool: int) -> int:
        """Position at which a pool begins, a multiple of 16; for the number of pools, the end of the epoch."""
        ...

    def pool_of(self, position: int) -> int:
        """The pool that holds a position."""
        ...

    def first_rows(self, pool: int, rank: int, world: int) -> Ints:
        """First row of each sample that a rank has in a pool: those at positions p with ``p % world == rank``."""
        ...


class Sampler(Protocol):
    """A way of sampling a split."""

    @property
    def positions(self) -> int:
        """Samples of every epoch."""
        ...

    @property
    def table_bytes(self) -> int:
        """Memory that it holds throughout."""
        ...

    def epoch(self, number: int) -> EpochPlan:
        """The samples of one epoch."""
        ...

    def pool_chunks(self, world: int) -> int:
        """Chunks that one of ``world`` ranks needs for a pool, at most."""
        ...

    def pool_samples(self, world: int) -> int:
        """Samples that one of ``world`` ranks has in a pool, at most."""
        ...

    def describe(self) -> dict[str, Any]:
        """What decides the order beside the store and the seed, for a saved state to be compared with."""
        ...


def touched(first: Ints, length: int, chunk_rows: int, chunks: int) -> Ints:
    """The chunks that hold windows of ``length`` rows, ascending; rows below 0 stand for row 0."""
    if not len(first):
        return np.empty(0, np.int64)
    marks = np.zeros(chunks, np.bool_)
    low = first // chunk_rows if length == 1 else np.maximum(first, 0) // chunk_rows
    marks[low] = True
    if length > 1:
        high = (first + (length - 1)) // chunk_rows
        for step in range(1, int((high - low).max()) + 1):
            marks[np.minimum(low + step, high)] = True
    return np.flatnonzero(marks)
