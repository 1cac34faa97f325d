"""Cut the positions of an epoch into batches and deal them to ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Last = Literal["keep", "drop", "pad"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Share:
    """Rank of the process, and number of ranks."""

    rank: int
    world: int

    def count(self, start: int, stop: int) -> int:
        """Number of this rank's positions from ``start`` to ``stop``."""
        return self._before(stop) - self._before(start)

    def first(self, start: int) -> int:
        """The first of its positions from ``start`` on; the others follow in steps of ``world``."""
        return start + (self.rank - start) % self.world

    def _before(self, position: int) -> int:
        return (position - self.rank + self.world - 1) // self.world


def spans(start: int, positions: int, size: int, last: Last, world: int) -> Iterator[Span]:
    """Start and end position of each global batch.

    With ``"keep"``, a remainder too small to give each rank a sample joins the previous batch. With ``"pad"`` the last
    batch extends past the epoch.
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
