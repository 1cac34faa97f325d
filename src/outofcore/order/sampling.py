"""What a way of sampling states: the pools of each epoch, as sample numbers, and nothing of files, threads or bytes.

To add one, write a module with a subclass of :class:`Sampler`, and one of :class:`Sampling`, which users pass as
``shuffle`` and which makes the sampler of a split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from outofcore.checks import one_of
from outofcore.ndarrays import Doubles, Ints
from outofcore.order.batching import TURNS
from outofcore.order.windows import Windows

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
    access: Access = "recurring"
    chunks: int | None = None  # that hold these; None for all of the split
    table_bytes: int = 0  # held throughout
    weights: int = 0  # values of a column that are read to draw a pool
    by_sequence: bool = False  # whether that is a column of the sequences


class Sampler(ABC):
    """A way of sampling a split."""

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

    def note_for_ranks(self, world: int) -> str | None:
        """A line for the user if this number of ranks reads chunks several times."""
        del world
        return None


class Sampled(Protocol):
    """A split, as far as a sampling may know it."""

    @property
    def windows(self) -> Windows:
        """Its samples."""

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""

    @property
    def stores_of_sources(self) -> Mapping[str, int]:
        """Number of stores by source of a mixture, in the order of the stores."""

    def selected_runs(self) -> tuple[Ints, Ints] | None:
        """First rows and lengths (runs,) of the rows of selected sequences; None if all rows are samples."""

    def weights_of_rows(self, column: str) -> tuple[Callable[[Ints], Doubles], int]:
        """A function from rows, those of each store ascending, to their values of a column of numbers.

        Also the bytes that it holds if the column is one of the sequences, else 0.
        """

    def windows_of(self, stores: slice) -> tuple[Windows, int]:
        """The samples of some of the stores, and how many chunks these are in."""


@dataclass(frozen=True, kw_only=True)
class Sampling(ABC):
    """What users pass as ``shuffle``; checks its own settings, and makes the sampler of a split."""

    turns: str = "size"
    """With several parts: batches at random in proportion to ``"size"``, or one of each in ``"turn"``."""

    names_rows: ClassVar[bool] = False
    """Whether samples are named by row, so that ``where`` must not renumber them."""
    mixes_sources: ClassVar[bool] = False

    def __post_init__(self) -> None:
        one_of("turns", self.turns, TURNS)

    @property
    def pool_blocks(self) -> int:
        """Blocks of a pool; 1 where there are none."""
        return 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Row fields or columns of the sequences that are read to sample."""
        return ()

    @abstractmethod
    def sampler(self, split: Sampled, seed: int) -> Sampler:
        """The sampler of a split; raises ParamsError if the split cannot be sampled in this way."""

    def samples_of_batch(self, batch_size: int) -> int:
        """Samples of a batch, over all ranks, if so many are asked for."""
        return batch_size
