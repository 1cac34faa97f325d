"""Every sample once per epoch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.loading.order import LANES, VERSION, Cut, EpochOrder, Order, Shuffle
from outofcore.loading.permutation import draw
from outofcore.loading.windows import Windows

Ints = npt.NDArray[np.int64]

# A block of windows reads up to one chunk more than it covers: with 4 chunks a block, a quarter more at most.
WINDOW_BLOCK_CHUNKS = 4
_PHASE = 16  # purpose of a key; those of the order are lower numbers
_SLAB = 1 << 20
_COUNTED = 1 << 22  # most blocks, over all shifts, examined one by one: a tenth of a second


def cut_samples(windows: Windows, chunk_rows: int, shuffle: Shuffle, pool_blocks: int, block_rows: int | None) -> Cut:
    """Blocks that cover whole chunks, from the store's layout if ``block_rows`` is None."""
    if windows.window is None:
        step, rows = chunk_rows, block_rows or chunk_rows
    else:
        # Average samples per chunk, exact for evenly spaced windows.
        step = max(1, round(chunk_rows * windows.samples / max(windows.rows, 1)))
        rows = block_rows or WINDOW_BLOCK_CHUNKS * chunk_rows
    block = max(1, rows * step // chunk_rows)
    return Cut(
        samples=windows.samples,
        block=-(-block // LANES) * LANES,
        step=step,
        pool_blocks=pool_blocks,
        shuffle=shuffle,
    )


@dataclass(frozen=True)
class PlainPlan:
    """One epoch of :class:`Plain`."""

    order: EpochOrder
    windows: Windows
    phase: int

    @property
    def positions(self) -> int:
        """Samples of the epoch."""
        return self.order.cut.samples

    @property
    def pools(self) -> int:
        """Number of pools."""
        return self.order.pools

    def pool_start(self, pool: int) -> int:
        """Position at which a pool begins."""
        return self.order.pool_start(pool)

    def pool_of(self, position: int) -> int:
        """The pool that holds a position."""
        return self.order.pool_of(position)

    def first_rows(self, pool: int, rank: int, world: int) -> Ints:
        """First row of each sample of a rank in a pool."""
        return self.windows.first_rows(self.order.samples(pool, rank, world), self.phase)


class Plain:
    """Every sample once per epoch, in the order of :mod:`outofcore.loading.order`."""

    def __init__(self, windows: Windows, cut: Cut, seed: int, chunk_rows: int) -> None:
        self.windows = windows
        self.cut = cut
        self._order = Order(cut, seed)
        self._chunk_rows = chunk_rows
        self._pool_chunks = cache(self._measure)

    @property
    def positions(self) -> int:
        """Samples per epoch."""
        return self.cut.samples

    @property
    def table_bytes(self) -> int:
        """Bytes of the table of sequences and the permutation of blocks."""
        return self.windows.bytes + 16 * (self.cut.samples // self.cut.block + 2)

    def epoch(self, number: int) -> PlainPlan:
        """The order of one epoch."""
        window = self.windows.window
        phase = draw(window.stride, self._order.seed, number, _PHASE) if window and self.windows.phase else 0
        return PlainPlan(self._order.epoch(number), self.windows, phase)

    def pool_samples(self, world: int) -> int:
        """Most samples that one of ``world`` ranks has in a pool."""
        return -(-min(self.cut.samples, (self.cut.pool_blocks + 2) * self.cut.block) // world) + LANES

    def pool_chunks(self, world: int) -> int:
        """Most chunks that one of ``world`` ranks needs for a pool."""
        everything = -(-self.windows.rows // self._chunk_rows)
        if self.cut.shuffle == "full":
            return everything
        pool, block = self._pool_chunks()
        if self.cut.shuffle is not False and world > 1:
            lane_blocks = -(-self.cut.pool_blocks // LANES) + 1  # a lane may begin and end inside a block
            pool = min(pool, LANES // world * lane_blocks * block)
        return min(pool, everything)

    def describe(self) -> dict[str, Any]:
        """What determines the order apart from the store and the seed."""
        window = self.windows.window
        return {
            "order": VERSION,
            "samples": self.cut.samples,
            "block": self.cut.block,
            "step": self.cut.step,
            "pool_blocks": self.cut.pool_blocks,
            "shuffle": "blocks" if self.cut.shuffle is True else self.cut.shuffle,
            "window": [window.length, window.stride, window.mode] if window else None,
            "phase": self.windows.phase,
        }

    def _measure(self) -> tuple[int, int]:
        """Most chunks of a pool and of a block, over all shifts of an epoch's cut."""
        window = self.windows.window
        blocks = (self.cut.samples // self.cut.block + 2) * len(self.cut.shifts)
        if blocks > _COUNTED and (window is None or window.mode != "never"):
            return self._bound()
        pool = block = 0
        for shift in self.cut.shifts:
            edges = np.arange(shift, self.cut.samples + 1, self.cut.block, dtype=np.int64)
            edges = np.unique(np.concatenate(([0], edges, [self.cut.samples])))
            if len(edges) < 2:
                continue
            counts = self._block_chunks(edges)
            full = np.diff(edges) == self.cut.block
            largest = np.sort(counts[full])[::-1][: self.cut.pool_blocks]
            pool = max(pool, int(largest.sum() + counts[~full].sum()))
            block = max(block, int(counts.max()))
        return pool, block

    def _bound(self) -> tuple[int, int]:
        """The same without examining blocks: the most that evenly spaced windows can touch."""
        window = self.windows.window
        rows = self.cut.block
        if window is not None:
            rows = (self.cut.block - 1) * window.stride + window.length + (window.stride - 1) * self.windows.phase
        aligned = window is None and self.cut.block % self._chunk_rows == 0 and self.cut.step % self._chunk_rows == 0
        block = rows // self._chunk_rows if aligned else (rows - 2) // self._chunk_rows + 2
        return (self.cut.pool_blocks + 2) * block, block

    def _block_chunks(self, edges: Ints) -> Ints:
        """Chunks that the windows of each block touch."""
        window, size = self.windows.window, self._chunk_rows
        slack = window.stride - 1 if window and self.windows.phase else 0
        if window is None or window.mode != "never":
            low = np.maximum(self.windows.first_rows(edges[:-1]), 0) // size
            high = (self.windows.first_rows(edges[1:] - 1) + self.windows.length - 1 + slack) // size
            return np.asarray(np.minimum(high, (self.windows.rows - 1) // size) - low + 1)
        counts = []
        each = max(1, _SLAB // self.cut.block)
        for begin in range(0, len(edges) - 1, each):
            own = edges[begin : begin + each + 1]
            first = self.windows.first_rows(np.arange(own[0], own[-1], dtype=np.int64))
            low, high = first // size, (first + self.windows.length - 1 + slack) // size
            new = high - np.maximum(low - 1, np.concatenate(([-1], high[:-1])))
            starts = own[:-1] - own[0]
            new[starts] = high[starts] - low[starts] + 1
            counts.append(np.add.reduceat(new, starts))
        return np.concatenate(counts)
