"""The positions of an epoch, cut into batches and dealt to ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Last = Literal["keep", "drop", "pad"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Share:
    """Which rank of how many."""

    rank: int
    world: int

    def count(self, start: int, stop: int) -> int:
        """How many of the positions ``start`` to ``stop`` are this rank's."""
        return self._before(stop) - self._before(start)

    def first(self, start: int) -> int:
        """The first of its positions from ``start`` on; the others follow in steps of ``world``."""
        return start + (self.rank - start) % self.world

    def _before(self, position: int) -> int:
        return (position - self.rank + self.world - 1) // self.world


def spans(start: int, positions: int, size: int, last: Last, world: int) -> Iterator[Span]:
    """Positions from and to of each global batch.

    With ``"keep"``, a remainder too small to give each rank a sample joins the batch before it. With ``"pad"`` the last
    batch ends beyond the epoch.
    """
    while start < positions:
        stop = start + size
        left = positions - stop
        if last == "keep":
            stop = positions if left < world else stop
        elif last == "drop" and left < 0:
            return
        yield start, stop
        start = stop


def batches(start: int, positions: int, size: int, last: Last, world: int) -> int:
    """Number of :func:`spans`."""
    left = max(positions - start, 0)
    if last == "drop":
        return left // size
    if last == "keep" and left > size and left % size < world:
        return left // size
    return -(-left // size)
