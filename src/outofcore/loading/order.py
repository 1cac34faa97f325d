"""The order of samples in an epoch: a pure function of (samples, layout, seed, epoch), never held as a whole.

Sample numbers are cut into *blocks* of consecutive samples. Each epoch shifts the cut by a multiple of a chunk's
samples, so there are up to two short blocks, different in each epoch. The full blocks are permuted (more than
1,048,576 by a keyed bijection, computed on demand); the short ones come last. *Pools* of blocks are in memory one after
another. They are balanced: of ``ceil(full / pool_blocks)`` pools, every one but the last holds ``q`` or ``q +
1`` units of blocks, the larger ones first, and the last one the rest and the short blocks; so where a pool begins is a
product, and the last is never tiny. A unit is as many blocks as the largest divisor of the number of lanes by which
``pool_blocks`` can be divided into at least four: with the usual 16 lanes and 64 blocks, pools hold multiples of 16.

A pool's blocks, end to end, are cut into L = 16 *lanes*, equal contiguous slices (sizes differ by at most one, the
longer first), each permuted by a key of (seed, epoch, pool, lane). Position ``p`` of the pool is element ``p // L`` of
lane ``p % L``. All pools but the last hold a multiple of L samples, so the lane of position ``g`` in the epoch is
``g % L``. With W ranks, rank r takes the positions with ``g % W == r``. Where W divides L, these are the lanes r, r +
W, ..., which hold blocks that no other rank reads. Otherwise they lie in the lanes r, r + d, ... with d the greatest
common divisor of W and L, each read by W / d ranks.

Windows are numbered by their first rows, also those of several sequences (:mod:`outofcore.loading.packs`).

Without shuffling, position g is sample g. With ``"full"``, a keyed bijection sends position g to its sample.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from outofcore.errors import ParamsError
from outofcore.loading.permutation import deal, draw, key, permutation, scatter
from outofcore.loading.windows import Windows
from outofcore.system.compilation import kernel

Ints = npt.NDArray[np.int64]
Shuffle = Literal["blocks", "full"] | bool

Access = Literal["pools", "recurring", "anywhere"]
"""How chunks are used: pool by pool, each once per epoch; again and again; or all at any time."""

LANES = 16
VERSION = 1

HELD_BLOCKS = 1 << 20
"""Up to this many blocks, their permutation is held (8 MiB); beyond, places are computed when needed."""

# A block of windows reads up to one chunk more than it covers: with 4 chunks a block, a quarter more at most.
WINDOW_BLOCK_CHUNKS = 4

_COUNTED = 1 << 22  # most blocks, over all shifts, examined one by one: a tenth of a second
_SHIFT, _BLOCKS, _LANE, _FULL = range(4)  # purpose of a key


class Epoch(Protocol):
    """The samples of one epoch, over all ranks, pool by pool."""

    @property
    def pools(self) -> int:
        """Number of pools."""
        ...

    def pool_start(self, pool: int) -> int:
        """Position at which a pool begins; for ``pools``, the end of the epoch."""
        ...

    def pool_of(self, position: int) -> int:
        """The pool that holds a position."""
        ...

    def samples(self, pool: int, rank: int, world: int) -> Ints:
        """Sample numbers at positions p of a pool with ``p % world == rank``; ``world`` divides the lanes."""
        ...


class Sampler(ABC):
    """A way of sampling a split."""

    access: Access = "pools"
    source_count = 1
    of_sequences = False  # whether samples are drawn by a column of the sequences
    pool_weights = 0  # most weights that are read to draw the samples of a pool

    @property
    @abstractmethod
    def positions(self) -> int:
        """Samples per epoch."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Lanes to which positions are dealt in turn."""

    @property
    @abstractmethod
    def table_bytes(self) -> int:
        """Bytes held throughout."""

    @abstractmethod
    def epoch(self, number: int) -> Epoch:
        """The samples of one epoch."""

    @abstractmethod
    def pool_chunks(self, world: int) -> int:
        """Most chunks that one of ``world`` ranks, a divisor of the lanes, needs for a pool."""

    @abstractmethod
    def pool_samples(self, world: int) -> int:
        """Most samples that one of ``world`` ranks, a divisor of the lanes, has in a pool."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What determines the order apart from store and seed, compared with that of a saved state."""

    def report(self) -> list[str]:
        """Lines for the user."""
        return []


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How samples are cut into blocks and pools; part of an order's definition."""

    samples: int  # number of samples, N
    block: int  # samples per full block, a multiple of the lanes
    step: int  # about the samples per chunk; the cut moves by multiples of it from epoch to epoch
    pool_blocks: int  # most full blocks per pool
    shuffle: Shuffle  # "blocks" (or True), "full", or False
    lanes: int = LANES

    def __post_init__(self) -> None:
        if self.shuffle not in ("blocks", "full", True, False):
            message = f'shuffle must be "blocks", "full", True or False, got {self.shuffle!r}'
            raise ParamsError(message)
        if self.block < self.lanes or self.block % self.lanes:
            message = f"block must be a positive multiple of {self.lanes} samples, got {self.block}"
            raise ParamsError(message)
        if self.pool_blocks < 1 or self.step < 1 or self.samples < 0:
            message = "pool_blocks and step must be positive, and samples not negative"
            raise ParamsError(message)

    @property
    def shifts(self) -> range:
        """Possible shifts of an epoch's cut, in samples."""
        moves = self.shuffle in ("blocks", True) and self.samples > self.block
        return range(0, self.block if moves else 1, self.step)

    def epoch(self, seed: int, number: int) -> EpochOrder:
        shift = self.step * draw(len(self.shifts), seed, number, _SHIFT) if len(self.shifts) > 1 else 0
        return EpochOrder(self, seed, number, shift)


