"""Samples of several sources in fixed shares.

Weights are whole numbers of 65,536. A *schedule* of so many positions, repeated, names the source of each; Tijdeman's
rule (The chairman assignment problem, 1980) keeps the count of every source within one of its share at any position. 16
positions at a time are permuted, so that the place in a batch does not tell the source. Draw ``k`` of a source is
position ``k`` of its own epochs (:mod:`outofcore.order.plain`), one after another, each with an order of its own.

An epoch ends before a source would repeat (``"first"``), or once every source was read whole (``"all"``). Every rank
draws all samples and takes its own: several ranks decode the same chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, Literal, get_args

import numpy as np

from outofcore.checks import one_of, refuse
from outofcore.errors import ParamsError
from outofcore.ndarrays import Bytes, Ints
from outofcore.order.permutation import MASK_64, key, shuffle_runs
from outofcore.order.plain import EpochOrder, PlainSampler, Pools
from outofcore.order.sampling import Pool, PoolLimits, Sampled, Sampler
from outofcore.order.windows import Windows
from outofcore.system.compilation import njit

Stop = Literal["first", "all"]

PLACES = 1 << 16
TOGETHER = 16  # positions that are permuted at a time
MOST_SOURCES = 256
VERSION = 3

_PASS, _TOGETHER = 28, 29  # purpose of a key; those of the other samplers are lower numbers


@dataclass(frozen=True)
class Mixture(Pools):
    """Samples of several sources in fixed shares, of data that are given as a mapping of names to stores.

    Each batch has the number of each sample's source as ``source`` (batch,).

    Parameters
    ----------
    weights
        Shares of the samples by source, such as ``{"lichess": 0.7, "twic": 0.3}``, in 65,536ths.
    stop
        Where an epoch ends: ``"first"``, before a source would repeat; ``"all"``, once every source was read whole,
        others having been repeated.
    """

    weights: Mapping[str, float]
    stop: Stop = "first"

    mixes_sources = True

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("stop", self.stop, get_args(Stop))

    def sampler(self, split: Sampled, seed: int) -> MixtureSampler:
        sources = weigh(self.weights, split.stores_of_sources)
        edges = [0, *accumulate(source.stores for source in sources)]
        windows, chunks = zip(*(split.windows_of(slice(*pair)) for pair in pairwise(edges)), strict=True)
        return MixtureSampler(self, split.windows, sources, windows, chunks, split.chunk_rows, seed)


@dataclass(frozen=True)
class Source:
    """A source of a mixture: one store, or several that are read as one."""

    name: str
    stores: int  # number of its stores, which follow those of the sources before
    share: float  # of the samples, as asked for
    weight: int  # of 65,536

    def share_of(self, blocks: int) -> int:
        """Its blocks of a pool."""
        return -(-blocks * self.weight // PLACES)


def weigh(weights: object, stores: Mapping[str, int]) -> list[Source]:
    """Sources with weights that sum to 65,536, at least 1 each, rounded by the largest remainder."""
    names = list(stores)
    if len(names) > MOST_SOURCES:
        refuse("store", f"at most {MOST_SOURCES} sources", len(names))
    if not isinstance(weights, Mapping) or set(weights) != set(names):
        refuse("weights", f"a weight for each source ({', '.join(names)})", weights)
    exact = {name: _fraction(name, weights[name]) for name in names}
    ideal = [PLACES * exact[name] / sum(exact.values()) for name in names]
    whole = [max(1, int(share)) for share in ideal]
    while rest := PLACES - sum(whole):
        step = 1 if rest > 0 else -1
        movable = [number for number, count in enumerate(whole) if count + step > 0]
        whole[max(movable, key=lambda number: step * (ideal[number] - whole[number]))] += step
    return [
        Source(name, stores[name], float(share / PLACES), count)
        for name, share, count in zip(names, ideal, whole, strict=True)
    ]


def _fraction(name: str, weight: object) -> Fraction:
    try:
        exact = Fraction(str(weight)) if isinstance(weight, int | float | np.number) else Fraction(0)
    except ValueError:  # infinite, or no number
        exact = Fraction(0)
    if isinstance(weight, bool) or exact <= 0:
        refuse(f"weights[{name!r}]", "a number above 0", weight)
    return exact


class MixtureSampler(Sampler):
    """Draws from several sources in fixed shares."""

    def __init__(
        self,
        mixture: Mixture,
        windows: Windows,
        sources: Sequence[Source],
        windows_of_sources: Sequence[Windows],
        chunks_of_sources: Sequence[int],  # that samples are in
        chunk_rows: int,
        seed: int,
    ) -> None:
        self.sources, self.seed, self._stop, self._windows = tuple(sources), seed, mixture.stop, windows
        self._weights = np.array([source.weight for source in sources], np.int64)
        self.schedule = np.zeros(PLACES, np.uint8)
        if len(sources) > 1:
            _assign(self._weights, self.schedule)
        self.plain: list[PlainSampler] = []
        self._chunks = list(chunks_of_sources)
        for source, source_windows in zip(sources, windows_of_sources, strict=True):
            if not source_windows.samples:
                raise ParamsError(f"{source.name}: expected samples, got none")
            pools = replace(mixture, pool_blocks=source.share_of(mixture.pool_blocks))
            self.plain.append(PlainSampler(source_windows, chunk_rows, seed, pools))
        self.first_samples = np.cumsum([0, *(plain.positions for plain in self.plain)])
        ends = [self._draw(number, plain.positions) for number, plain in enumerate(self.plain)]
        lasts = [self._draw(number, plain.positions - 1) + 1 for number, plain in enumerate(self.plain)]
        self._positions = min(ends) if mixture.stop == "first" else max(lasts)
        self.pool_positions = self._pool_length(self.plain)

    @property
    def positions(self) -> int:
        return self._positions

    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        passes, size = _Passes(self, epoch), self.pool_positions
        for begin in range(start // size * size, self.positions, size):
            end = min(begin + size, self.positions)
            yield Pool(begin, end, lambda *_, begin=begin, end=end: passes.samples(begin, end))

    def limits(self, world: int) -> PoolLimits:
        del world
        spans = (2 * self.pool_positions * self._weights // PLACES + TOGETHER).tolist()  # draws of two pools
        pairs = list(zip(spans, self.plain, strict=True))
        chunks = [min(most, plain.span_chunks(span)) for most, (span, plain) in zip(self._chunks, pairs, strict=True)]
        tables = self._windows.bytes + sum(plain.table_bytes for plain in self.plain)
        return PoolLimits(
            access="pools",
            samples=self.pool_positions + sum(span + 2 * plain.pool_samples(1) for span, plain in pairs),
            chunks=sum(-(-count // 2) for count in chunks),  # half of those of two pools
            table_bytes=self.schedule.nbytes + tables,
        )

    def with_pool(self, blocks: int) -> MixtureSampler:
        other = copy(self)
        pairs = zip(self.sources, self.plain, strict=True)
        other.plain = [plain.with_pool(source.share_of(blocks)) for source, plain in pairs]
        other.pool_positions = self._pool_length(other.plain)
        return other

    def describe(self) -> dict[str, Any]:
        return {
            "order": VERSION,  # of mixtures
            "sources": [[source.name, source.stores, source.weight] for source in self.sources],
            "stop": self._stop,
            "schedule": [PLACES, TOGETHER],
            "samples": self.positions,
            "each": [plain.describe() for plain in self.plain],
        }

    def mixing(self, batch_size: int, sequences: int) -> str:
        del batch_size, sequences
        return f"{self.positions:,} samples of {len(self.sources)} sources"

    def report(self) -> list[str]:
        """A line on each source: its share, and how often an epoch reads it."""
        lines = []
        for source, plain, count in zip(self.sources, self.plain, self.drawn(self.positions).tolist(), strict=True):
            line = (
                f"{source.name}: {source.weight / PLACES:.3%} of the samples (asked for {source.share:.3%}), "
                f"{count:,} of {plain.positions:,}, passes {count / plain.positions:.2f}"
            )
            left = plain.positions - count
            lines.append(f"{line}, {left:,} are not reached" if left > 0 else line)
        return lines

    def drawn(self, position: int) -> Ints:
        """Draws from each source before a position, as scheduled."""
        periods, rest = divmod(position, PLACES)
        return np.asarray(periods * self._weights + np.bincount(self.schedule[:rest], minlength=len(self.sources)))

    def _draw(self, source: int, draw_number: int) -> int:
        """The position at which a source has this draw."""
        periods, rest = divmod(draw_number, self.sources[source].weight)
        return periods * PLACES + int(np.flatnonzero(self.schedule == source)[rest])

    def _pool_length(self, plains: Sequence[PlainSampler]) -> int:
        """Positions of a pool: so few that two of them draw from two average pools of a source at most."""
        most = sum(plain.pool_samples(1) for plain in plains) // 2
        for plain, weight in zip(plains, self._weights.tolist(), strict=True):
            pools = -(-(len(plain.blocks(0)) - 1) // plain.pool_blocks)
            if pools > 1:
                most = min(most, plain.positions // pools * PLACES // (2 * weight))
        return max(1, most // TOGETHER) * TOGETHER


class _Passes:
    """The epochs of sources that an epoch draws from, pool after pool; of each source, the last pool is held."""

    def __init__(self, sampler: MixtureSampler, number: int) -> None:
        self._sampler, self._number = sampler, number
        self._orders: dict[int, tuple[int, EpochOrder]] = {}  # by source: the number of its pass, and the order of that
        self._pools: dict[int, tuple[tuple[int, int], Ints]] = {}  # by source: pass and pool, and the pool's samples

    def samples(self, begin: int, end: int) -> Ints:
        """Sample numbers at these positions."""
        sampler = self._sampler
        sources = sampler.schedule[np.arange(begin, end) % PLACES].astype(np.int64)
        # A pool begins with a run of 16, whose key is that of its first position: the order knows no pools.
        start = (key(sampler.seed, self._number, _TOGETHER) + begin) & MASK_64
        shuffle_runs(sources, TOGETHER, np.uint64(start))
        out = np.empty(end - begin, np.int64)
        for source, first_draw in enumerate(sampler.drawn(begin).tolist()):
            positions = np.flatnonzero(sources == source)
            out[positions] = self._draws(source, first_draw, len(positions))
        return out

    def _draws(self, source: int, first_draw: int, draws: int) -> Ints:
        """Sample numbers of so many draws of a source."""
        plain, sample_numbers = self._sampler.plain[source], [np.empty(0, np.int64)]
        while draws > 0:
            pass_number, position = divmod(first_draw, plain.positions)
            if source not in self._orders or self._orders[source][0] != pass_number:
                order = plain.epoch(self._number, key(self._sampler.seed, _PASS, source, pass_number))
                self._orders[source] = pass_number, order
            order = self._orders[source][1]
            pool = order.pool_of(position)
            if source not in self._pools or self._pools[source][0] != (pass_number, pool):
                self._pools[source] = (pass_number, pool), order.samples(pool)
            first = position - order.pool_start(pool)
            sample_numbers.append(self._pools[source][1][first : first + draws])
            first_draw, draws = first_draw + len(sample_numbers[-1]), draws - len(sample_numbers[-1])
        return np.asarray(np.concatenate(sample_numbers) + self._sampler.first_samples[source])


@njit(nogil=True, cache=True)
def _assign(weights: Ints, schedule: Bytes) -> None:
    """Give each place to a source that has fallen behind its share far enough, the one that must have it soonest."""
    places, sources = len(schedule), len(weights)
    counts = np.zeros(sources, np.int64)
    scale = 2 * sources - 2
    for place in range(1, places + 1):
        chosen, soonest = -1, np.int64(0)
        for source in range(sources):
            behind = scale * (place * weights[source] - counts[source] * places)
            if behind < places:
                continue
            # The last place at which it can come without falling behind by more than 1 - 1 / scale.
            due = -((behind + places - scale * places) // (scale * weights[source]))
            if chosen < 0 or due < soonest:
                chosen, soonest = source, due
        schedule[place - 1] = chosen
        counts[chosen] += 1
