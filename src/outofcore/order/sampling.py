"""What a way of sampling states: the pools of each epoch, as sample numbers, and nothing of files, threads or bytes.

To add one, write a module with a subclass of :class:`Sampler`, and the argument of :func:`outofcore.loader` that
selects it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from outofcore.ndarrays import Ints

Access = Literal["pools", "recurring", "anywhere"]
"""How chunks are used: pool by pool, each once per epoch; again and again; or all at any time."""


class Pool(NamedTuple):
    """Samples of an epoch whose rows are in memory at the same time."""

    start: int  # position of the first
    stop: int  # position after the last
    draw: Callable[[int, int], Ints]
    """Sample numbers, int64, at positions p of the pool with ``p % world == rank``, given ``rank`` and ``world``, a
    divisor of the lanes. Called in a thread, at most once and in the order of the pools, when the pool before the last
    one is no longer in use."""


@dataclass(frozen=True, kw_only=True)
class PoolLimits:
    """The most that a rank needs to draw a pool, known before anything is read; the budget follows from it."""

    samples: int  # per pool
    chunks: int | None = None  # that hold these; None for all of the split
    table_bytes: int = 0  # held throughout
    weights: int = 0  # values of a column that are read to draw a pool
    by_sequence: bool = False  # whether that is a column of the sequences


class Sampler(ABC):
    """A way of sampling a split."""

    access: Access = "recurring"
    lanes = 1  # to which positions are dealt in turn: ranks whose number divides it draw only their own samples

    @property
    @abstractmethod
    def positions(self) -> int:
        """Samples per epoch, over all ranks."""

    @abstractmethod
    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        """Pools of an epoch, from that of position ``start`` to the last; all are a function of seed and epoch."""

    def limits(self, world: int) -> PoolLimits:
        """Limits of one of ``world`` ranks, a divisor of the lanes."""
        return PoolLimits(samples=-(-self.positions // world))

    def with_pool(self, blocks: int) -> Sampler:
        """The same, with pools of so many blocks; itself where there are none."""
        del blocks
        return self

    def with_chunks(self, rows: int) -> Sampler | None:
        """The same of a copy of the data with chunks of so many rows; None where its limits are not known."""
        del rows
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What determines the order apart from store and seed, compared with that of a saved state."""

    def mixing(self, batch_size: int, sequences: int) -> str:
        """One line for the user on what batches are made of, of a split with so many sequences."""
        del batch_size, sequences
        return f"{self.positions:,} samples"

    def report(self) -> list[str]:
        """More lines for the user."""
        return []
