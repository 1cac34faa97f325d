"""The memory that a loader will hold, proved against a budget before a row is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from outofcore.errors import BudgetError, ParamsError
from outofcore.sizes import format_bytes, parse_bytes

LEAST_BATCHES = 2  # one that the consumer waits for, one that is being made
READY_BATCHES = 4  # beyond one a thread: enough to even out chunks that take longer


def budget_bytes(memory: str | int) -> int:
    """Bytes of a budget such as ``"256MiB"``.

    Raises
    ------
    ParamsError
        If it is no size.
    """
    try:
        return parse_bytes(memory)
    except ValueError as error:
        message = f"memory: {error}"
        raise ParamsError(message) from error


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a loader must hold at least.

    Attributes
    ----------
    chunk
        Decoded bytes of one chunk of all fields.
    chunks
        Chunks of the split.
    pool_chunks
        Chunks of a pool, at most; two pools are held: one consumed, one being read.
    pool_samples
        Samples of a pool, at most; eight bytes a sample and pool for their order, twice that while it is made.
    batch
        Bytes of one batch: its rows as stored, and its tensors.
    tables
        Sequences, permutations and chunk indexes.
    threads
        Each holds one encoded chunk.
    """

    chunk: int
    chunks: int
    pool_chunks: int
    pool_samples: int
    batch: int
    tables: int
    threads: int

    @property
    def fixed(self) -> int:
        """All but the pools and the kept chunks, with the fewest batches in flight."""
        return (
            self.tables + self.threads * self.chunk + 5 * 8 * self.pool_samples + LEAST_BATCHES * self.batch
        )

    @property
    def slots(self) -> int:
        """Chunks of two pools, or of the whole split where that is less."""
        return min(2 * self.pool_chunks, self.chunks)

    @property
    def streamed(self) -> int:
        """Bytes that streaming takes at least."""
        return self.fixed + self.slots * self.chunk

    @property
    def whole(self) -> int:
        """Bytes that holding the whole split takes at least."""
        return self.fixed + self.chunks * self.chunk

    def batches(self, budget: int, held: int) -> int:
        """Batches in flight that a budget allows beside ``held`` chunks."""
        spare = budget - self.fixed - held * self.chunk
        return min(LEAST_BATCHES + max(spare, 0) // max(self.batch, 1), self.threads + READY_BATCHES)

    def keep(self, budget: int) -> int:
        """Chunks that can stay in memory beside two pools, after room for the batches in flight."""
        batches = (self.threads + READY_BATCHES - LEAST_BATCHES) * self.batch
        return max(0, min((budget - self.streamed - batches) // self.chunk, self.chunks))

    def prove(self, budget: int, pool_blocks: int) -> None:
        """Refuse a budget that streaming cannot keep.

        Raises
        ------
        BudgetError
            Names the least that works, and the smaller pool that would fit.
        """
        if self.streamed <= budget:
            return
        message = (
            f"a memory budget of {format_bytes(budget)} is too small: two pools of {pool_blocks} blocks take "
            f"{format_bytes(self.slots * self.chunk)}, batches in flight, order and tables {format_bytes(self.fixed)}; "
            f"the least that works is {format_bytes(self.streamed)}"
        )
        smaller = self._smaller_pool(budget, pool_blocks)
        message += (
            f", or pool_blocks={smaller} with this budget"
            if smaller
            else "; no smaller pool fits this budget"
        )
        raise BudgetError(message)

    def _smaller_pool(self, budget: int, pool_blocks: int) -> int:
        for blocks in range(pool_blocks - 1, 0, -1):
            share = (blocks + 2) / (pool_blocks + 2)  # a pool may hold two short blocks beside its full ones
            smaller = replace(
                self,
                pool_chunks=int(self.pool_chunks * share) + 1,
                pool_samples=int(self.pool_samples * share) + 1,
            )
            if smaller.streamed <= budget:
                return blocks
        return 0