@dataclass(frozen=True)
class EpochOrder:
    """The order of one epoch, pool by pool; ``shift`` samples precede the first full block."""

    cut: Cut
    seed: int
    number: int
    shift: int

    @cached_property
    def _held(self) -> Ints:
        """The full blocks in the order in which pools hold them."""
        return permutation(self.full_blocks, self.seed, self.number, _BLOCKS)

    def _full(self, begin: int, end: int) -> Ints:
        """The full blocks at places ``begin`` to ``end`` of that order."""
        places = np.arange(begin, min(end, self.full_blocks), dtype=np.int64)
        if self.cut.shuffle not in ("blocks", True):
            return places
        if self.full_blocks > HELD_BLOCKS:
            return scatter(places, self.full_blocks, self.seed, self.number, _BLOCKS)
        return self._held[places]

    def _short(self) -> list[tuple[int, int]]:
        """First sample and size of the short blocks."""
        lead = min(self.shift, self.cut.samples)
        tail = lead + self.cut.block * self.full_blocks
        return [(start, count) for start, count in ((0, lead), (tail, self.cut.samples - tail)) if count]

    @property
    def full_blocks(self) -> int:
        """Number of blocks that are not short."""
        return max(self.cut.samples - self.shift, 0) // self.cut.block

    @property
    def pools(self) -> int:
        """Number of pools; at least one if there are samples."""
        return max(1, -(-self.full_blocks // self.cut.pool_blocks)) if self.cut.samples else 0

    def pool_start(self, pool: int) -> int:
        """Position at which a pool begins; for the number of pools, the end of the epoch."""
        return self.cut.samples if pool >= self.pools else self._first_block(pool) * self.cut.block

    def pool_of(self, position: int) -> int:
        units, larger = divmod(self.full_blocks // self._unit, self.pools)
        block = position // (self._unit * self.cut.block)
        pool = block // (units + 1)
        if pool >= larger:
            pool = larger + (block - larger * (units + 1)) // max(units, 1)
        return min(pool, self.pools - 1)

    def pool_blocks(self, pool: int) -> tuple[Ints, Ints]:
        """First sample and size of each block of a pool."""
        last = pool + 1 == self.pools
        end = self.full_blocks if last else self._first_block(pool + 1)
        starts = min(self.shift, self.cut.samples) + self.cut.block * self._full(self._first_block(pool), end)
        short = np.array(self._short() if last else [], np.int64).reshape(-1, 2)
        sizes = np.concatenate((np.full(len(starts), self.cut.block, np.int64), short[:, 1]))
        return np.concatenate((starts, short[:, 0])), sizes

    def samples(self, pool: int, rank: int = 0, world: int = 1) -> Ints:
        """Sample numbers of a rank in a pool, in order of position; ``world`` divides the lanes."""
        start, stop = self.pool_start(pool), self.pool_start(pool + 1)
        if self.cut.shuffle not in ("blocks", True):
            positions = np.arange(start + (rank - start) % world, stop, world, dtype=np.int64)
            if self.cut.shuffle == "full":
                return scatter(positions, self.cut.samples, self.seed, self.number, _FULL)
            return positions
        lanes = range(rank, self.cut.lanes, world)
        edges = np.array([lane_edges(lane, self.cut.lanes, stop - start) for lane in lanes], np.int64)
        keys = [key(self.seed, self.number, _LANE, pool, lane) for lane in lanes]
        bounds = np.concatenate(([0], np.cumsum(edges[:, 1] - edges[:, 0])))
        return deal(self._lay(pool, edges, int(bounds[-1])), bounds, keys)

    def _first_block(self, pool: int) -> int:
        units, larger = divmod(self.full_blocks // self._unit, self.pools)
        return (pool * units + min(pool, larger)) * self._unit

    @property
    def _unit(self) -> int:
        if self.pools == 1:
            return 1
        lanes = self.cut.lanes
        return next(
            unit
            for unit in range(lanes, 0, -1)
            if unit == 1 or (lanes % unit == 0 and self.cut.pool_blocks % (4 * unit) == 0)
        )

    def _lay(self, pool: int, edges: Ints, count: int) -> Ints:
        """The samples between pairs of edges in a pool's concatenated blocks."""
        out = np.empty(count, np.int64)
        _fill(*self.pool_blocks(pool), edges, out)
        return out


def cut_samples(
    windows: Windows, chunk_rows: int, shuffle: Shuffle, pool_blocks: int, block_rows: int | None, lanes: int = LANES
) -> Cut:
    """Blocks that cover whole chunks, from the store's layout if ``block_rows`` is None, and divide into lanes."""
    if windows.window is None and not windows.selects:
        step, rows = chunk_rows, block_rows or chunk_rows
    else:
        # Average samples per chunk, exact for evenly spaced windows; of selected ones, per chunk that holds any.
        read = len(windows.chunks(chunk_rows)) * chunk_rows if windows.selects else windows.rows
        step = max(1, round(chunk_rows * windows.samples / max(read, 1)))
        rows = block_rows or WINDOW_BLOCK_CHUNKS * chunk_rows
    block = max(1, rows * step // chunk_rows)
    block = -(-block // LANES) * LANES
    return Cut(
        samples=windows.samples,
        block=math.lcm(block, lanes),  # still of whole chunks
        step=step,
        pool_blocks=pool_blocks,
        shuffle=shuffle,
        lanes=lanes,
    )


class PlainSampler(Sampler):
    """Every sample once per epoch."""

    def __init__(self, windows: Windows, cut: Cut, seed: int, chunk_rows: int) -> None:
        self.windows = windows
        self.cut = cut
        self.access = "anywhere" if cut.shuffle == "full" else "pools"  # "full" permutes all samples at once
        self._seed = seed
        self._chunk_rows = chunk_rows

    @property
    def positions(self) -> int:
        return self.cut.samples

    @property
    def lanes(self) -> int:
        return self.cut.lanes

    @property
    def table_bytes(self) -> int:
        """Bytes of the table of sequences and the permutation of blocks."""
        return self.windows.bytes + 16 * (self.cut.samples // self.cut.block + 2)

    def epoch(self, number: int) -> EpochOrder:
        return self.cut.epoch(self._seed, number)

    def pool_samples(self, world: int) -> int:
        return -(-min(self.cut.samples, (self.cut.pool_blocks + 2) * self.cut.block) // world) + self.lanes

    def pool_chunks(self, world: int) -> int:
        """Most chunks that one of ``world`` ranks needs for a pool."""
        everything = -(-self.windows.span // self._chunk_rows)
        if self.cut.shuffle == "full":
            return everything
        pool, block = self._most_chunks
        if self.cut.shuffle is not False and world > 1:
            lane_blocks = -(-self.cut.pool_blocks // self.lanes) + 1  # a lane may begin and end inside a block
            pool = min(pool, self.lanes // world * lane_blocks * block)
        return min(pool, everything)

    def describe(self) -> dict[str, Any]:
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
            **({"lanes": self.lanes} if self.lanes != LANES else {}),
        }

    @cached_property
    def _most_chunks(self) -> tuple[int, int]:
        """Most chunks of a pool and of a block, over all shifts of an epoch's cut."""
        if self.cut.shuffle is False and self.cut.samples:  # neighbouring blocks share chunks
            order = self.epoch(0)
            starts = np.array([order.pool_start(pool) for pool in range(order.pools + 1)], np.int64)
            most = int(self.windows.block_chunks(starts, self._chunk_rows).max())
            return most, most
        window = self.windows.window
        blocks = (self.cut.samples // self.cut.block + 2) * len(self.cut.shifts)
        if blocks > _COUNTED and not self.windows.selects and (window is None or not window.by_sequence):
            return self._bound()
        pool = block = 0
        for shift in self.cut.shifts:
            edges = np.arange(shift, self.cut.samples + 1, self.cut.block, dtype=np.int64)
            edges = np.unique(np.concatenate(([0], edges, [self.cut.samples])))
            if len(edges) < 2:
                continue
            counts = self.windows.block_chunks(edges, self._chunk_rows)
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
        more = 2 * (self.windows.runs - 1)  # where a run begins in the middle of a block
        return (self.cut.pool_blocks + 2) * block + more, block + more


def lane_edges(lane: int, lanes: int, size: int) -> tuple[int, int]:
    """Start and end of one of ``lanes`` lanes in a pool of ``size`` samples."""
    each, longer = divmod(size, lanes)
    return lane * each + min(lane, longer), (lane + 1) * each + min(lane + 1, longer)


@kernel
def _fill(starts: Ints, sizes: Ints, edges: Ints, out: Ints) -> None:
    place = 0
    for slice_ in range(len(edges)):
        before = 0
        for block in range(len(starts)):
            first = max(edges[slice_, 0] - before, 0)
            last = min(edges[slice_, 1] - before, sizes[block])
            for offset in range(first, last):
                out[place] = starts[block] + offset
                place += 1
            before += sizes[block]
