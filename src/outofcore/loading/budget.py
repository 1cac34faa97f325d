"""The memory that a loader will hold, checked against a budget before a row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outofcore.errors import BudgetError, ParamsError
from outofcore.sizes import format_bytes, parse_bytes

LEAST_BATCHES = 2  # one for the consumer, one being made
READY_GROUPS = 2  # in addition to one per thread: one used by the consumer, one ready
GROUP_BYTES = 8 << 20  # takes about a millisecond to make, long compared with handing it over
GROUP_BATCHES = 64
# Bytes held per byte of a batch in flight, if there is room for more than the fewest: buffers
# that a thread has freed stay with its part of the allocator. Measured: 2.8 with one such part, 3.3 with eight threads.
RETAINED = 4


def budget_bytes(memory: str | int) -> int:
    """Bytes of a budget such as ``"256MiB"``; raises ParamsError if invalid."""
    try:
        return parse_bytes(memory)
    except ValueError as error:
        message = f"memory: {error}"
        raise ParamsError(message) from error


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Least memory that a loader must hold."""

    chunk: int  # decoded bytes of one chunk of all fields
    chunks: int  # of the split
    pool_chunks: int  # most chunks per pool; two pools are held, one consumed and one being read
    pool_samples: int  # most samples per pool; 8 bytes each for their order, twice that while it is made
    batch: int  # bytes of one batch: its rows as stored, and its tensors
    together: int  # batches made at once
    tables: int  # bytes of sequences, permutations and chunk indexes
    threads: int  # each holds one encoded chunk

    @property
    def fixed(self) -> int:
        """Bytes of everything but pools and kept chunks, with the fewest batches in flight."""
        return self.tables + self.threads * self.chunk + 5 * 8 * self.pool_samples + LEAST_BATCHES * self.batch

    @property
    def slots(self) -> int:
        """Chunks of two pools, or of the whole split if that is less."""
        return min(2 * self.pool_chunks, self.chunks)

    @property
    def streamed(self) -> int:
        """Least bytes for streaming."""
        return self.fixed + self.slots * self.chunk

    @property
    def whole(self) -> int:
        """Least bytes for holding the whole split."""
        return self.fixed + self.chunks * self.chunk

    def spare(self, budget: int, held: int) -> int:
        """Bytes of a budget left after ``held`` chunks and the fewest batches in flight."""
        return max(0, budget - self.fixed - held * self.chunk)

    def keep(self, budget: int) -> int:
        """Chunks that can stay in memory in addition to two pools and the batches in flight."""
        groups = (self.threads + READY_GROUPS) * self.together * self.batch
        return max(0, min((budget - self.streamed - groups) // self.chunk, self.chunks))

    def in_flight(self, spare: int) -> tuple[int, int]:
        """Groups in flight and batches per group, within what pools and kept chunks leave."""
        batches = LEAST_BATCHES + spare // max(RETAINED * self.batch, 1)
        groups = min(self.threads + READY_GROUPS, batches)
        return groups, max(1, min(self.together, batches // groups))

    def with_pool(self, blocks: int, instead_of: int) -> Needs:
        """The same needs with a smaller pool."""
        share = (blocks + 2) / (instead_of + 2)  # a pool may hold two short blocks in addition to its full ones
        return replace(
            self,
            pool_chunks=int(self.pool_chunks * share) + 1,
            pool_samples=int(self.pool_samples * share) + 1,
        )


def batches_together(batch: int) -> int:
    """Number of batches of this size to make at once."""
    return max(1, min(GROUP_BYTES // max(batch, 1), GROUP_BATCHES))


def divide(budget: int, needs: Sequence[Needs]) -> list[int]:
    """Divide a budget among splits that are read together.

    Each gets what streaming needs; the rest goes to the smallest first, so that it can be held whole, then to the
    others in the same order.
    """
    shares = [each.streamed for each in needs]
    left = max(0, budget - sum(shares))
    for number in sorted(range(len(needs)), key=lambda number: needs[number].whole):
        more = min(left, max(0, needs[number].whole - shares[number]))
        shares[number] += more
        left -= more
    return [share + left // len(needs) for share in shares] if left else shares


def prove(budget: int, needs: Sequence[Needs], pool_blocks: int) -> None:
    """Raise BudgetError if a budget is too small to stream all splits that are read together.

    The error names the smallest budget that works and the smaller pool that would fit.
    """
    least = sum(each.streamed for each in needs)
    if least <= budget:
        return
    smaller = next(
        (
            blocks
            for blocks in range(pool_blocks - 1, 0, -1)
            if sum(each.with_pool(blocks, pool_blocks).streamed for each in needs) <= budget
        ),
        0,
    )
    pools = sum(each.slots * each.chunk for each in needs)
    what = f"two pools of {pool_blocks} blocks" + (f" for each of {len(needs)} parts" if len(needs) > 1 else "")
    message = (
        f"a memory budget of {format_bytes(budget)} is too small: {what} take {format_bytes(pools)}, batches in "
        f"flight, order and tables {format_bytes(least - pools)}; the least that works is {format_bytes(least)}"
    )
    message += f", or pool_blocks={smaller} with this budget" if smaller else "; no smaller pool fits this budget"
    raise BudgetError(message)
