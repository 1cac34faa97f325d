"""The order of samples in an epoch: a pure function of (samples, layout, seed, epoch); docs/order.md defines it.

A *block* is the samples that begin in a number of consecutive chunks, so that what a pool reads is a sum over a table
of the chunks: 8 bytes per chunk, and 56 more while an epoch begins. Blocks are permuted, and *pools* of them are in
memory one after another. The samples of a pool are cut into *lanes*, which are permuted and then dealt in turn.

Windows are numbered by their first rows, also those of several sequences (:mod:`outofcore.order.packs`); those that
reach back by their last rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from outofcore.checks import flag, whole, whole_or_none
from outofcore.ndarrays import Ints
from outofcore.order.permutation import deal, draw, key, permutation, scatter
from outofcore.order.sampling import Pool, PoolLimits, Sampled, Sampler, Sampling
from outofcore.order.windows import Windows
from outofcore.system.compilation import kernel

By = Literal["blocks", "full", False]

LANES = 16
MOST_LANES = 4096
VERSION = 2

# A block of windows reads up to one chunk more than it covers: with 4 chunks a block, a quarter more at most. Of a
# selection, chunks may hold few samples.
WINDOW_BLOCK_CHUNKS = 4

_SHIFT, _BLOCKS, _LANE, _FULL = range(4)  # purpose of a key


@dataclass(frozen=True, kw_only=True)
class Pools(Sampling):
    """Blocks of rows, a pool of them in memory at a time.

    Parameters
    ----------
    pool_blocks
        Blocks in memory at a time: how well batches mix.
    block_rows
        Rows of a block, rounded down to whole chunks; None for one chunk, or four with windows or ``where``.
    lanes
        Slices of a pool that are dealt to ranks. Ranks whose number does not divide it get the same batches, but
        several of them read the same chunks: 3 ranks three times as many in all. A multiple of the ranks avoids it.
    turns
        With several parts: batches at random in proportion to ``"size"``, or one of each in ``"turn"``.
    """

    pool_blocks: int = 64
    block_rows: int | None = None
    lanes: int = LANES

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("pool_blocks", self.pool_blocks, 1)
        whole_or_none("block_rows", self.block_rows, 1)
        whole("lanes", self.lanes, 1, MOST_LANES)

    @property
    def by(self) -> By:
        """What is permuted: blocks and the samples of a pool, all samples at once, or nothing."""
        return "blocks"

    def sampler(self, split: Sampled, seed: int) -> Sampler:
        return PlainSampler(split.windows, split.chunk_rows, seed, self)


@dataclass(frozen=True, kw_only=True)
class InOrder(Pools):
    """Samples in the order of the store."""

    @property
    def by(self) -> By:
        return False


@dataclass(frozen=True, kw_only=True)
class Shuffle(Pools):
    """Blocks, and rows inside a pool of blocks, in random order; each sample once per epoch.

    Parameters
    ----------
    full
        A permutation of all samples instead, for residencies that hold or map the split.
    """

    full: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        flag("full", self.full)

    @property
    def by(self) -> By:
        return "full" if self.full else "blocks"


class PlainSampler(Sampler):
    """Every sample once per epoch."""

    def __init__(self, windows: Windows, chunk_rows: int, seed: int, sampling: Pools) -> None:
        self.windows, self.by, self.lanes, self.pool_blocks = windows, sampling.by, sampling.lanes, sampling.pool_blocks
        self.mixed = self.by == "blocks"
        self._seed, self._chunk_rows = seed, chunk_rows
        few = 1 if windows.window is None and not windows.selects else WINDOW_BLOCK_CHUNKS
        self.block_chunks = few if sampling.block_rows is None else max(1, sampling.block_rows // chunk_rows)
        edges = windows.before(np.arange(-(-windows.span // chunk_rows) + 1) * chunk_rows)
        # The first sample of each chunk in which any begins, and the end.
        self.begins = np.append(edges[:-1][edges[1:] > edges[:-1]], windows.samples)

    @property
    def positions(self) -> int:
        return self.windows.samples

    @property
    def table_bytes(self) -> int:
        """Bytes of the table of sequences, that of the chunks, and the blocks of an epoch while these are permuted."""
        return self.windows.bytes + 8 * self.begins.nbytes

    def blocks(self, shift: int) -> Ints:
        """The chunks, of those in which samples begin, at which blocks begin, and the end."""
        count = len(self.begins) - 1
        first = [0] if shift and count else []
        return np.concatenate((first, np.arange(min(shift, count), count, self.block_chunks), [count])).astype(np.int64)

    def epoch(self, number: int, seed: int | None = None) -> EpochOrder:
        """The samples of an epoch, in the order of another seed if one is given."""
        return EpochOrder(self, self._seed if seed is None else seed, number)

    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        order = self.epoch(epoch)
        for pool in range(order.pool_of(start), order.pools):
            yield Pool(order.pool_start(pool), order.pool_start(pool + 1), partial(order.samples, pool))

    def limits(self, world: int) -> PoolLimits:
        return PoolLimits(
            access="anywhere" if self.by == "full" else "pools",
            samples=self.pool_samples(world),
            chunks=self.pool_chunks(world),
            table_bytes=self.table_bytes,
        )

    def with_pool(self, blocks: int) -> PlainSampler:
        other = copy(self)
        other.pool_blocks = blocks
        return other

    def heaviest_pool(self, weights: Ints) -> Ints:
        """The weights of the blocks of the heaviest pool that is possible, from one weight per chunk."""
        shifts = range(self.block_chunks if self.mixed and len(weights) else 1)
        sums = [np.sort(np.add.reduceat(weights, self.blocks(shift)[:-1])) for shift in shifts if len(weights)]
        pools = [blocks if self.by == "full" else blocks[-self.pool_blocks :] for blocks in sums]
        return max(pools, key=exact_sum, default=np.zeros(0, np.int64))

    def pool_samples(self, world: int) -> int:
        """Most samples that one of ``world`` ranks has in a pool."""
        return -(-int(self.heaviest_pool(np.diff(self.begins)).sum()) // world) + self.lanes

    def pool_chunks(self, world: int) -> int:
        """Most chunks of a pool that one of ``world`` ranks needs: those of as many blocks as its lanes can touch."""
        return self._chunks_of_largest(lambda sizes: self._blocks_of_rank(sizes, world))

    def span_chunks(self, positions: int) -> int:
        """Most chunks of all pools that so many positions in succession are in."""
        return self._chunks_of_largest(lambda sizes: self._blocks_within(sizes, positions) + 2 * self.pool_blocks)

    def describe(self) -> dict[str, Any]:
        window = self.windows.window
        return {
            "order": VERSION,
            "samples": self.positions,
            "block_chunks": self.block_chunks,
            "chunk_rows": self._chunk_rows,
            "pool_blocks": self.pool_blocks,
            "shuffle": self.by,
            "window": [window.length, window.stride, window.mode] if window else None,
            "phase": self.windows.phase,
            "lanes": self.lanes,
        }

    def mixing(self, batch_size: int, sequences: int) -> str:
        """How well batches mix, compared with batches drawn from the whole split."""
        if not self.by:
            return "samples in the order of the store"
        draws = min(batch_size, self.positions)
        kinds = len(self.blocks(0)) - 1, max(1, sequences)
        best = [distinct(kind, draws) for kind in kinds]
        blocks_mixed, sequences_mixed = best
        if self.mixed:  # each lane contributes its share of an average pool
            pool = [max(1.0, kind / self.epoch(0).pools) for kind in kinds]
            blocks_mixed, sequences_mixed = (
                self.lanes * distinct(kind / self.lanes, draws / self.lanes) for kind in pool
            )
            blocks_mixed = min(pool[0], blocks_mixed)
        return (
            f"a batch of {batch_size:,} mixes {_counted(sequences_mixed, 'sequence')} in "
            f"{_counted(blocks_mixed, 'block')} ({best[1]:,.0f} in {best[0]:,.0f} if drawn at random)"
        )

    def note_for_ranks(self, world: int) -> str | None:
        if not self.mixed or not self.lanes % world:
            return None
        return (
            f"{world} ranks do not divide {self.lanes} lanes: a chunk is read by up to "
            f"{world // math.gcd(world, self.lanes)} ranks; lanes={world} (another order) would have each read by one"
        )

    def _chunks_of_largest(self, blocks_that_fit: Callable[[Ints], int]) -> int:
        """Most chunks of any b blocks, bounded by the b blocks with most; b is a function of all ascending sizes."""
        if not self.positions:
            return 0
        # First and last chunk of the samples that begin in each chunk, in any phase.
        first_chunks = self.windows.stored(self.windows.first_rows(self.begins[:-1])) // self._chunk_rows
        last_rows = self.windows.first_rows(self.begins[1:] - 1) + self.windows.extent - 1 + self.windows.slack
        last_chunks = np.minimum(last_rows, self.windows.span - 1) // self._chunk_rows
        chunks_by_shift = []
        for shift in range(self.block_chunks if self.mixed else 1):
            block_edges = self.blocks(shift)
            last_chunks_before = np.concatenate(([-1], last_chunks[:-1]))
            last_chunks_before[block_edges[:-1]] = -1
            new_chunks = np.maximum(last_chunks - np.maximum(first_chunks, last_chunks_before + 1) + 1, 0)
            block_chunks = np.sort(np.add.reduceat(new_chunks, block_edges[:-1]))
            block_samples = np.sort(np.diff(self.begins[block_edges]))
            blocks = len(block_chunks) if self.by == "full" else blocks_that_fit(block_samples)
            chunks_by_shift.append(int(block_chunks[-blocks:].sum()))
        return min(max(chunks_by_shift), -(-self.windows.span // self._chunk_rows))

    def _blocks_of_rank(self, block_samples: Ints, world: int) -> int:
        """Most blocks of a pool in the lanes of a rank, from the ascending sizes of all blocks."""
        pool_blocks = min(self.pool_blocks, len(block_samples))
        if world == 1 or not self.mixed:
            return pool_blocks
        lane_samples, lanes_of_rank = -(-int(block_samples[-pool_blocks:].sum()) // self.lanes), self.lanes // world
        inside = self._blocks_within(block_samples, lanes_of_rank * (lane_samples - 2))
        return min(pool_blocks, inside + 2 * lanes_of_rank)  # a lane ends in two blocks

    def _blocks_within(self, block_samples: Ints, samples: int) -> int:
        """Most blocks that lie within so many samples."""
        return int(np.searchsorted(np.cumsum(block_samples), samples, "right"))


class EpochOrder:
    """One epoch of :class:`PlainSampler`."""

    def __init__(self, sampler: PlainSampler, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self._sampler = sampler
        shift = draw(sampler.block_chunks, seed, number, _SHIFT) if sampler.mixed else 0
        self._chunks = sampler.blocks(shift)
        count = len(self._chunks) - 1
        self._order = permutation(count, seed, number, _BLOCKS) if sampler.mixed else np.arange(count, dtype=np.int64)
        self.pools = min(count, 1) if sampler.by == "full" else -(-count // sampler.pool_blocks)
        self._edges = np.arange(self.pools + 1) * count // max(self.pools, 1)

    @cached_property
    def _starts(self) -> Ints:
        """Position at which each pool begins, and the end."""
        sizes = np.diff(self._sampler.begins[self._chunks])[self._order]
        return np.concatenate(([0], np.cumsum(sizes)))[self._edges]

    def pool_start(self, pool: int) -> int:
        return int(self._starts[pool])

    def pool_of(self, position: int) -> int:
        return int(np.searchsorted(self._starts, position, "right")) - 1

    def pool_blocks(self, pool: int) -> tuple[Ints, Ints]:
        """First sample and size of each block of a pool."""
        first, end = (self._sampler.begins[chunks] for chunks in self._pool_chunks(pool))
        return first, end - first

    def chunks(self, pool: int) -> Ints:
        """The chunks, counted among those in which samples begin, of the blocks of a pool."""
        return np.concatenate([np.arange(*pair) for pair in zip(*self._pool_chunks(pool), strict=True)])

    def samples(self, pool: int, rank: int = 0, world: int = 1) -> Ints:
        """Sample numbers of a rank in a pool, in order of position; ``world`` divides the lanes."""
        start, stop = self._starts[pool : pool + 2].tolist()
        first_lane = (rank - start) % world  # of the rank, and its first position in the pool
        if not self._sampler.mixed:
            positions = np.arange(start + first_lane, stop, world, dtype=np.int64)
            if self._sampler.by == "full":
                return scatter(positions, self._sampler.positions, self.seed, self.number, _FULL)
            return positions
        lanes_of_rank = range(first_lane, self._sampler.lanes, world)
        edges = np.array([lane_edges(lane, self._sampler.lanes, stop - start) for lane in lanes_of_rank], np.int64)
        lane_starts = np.concatenate(([0], np.cumsum(edges[:, 1] - edges[:, 0])))
        sample_numbers = np.empty(lane_starts[-1], np.int64)
        _fill(*self.pool_blocks(pool), edges, sample_numbers)
        lane_keys = [key(self.seed, self.number, _LANE, pool, lane) for lane in lanes_of_rank]
        return deal(sample_numbers, lane_starts, lane_keys)

    def _pool_chunks(self, pool: int) -> tuple[Ints, Ints]:
        """The chunk at which each block of a pool begins, and ends."""
        blocks = self._order[slice(*self._edges[pool : pool + 2])]
        return self._chunks[blocks], self._chunks[blocks + 1]


def distinct(kinds: float, draws: float) -> float:
    """Expected number of distinct kinds in this many uniform draws."""
    if kinds <= 1:
        return min(kinds, draws)
    return float(kinds * -np.expm1(draws * np.log1p(-1 / kinds)))


def exact_sum(values: Ints) -> int:
    """A sum that may pass 2**63, of numbers that are not negative."""
    return (int((values >> 32).sum()) << 32) + int((values & (2**32 - 1)).sum())


def lane_edges(lane: int, lanes: int, size: int) -> tuple[int, int]:
    """Start and end of one of ``lanes`` lanes in a pool of ``size`` samples."""
    least, longer = divmod(size, lanes)
    return lane * least + min(lane, longer), (lane + 1) * least + min(lane + 1, longer)


def _counted(count: float, name: str) -> str:
    whole = max(1, round(count))
    return f"{whole:,} {name}{'s' if whole > 1 else ''}"


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
