"""Batches of groups x entries x rows: some players, some games of each, some positions of each.

An *entry* is an arithmetic progression of rows that belongs to a group (the positions of a game in which its player is
to move). Permutations of all groups follow each other, so that each is seen equally often; when a group comes, the
next of its entries are taken, in an order in which neighbours in the store stay near one another: 2 blocks of about 32
entries are mixed at a time, so that a batch reads a few chunks a group and not one a game. Rows are spread over an
entry, one drawn from each of as many stretches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from outofcore.errors import ParamsError
from outofcore.loading.permutation import GOLDEN, key, local_permutation, shuffle
from outofcore.loading.windows import Windows

Ints = npt.NDArray[np.int64]

_GROUPS, _ENTRIES, _ROWS = 24, 25, 26  # what a key is for; those of the other samplers lie below
_NEAR = 32  # entries of a block
_BLOCKS = 2  # blocks that are mixed at a time


@dataclass(frozen=True, eq=False)
class Balanced:
    """What batches of groups are drawn from, and their shape.

    Attributes
    ----------
    group, first, count, step
        Of each entry, int64 (entries,): the group that it belongs to, its first row, how many rows it has, and how far
        apart they are.
    groups, entries, rows
        Groups of a batch, entries of each, rows of each. A batch holds ``groups * entries * rows`` samples, entry after
        entry, group after group.
    batches
        Batches of an epoch; None for as many as show each entry once, on the average.
    """

    group: Ints
    first: Ints
    count: Ints
    step: Ints
    groups: int
    entries: int
    rows: int
    batches: int | None = None

    @property
    def size(self) -> int:
        """Samples of a batch."""
        return self.groups * self.entries * self.rows


class BalancedSampler:
    """Draws batches of groups.

    Parameters
    ----------
    balanced
        What to draw.
    windows
        The samples: single rows, or windows that reach back.
    seed
        Another seed, other batches.
    chunk_rows
        Rows of a chunk.
    """

    def __init__(self, balanced: Balanced, windows: Windows, seed: int, chunk_rows: int) -> None:
        if windows.samples != windows.rows:
            message = "balanced sampling draws rows: use no window, or one with mode='reach'"
            raise ParamsError(message)
        names, group = np.unique(balanced.group, return_inverse=True)
        if len(names) < balanced.groups or min(balanced.groups, balanced.entries, balanced.rows) < 1:
            message = f"expected at least {balanced.groups} groups to draw from, got {len(names)}"
            raise ParamsError(message)
        last = balanced.first + (balanced.count - 1) * balanced.step
        if balanced.count.min() < 1 or balanced.first.min() < 0 or last.max() >= windows.rows:
            message = f"entries must have rows, inside 0..{windows.rows}"
            raise ParamsError(message)
        order = np.lexsort((balanced.first, group))
        self.balanced = balanced
        self.windows = windows
        self.seed = seed
        self.group_starts = np.searchsorted(group[order], np.arange(len(names) + 1))
        self.first, self.count, self.step = balanced.first[order], balanced.count[order], balanced.step[order]
        low = np.maximum(self.first - windows.length + 1, 0) // chunk_rows
        self._spans = low, last[order] // chunk_rows

    @property
    def groups(self) -> int:
        """Number of groups to draw from."""
        return len(self.group_starts) - 1

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        if self.balanced.batches is not None:
            return self.balanced.batches
        each = self.balanced.groups * self.balanced.entries
        return max(1, round(len(self.first) / each))

    @property
    def positions(self) -> int:
        """Samples of every epoch."""
        return self.batches * self.balanced.size

    @property
    def table_bytes(self) -> int:
        """The entries and their order, and the groups of each batch."""
        return 6 * self.first.nbytes + 16 * self.batches * self.balanced.groups

    @property
    def near(self) -> int:
        """Entries of a block: a multiple of what is drawn at a time."""
        return -(-_NEAR // self.balanced.entries) * self.balanced.entries

    def epoch(self, number: int) -> BalancedPlan:
        """The batches of one epoch."""
        return BalancedPlan(self, number)

    def pool_chunks(self, world: int) -> int:
        """Chunks of a batch, at most: those of the groups with the most."""
        del world
        of_groups = []
        for start, stop in zip(self.group_starts[:-1], self.group_starts[1:], strict=True):
            low, high = self._spans[0][start:stop], self._spans[1][start:stop]
            single = np.sort(high - low + 1)[::-1][: self.balanced.entries].sum()
            blocks = [
                len(np.unique(np.concatenate([low[at : at + self.near], high[at : at + self.near]])))
                + int(np.maximum(high[at : at + self.near] - low[at : at + self.near] - 1, 0).sum())
                for at in range(0, stop - start, self.near)
            ]
            of_groups.append(min(int(single), sum(sorted(blocks)[-_BLOCKS - 1 :])))
        return sum(sorted(of_groups)[-self.balanced.groups :])

    def pool_samples(self, world: int) -> int:
        """Samples of a batch."""
        return self.balanced.size // world

    def describe(self) -> dict[str, Any]:
        """What decides the order beside the store and the seed."""
        table = [int(array.sum() % 2**53) for array in (self.group_starts, self.first, self.count, self.step)]
        shape = [self.balanced.groups, self.balanced.entries, self.balanced.rows, self.batches]
        window = self.windows.window
        return {
            "balanced": shape,
            "entries": [len(self.first), *table],
            "window": [window.length, window.stride, window.mode] if window else None,
        }


class BalancedPlan:
    """One epoch of :class:`BalancedSampler`; a pool is a batch."""

    def __init__(self, sampler: BalancedSampler, number: int) -> None:
        self._sampler = sampler
        self._words = sampler.seed, number
        self._groups = np.empty((sampler.batches, sampler.balanced.groups), np.int64)
        self._turns = np.empty_like(self._groups)
        take_turns(sampler.groups, np.uint64(key(*self._words, _GROUPS)), self._groups, self._turns)
        self._orders: dict[tuple[int, int], Ints] = {}

    @property
    def positions(self) -> int:
        """Samples of the epoch."""
        return self._sampler.positions

    @property
    def pools(self) -> int:
        """Batches of the epoch."""
        return self._sampler.batches

    def pool_start(self, pool: int) -> int:
        """Position at which a batch begins."""
        return min(pool * self._sampler.balanced.size, self.positions)

    def pool_of(self, position: int) -> int:
        """The batch that holds a position."""
        return position // self._sampler.balanced.size

    def first_rows(self, pool: int, rank: int, world: int) -> Ints:
        """First row of each sample that a rank has in a batch."""
        return self._rows(pool)[rank::world] - (self._sampler.windows.length - 1)

    def _rows(self, batch: int) -> Ints:
        """The rows of a batch, entry after entry, group after group."""
        sampler, shape = self._sampler, self._sampler.balanced
        pairs = zip(self._groups[batch].tolist(), self._turns[batch].tolist(), strict=True)
        entries = np.concatenate([self._entries(group, turn) for group, turn in pairs])
        words = _words(len(entries) * (shape.rows + 1), key(*self._words, _ROWS, batch))
        places = _places(sampler.count[entries], shape.rows, words.reshape(len(entries), -1))
        return np.asarray((sampler.first[entries][:, None] + places * sampler.step[entries][:, None]).reshape(-1))

    def _entries(self, group: int, turn: int) -> Ints:
        """The entries of a group that come at its turn."""
        sampler, each = self._sampler, self._sampler.balanced.entries
        start = int(sampler.group_starts[group])
        size = int(sampler.group_starts[group + 1]) - start
        if size < each:  # all of them, some twice
            return np.asarray(start + np.arange(each, dtype=np.int64) % size)
        cycle, place = divmod(turn, size // each)
        if (group, cycle) not in self._orders:
            self._orders.pop((group, cycle - 1), None)
            words = (*self._words, _ENTRIES, group, cycle)
            self._orders[group, cycle] = local_permutation(size, sampler.near, _BLOCKS * sampler.near, *words)
        return np.asarray(start + self._orders[group, cycle][place * each : (place + 1) * each])


@numba.njit(nogil=True, cache=True)
def take_turns(groups: int, start: np.uint64, out: Ints, turns: Ints) -> None:
    """The groups of each batch, all different, and how often each came before; none comes twice more than another.

    Permutations of the groups follow each other. Where a batch begins in one and ends in the next, the groups that it
    has already stand back until it is full.
    """
    order, later = np.arange(groups), np.empty(groups, np.int64)
    seen, last = np.zeros(groups, np.int64), np.full(groups, -1)
    place, rounds = groups, 0
    for batch in range(out.shape[0]):
        for taken in range(out.shape[1]):
            if place == groups:
                shuffle(order, start + np.uint64(rounds) * GOLDEN)
                rounds += 1
                front = back = 0
                for group in order:
                    if last[group] == batch:
                        later[back] = group
                        back += 1
                    else:
                        order[front] = group
                        front += 1
                # Those that stood back follow at random places among the rest.
                order[front:] = later[:back]
                needed = out.shape[1] - taken
                shuffle(order[needed:], start - np.uint64(rounds) * GOLDEN)
                place = 0
            group = order[place]
            place += 1
            out[batch, taken], turns[batch, taken] = group, seen[group]
            seen[group] += 1
            last[group] = batch


def _places(counts: Ints, rows: int, words: npt.NDArray[np.uint64]) -> Ints:
    """``rows`` places in each entry, all different where there are enough, every place equally likely.

    One in each of as many stretches of the entry, which is turned by a random number of places first: stretches differ
    by one place in length.
    """
    counts = counts[:, None]
    edges = np.arange(rows + 1) * counts // rows
    fractions = (words >> np.uint64(32)).astype(np.int64)
    drawn = edges[:, :-1] + (fractions[:, 1:] * np.diff(edges, axis=1) >> 32)
    return np.asarray((drawn + (fractions[:, :1] * counts >> 32)) % counts)


def _words(count: int, start: int) -> npt.NDArray[np.uint64]:
    """Random words: the raw stream of a Philox generator, which numpy promises to keep."""
    return np.random.Philox(key=start).random_raw(count)
