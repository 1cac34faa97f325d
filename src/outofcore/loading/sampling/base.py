"""Interface of a sampling method."""

from __future__ import annotations

from typing import Any, Protocol

import numba
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
        """Position at which a pool begins, a multiple of the number of ranks; for ``pools``, the end."""
        ...

    def pool_of(self, position: int) -> int:
        """The pool that holds a position."""
        ...

    def first_rows(self, pool: int, rank: int, world: int) -> Ints:
        """First row of each sample of a rank in a pool: positions p with ``p % world == rank``."""
        ...


class Sampler(Protocol):
    """A way of sampling a split."""

    @property
    def positions(self) -> int:
        """Samples per epoch."""
        ...

    @property
    def table_bytes(self) -> int:
        """Bytes held throughout."""
        ...

    def epoch(self, number: int) -> EpochPlan:
        """The samples of one epoch."""
        ...

    def pool_chunks(self, world: int) -> int:
        """Most chunks that one of ``world`` ranks needs for a pool."""
        ...

    def pool_samples(self, world: int) -> int:
        """Most samples that one of ``world`` ranks has in a pool."""
        ...

    def describe(self) -> dict[str, Any]:
        """What determines the order apart from store and seed, compared with that of a saved state."""
        ...


def touched(first: Ints, length: int, chunk_rows: int, chunks: int) -> Ints:
    """The chunks that hold windows of ``length`` rows, ascending; rows below 0 mean row 0."""
    marks = np.zeros(chunks, np.bool_)
    _mark(first, length, chunk_rows, marks)
    return np.flatnonzero(marks)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _mark(first: Ints, length: int, chunk_rows: int, marks: npt.NDArray[np.bool_]) -> None:
    for row in first:
        for chunk in range(max(row, 0) // chunk_rows, (row + length - 1) // chunk_rows + 1):
            marks[chunk] = True
