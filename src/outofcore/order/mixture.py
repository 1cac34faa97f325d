"""Samples of several sources in fixed shares.

Weights are whole numbers of 65,536. A *schedule* of so many places names the source of each place; Tijdeman's rule (The
chairman assignment problem, 1980) keeps the count of every source within one of its share at any place. Each of the
lanes follows the schedule from a place of its own, and permutes 16 places at a time, so that the place in a batch does
not tell the source. What lane ``l`` draws from a source are the samples of its lane ``l`` in the order of
:mod:`outofcore.order.plain`, then, in a second pass with an order of its own, those of lane ``l + 1``, and so on:
lanes differ in size by one sample, and all draw from the larger ones equally often.

An epoch ends before a source would repeat (``"first"``), or once every source was read whole (``"all"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from outofcore.checks import refuse
from outofcore.errors import ParamsError
from outofcore.ndarrays import Bytes, Ints
from outofcore.order.permutation import key, shuffle_runs
from outofcore.order.plain import LANES, VERSION, EpochOrder, PlainSampler
from outofcore.order.sampling import Pool, PoolLimits, Sampler
from outofcore.order.windows import Windows
from outofcore.system.compilation import njit

Stop = Literal["first", "all"]

PLACES = 1 << 16
TOGETHER = 16  # places that are permuted at a time
MOST_SOURCES = 256
MOST_LANES = PLACES // TOGETHER  # each begins at a multiple of TOGETHER

_PASS, _TOGETHER = 28, 29  # purpose of a key; those of the other samplers are lower numbers
_APART = 16  # draws by which a lane may be ahead of another in a source


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

    access = "pools"

    def __init__(
        self,
        windows: Windows,
        sources: Sequence[Source],
        windows_of_sources: Sequence[Windows],
        chunks_of_sources: Sequence[int],  # that samples are in
        chunk_rows: int,
        stop: Stop,
        seed: int,
        pool_blocks: int,
        block_rows: int | None,
        lanes: int = LANES,
    ) -> None:
        if MOST_LANES % lanes:
            refuse("lanes", f"a divisor of {MOST_LANES}, where sources are mixed by weights", lanes)
        self.lanes = lanes
        self.sources = tuple(sources)
        self.seed = seed
        self._stop = stop
        self._windows = windows
        self._weights = np.array([source.weight for source in sources], np.int64)
        self.schedule = np.zeros(PLACES, np.uint8)
        if len(sources) > 1:
            _assign(self._weights, self.schedule)
        # Places of each source before every multiple of TOGETHER.
        counts = np.zeros((PLACES // TOGETHER + 1, len(sources)), np.int64)
        for number in range(len(sources)):
            counts[1:, number] = (self.schedule == number).reshape(-1, TOGETHER).sum(1)
        self._before = np.cumsum(counts, axis=0)
        self.plain: list[PlainSampler] = []
        self._chunks = list(chunks_of_sources)
        for source, source_windows in zip(sources, windows_of_sources, strict=True):
            if source_windows.samples < lanes:
                raise ParamsError(f"{source.name}: expected {lanes} samples or more, got {source_windows.samples}")
            layout: Any = {"pool_blocks": source.share_of(pool_blocks), "block_rows": block_rows, "lanes": lanes}
            self.plain.append(PlainSampler(source_windows, chunk_rows, seed, shuffle="blocks", **layout))
        self.first_samples = np.cumsum([0, *(plain.positions for plain in self.plain)])
        self.places = self._length()
        self.pool_places = self._pool_length(self.plain)

    @property
    def positions(self) -> int:
        return self.lanes * self.places

    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        passes = _Passes(self, epoch)
        for begin in range(start // self.lanes // self.pool_places * self.pool_places, self.places, self.pool_places):
            end = min(begin + self.pool_places, self.places)
            yield Pool(self.lanes * begin, self.lanes * end, partial(passes.samples, begin, end))

    def limits(self, world: int) -> PoolLimits:
        spans, drawn, chunks = self._spans(), 0, 0
        for span, plain, own_chunks in zip(spans, self.plain, self._chunks, strict=True):
            drawn += span // world + 2 * plain.pool_samples(world)  # samples of the source's pools
            chunks += -(-min(own_chunks, plain.span_chunks(span, world)) // 2)  # half of those of two pools
        tables = self._windows.bytes + sum(plain.table_bytes for plain in self.plain)
        return PoolLimits(
            samples=self.lanes * self.pool_places // world + drawn,
            chunks=chunks,
            table_bytes=self.schedule.nbytes + self._before.nbytes + tables,
        )

    def with_pool(self, blocks: int) -> MixtureSampler:
        other = copy(self)
        pairs = zip(self.sources, self.plain, strict=True)
        other.plain = [plain.with_pool(source.share_of(blocks)) for source, plain in pairs]
        other.pool_places = self._pool_length(other.plain)
        return other

    def describe(self) -> dict[str, Any]:
        return {
            "order": VERSION,
            "sources": [[source.name, source.stores, source.weight] for source in self.sources],
            "stop": self._stop,
            "schedule": [PLACES, TOGETHER, self.pool_places],
            "samples": self.positions,
            "each": [plain.describe() for plain in self.plain],
        }

    def mixing(self, batch_size: int, sequences: int) -> str:
        del batch_size, sequences
        return f"{self.positions:,} samples of {len(self.sources)} sources"

    def report(self) -> list[str]:
        """A line on each source: its share, and how often an epoch reads it."""
        lines = []
        for number, (source, plain) in enumerate(zip(self.sources, self.plain, strict=True)):
            drawn = [self._count(lane, number) for lane in range(self.lanes)]
            left = sum(max(0, plain.lane_size(lane) - count) for lane, count in enumerate(drawn))
            line = (
                f"{source.name}: {source.weight / PLACES:.3%} of the samples (asked for {source.share:.3%}), "
                f"{sum(drawn):,} of {plain.positions:,}, passes {sum(drawn) / plain.positions:.2f}"
            )
            lines.append(f"{line}, {left:,} are not reached" if left else line)
        return lines

    def drawn(self, lane: int, place: int) -> Ints:
        """Draws from each source before a place of a lane, a multiple of 16."""
        start = lane * PLACES // self.lanes
        counts = []
        for end in (start, start + place):
            periods, rest = divmod(end, PLACES)
            counts.append(periods * self._weights + self._before[rest // TOGETHER])
        return np.asarray(counts[1] - counts[0])

    def at(self, lane: int, begin: int, end: int) -> Ints:
        """The sources of a lane's places, as scheduled."""
        start = lane * PLACES // self.lanes
        return self.schedule[np.arange(start + begin, start + end) % PLACES].astype(np.int64)

    def _count(self, lane: int, source: int) -> int:
        """Draws from a source in the lane of an epoch."""
        whole = self.places // TOGETHER * TOGETHER
        rest = self.at(lane, whole, self.places)
        return int(self.drawn(lane, whole)[source]) + int(np.count_nonzero(rest == source))

    def _length(self) -> int:
        """Places per lane, the same in all."""
        ends = []
        for number, plain in enumerate(self.plain):
            where, weight = np.flatnonzero(self.schedule == number), self.sources[number].weight
            for lane in range(self.lanes):
                start = lane * PLACES // self.lanes
                last = int(self._before[start // TOGETHER][number]) + plain.lane_size(lane) - 1
                if self._stop == "first":
                    last += 1
                periods, rest = divmod(last, weight)
                ends.append(periods * PLACES + int(where[rest]) - start + (self._stop == "all"))
        return min(ends) if self._stop == "first" else max(ends)

    def _pool_length(self, plains: Sequence[PlainSampler]) -> int:
        """Places per lane in a pool: so few that two of them draw from two average pools of a source at most."""
        most = sum(plain.pool_samples(1) for plain in plains) // self.lanes // 2
        for plain, weight in zip(plains, self._weights.tolist(), strict=True):
            if plain.pool_count > 1:
                most = min(most, (plain.positions // plain.pool_count // self.lanes - _APART) * PLACES // (2 * weight))
        return max(1, most // TOGETHER) * TOGETHER

    def _spans(self) -> list[int]:
        """Positions of each source that two pools in succession draw, from the first to the last of all lanes."""
        return [self.lanes * (2 * self.pool_places * weight // PLACES + _APART) for weight in self._weights.tolist()]


class _Passes:
    """The passes through sources that an epoch draws from, with the orders and samples that its last pool used."""

    def __init__(self, sampler: MixtureSampler, number: int) -> None:
        self._sampler = sampler
        self._number = number
        self._orders: dict[tuple[int, ...], EpochOrder] = {}
        self._samples: dict[tuple[int, ...], Ints] = {}

    def samples(self, begin: int, end: int, rank: int, world: int) -> Ints:
        """Sample numbers of a rank at these places of the lanes."""
        sampler, orders, before = self._sampler, self._orders, self._samples
        self._orders, self._samples = {}, {}
        lanes = range(rank, sampler.lanes, world)
        out = np.empty((end - begin, len(lanes)), np.int64)
        pool = begin // sampler.pool_places
        for column, lane in enumerate(lanes):
            sources = sampler.at(lane, begin, end)
            shuffle_runs(sources, TOGETHER, np.uint64(key(sampler.seed, self._number, _TOGETHER, pool, lane)))
            drawn = sampler.drawn(lane, begin).tolist()
            for source, first in enumerate(drawn):
                where = np.flatnonzero(sources == source)
                out[where, column] = self._draws(source, lane, first, len(where), world, orders, before)
        return np.asarray(out.reshape(-1))

    def _draws(
        self,
        source: int,
        lane: int,
        first: int,
        count: int,
        world: int,
        orders: dict[tuple[int, ...], EpochOrder],
        before: dict[tuple[int, ...], Ints],
    ) -> Ints:
        """Samples of a source: draws ``first`` to ``first + count`` of a lane."""
        sampler, plain, drawn = self._sampler, self._sampler.plain[source], [np.empty(0, np.int64)]
        lanes = sampler.lanes
        ends = np.cumsum([plain.lane_size((lane + turn) % lanes) for turn in range(lanes)])
        while count > 0:
            rounds, draw = divmod(first, plain.positions)
            turn = int(np.searchsorted(ends, draw, "right"))
            element = draw - (int(ends[turn - 1]) if turn else 0)
            own_lane = (lane + turn) % lanes
            number = rounds * lanes + turn  # of the pass
            if (source, number) not in self._orders:
                seed = key(sampler.seed, _PASS, source, number)
                known = orders.get((source, number))
                self._orders[source, number] = known or plain.epoch(self._number, seed)
            order = self._orders[source, number]
            pool = order.pool_of(element * lanes + own_lane)
            rank, begin = own_lane % world, order.pool_start(pool)
            name = (source, number, pool, rank)
            if name not in self._samples:
                self._samples[name] = before[name] if name in before else order.samples(pool, rank, world)
            # The lane of a position in the epoch is another one in the pool, which begins anywhere.
            own = self._samples[name][((own_lane - begin) % lanes - (rank - begin) % world) // world :: lanes // world]
            start = element + (own_lane - begin) // lanes
            drawn.append(own[start : start + count])
            first, count = first + len(drawn[-1]), count - len(drawn[-1])
        return np.asarray(np.concatenate(drawn) + sampler.first_samples[source])


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
