"""Samples drawn in proportion to a weight, pool by pool, each lane from its share of the pool's weight.

The epoch visits the blocks in the order of :mod:`outofcore.order.plain`. A pool gets positions in proportion to its
weight; its concatenated rows are cut into lanes of equal weight, and each lane draws one sample per position, from
equal strata of its weight. So the count of a sample differs from its expectation by less than two, and a rank reads
only its own lanes. Weights are integers, to avoid machine-dependent rounding.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from outofcore.checks import whole_or_none, word
from outofcore.errors import ParamsError
from outofcore.ndarrays import Doubles, Ints
from outofcore.order.permutation import deal, key, strata
from outofcore.order.plain import EpochOrder, PlainSampler, Pools, exact_sum, lane_edges
from outofcore.order.sampling import Pool, PoolLimits, Sampled, Sampler

_DRAW, _SHUFFLE = 20, 21  # purpose of a key; those of the order and of windows are lower numbers
_WHOLE = 2**24  # the largest weight as an integer
_SLAB = 1 << 14


@dataclass(frozen=True)
class Weighted(Pools):
    """Draw samples in proportion to a column, with repetition.

    Parameters
    ----------
    column
        A field of the rows or a column of the sequences, non-negative numbers; a window has the weight of its last row.
    samples
        Draws per epoch; None for the number of samples.
    """

    column: str
    samples: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        word("weighted.column", self.column)
        whole_or_none("weighted.samples", self.samples, 1)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def sampler(self, split: Sampled, seed: int) -> WeightedSampler:
        plain = PlainSampler(split.windows, split.chunk_rows, seed, self)
        return WeightedSampler(plain, self, *split.weights_of_rows(self.column))


class WeightedSampler(Sampler):
    """Draws samples by weight, from the pools of plain sampling."""

    def __init__(
        self,
        plain: PlainSampler,
        weighted: Weighted,
        weights_of_rows: Callable[[Ints], Doubles],  # given rows, those of each store ascending
        weights_bytes: int,  # that the function holds if its column is one of the sequences
    ) -> None:
        if plain.windows.phase or plain.windows.packs:
            raise ParamsError("weighted sampling needs windows of consecutive rows without a phase")
        self.plain, self.weighted, self.lanes = plain, weighted, plain.lanes
        self._weigh, self._weights_bytes = weights_of_rows, weights_bytes
        self._largest = max((float(slab.max()) for _, slab in self._slabs()), default=0.0)
        if self._largest <= 0:
            raise ParamsError(f"column {weighted.column!r} has no positive weight")
        self.sums = np.zeros(len(plain.begins) - 1, np.int64)  # of the samples that begin in each chunk
        for samples, slab in self._slabs():
            np.add.at(self.sums, np.searchsorted(plain.begins, samples, "right") - 1, self._count(slab))
        self._total = exact_sum(self.sums)

    @property
    def positions(self) -> int:
        """Draws per epoch."""
        return self.plain.positions if self.weighted.samples is None else self.weighted.samples

    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        order = self.plain.epoch(epoch)
        starts = self._starts(order)
        last = bisect_left(starts, self.positions)  # later ones have no positions
        for pool in range(bisect_right(starts, start, hi=last) - 1, last):
            size = starts[pool + 1] - starts[pool]
            yield Pool(starts[pool], starts[pool + 1], partial(self._draw, order, pool, size))

    def limits(self, world: int) -> PoolLimits:
        """Draws of the heaviest possible pool, and all its chunks: lanes are cut by weight."""
        heaviest = exact_sum(self.plain.heaviest_pool(self.sums))
        # A pool's start is rounded down to a round of the lanes, its end as well, or up to the last position of the
        # epoch: less than two rounds. A rank has one draw more than its share in each of its lanes.
        pool_positions = self.positions * heaviest // self._total + 2 * self.lanes
        return PoolLimits(
            access="pools",
            samples=pool_positions // world + self.lanes,
            chunks=self.plain.pool_chunks(1),
            table_bytes=self.plain.table_bytes + self.sums.nbytes + self._weights_bytes,
            weights=self.plain.pool_samples(1),
            by_sequence=bool(self._weights_bytes),
        )

    def with_pool(self, blocks: int) -> WeightedSampler:
        other = copy(self)
        other.plain = self.plain.with_pool(blocks)
        return other

    def describe(self) -> dict[str, Any]:
        return {**self.plain.describe(), "weighted": [self.weighted.column, self.positions]}

    def mixing(self, batch_size: int, sequences: int) -> str:
        line = self.plain.mixing(batch_size, sequences)
        return f"{self.positions:,} draws by {self.weighted.column}; {line}"

    def note_for_ranks(self, world: int) -> str | None:
        return self.plain.note_for_ranks(world)

    def weights(self, samples: Ints) -> Ints:
        """Integer weight of each sample of a range."""
        return self._count(self._weigh(self.plain.windows.first_rows(samples) + self.plain.windows.length - 1))

    def _starts(self, order: EpochOrder) -> list[int]:
        """Position at which each pool of an epoch begins, and the end."""
        pool_weights = [exact_sum(self.sums[order.chunks(pool)]) for pool in range(order.pools)]
        total, weight_before, starts = sum(pool_weights), 0, []
        for weight in pool_weights:
            start = self.positions // self.lanes * weight_before // total * self.lanes
            starts.append(start if weight_before < total else self.positions)
            weight_before += weight
        return [*starts, self.positions]

    def _draw(self, order: EpochOrder, pool: int, positions: int, rank: int, world: int) -> Ints:
        """Sample numbers of a rank at so many positions of a pool."""
        first_samples, block_samples = order.pool_blocks(pool)
        block_starts = np.cumsum(np.append(0, block_samples))  # in the pool
        weight_ends = np.empty(block_starts[-1], np.int64)  # the only array that is as long as the pool
        for first_sample, size, block_start in zip(first_samples, block_samples, block_starts, strict=False):
            for slab_start in range(0, size, _SLAB):
                slab_stop = min(slab_start + _SLAB, size)
                samples = np.arange(first_sample + slab_start, first_sample + slab_stop, dtype=np.int64)
                weight_ends[block_start + slab_start : block_start + slab_stop] = self.weights(samples)
        np.cumsum(weight_ends, out=weight_ends)
        pool_weight = int(weight_ends[-1])
        lanes_of_rank = range(rank, self.lanes, world)
        edges = [lane_edges(lane, self.lanes, positions) for lane in lanes_of_rank]
        lane_starts = np.cumsum([0, *(last - first for first, last in edges)])
        drawn_weights = np.empty(lane_starts[-1], np.int64)
        for lane, first, last in zip(lanes_of_rank, lane_starts, lane_starts[1:], strict=False):
            low, high = (pool_weight * edge // self.lanes for edge in (lane, lane + 1))
            drawn_weights[first:last] = strata(low, high, last - first, order.seed, order.number, _DRAW, pool, lane)
        sample_numbers = np.searchsorted(weight_ends, drawn_weights, "right")  # in the pool, until the blocks are known
        del weight_ends, drawn_weights
        block_numbers = np.searchsorted(block_starts, sample_numbers, "right") - 1
        sample_numbers += (first_samples - block_starts[:-1])[block_numbers]
        lane_keys = [key(order.seed, order.number, _SHUFFLE, pool, lane) for lane in lanes_of_rank]
        return deal(sample_numbers, lane_starts, lane_keys)

    def _count(self, weights: Doubles) -> Ints:
        mantissa, exponent = math.frexp(self._largest)  # as the reciprocal of a tiny weight is infinite
        return np.asarray(np.rint(np.ldexp(weights, -exponent) * (_WHOLE / mantissa)), np.int64)

    def _slabs(self) -> Iterator[tuple[Ints, Doubles]]:
        """Numbers and weights of all samples, a slab at a time."""
        windows = self.plain.windows
        for start in range(0, windows.samples, _SLAB):
            samples = np.arange(start, min(start + _SLAB, windows.samples), dtype=np.int64)
            weights = self._weigh(windows.first_rows(samples) + windows.length - 1)
            if not np.all((weights >= 0) & (weights < np.inf)):
                raise ParamsError(
                    f"column {self.weighted.column!r} has weights that are negative, infinite or no number"
                )
            yield samples, weights
