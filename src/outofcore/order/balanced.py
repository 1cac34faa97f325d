"""Batches of groups x entries x rows, for example players x games x positions.

An *entry* is an arithmetic progression of rows that belongs to a group (the positions of a game in which its player is
to move). Permutations of all groups follow each other, so that each is seen equally often; each time a group is drawn,
its next entries are taken, in an order that keeps neighbours in the store close: 2 blocks of about 32 entries are mixed
at a time, so that a batch reads a few chunks per group instead of one per game. One row is drawn from each of equal
stretches of an entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.checks import integers, refuse, whole, whole_or_none
from outofcore.errors import ParamsError
from outofcore.ndarrays import Ints
from outofcore.order.permutation import GOLDEN, key, local_permutation, scaled, shuffle
from outofcore.order.sampling import Pool, PoolLimits, Sampled, Sampler, Sampling
from outofcore.order.windows import Windows
from outofcore.system.compilation import njit

_GROUPS, _ENTRIES, _ROWS = 24, 25, 26  # purpose of a key; those of the other samplers are lower numbers
_NEAR = 32  # entries per block
_BLOCKS = 2  # blocks that are mixed at a time


@dataclass(frozen=True, eq=False)
class Balanced(Sampling):
    """Batches of ``groups * entries * rows`` samples, entry after entry, group after group.

    Parameters
    ----------
    group, first, count, step
        Int64 (entries,): the group of each entry, its first row, number of rows, and their distance.
    groups, entries, rows
        Of a batch: groups, entries of each, and rows of each of these.
    batches
        Per epoch; None for as many as show each entry once on average.
    """

    group: Ints
    first: Ints
    count: Ints
    step: Ints
    groups: int
    entries: int
    rows: int
    batches: int | None = None

    names_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        table = {
            name: integers(f"balanced.{name}", getattr(self, name)) for name in ("group", "first", "count", "step")
        }
        sizes = {name: len(array) for name, array in table.items()}
        if len(set(sizes.values())) > 1:
            refuse("balanced", "columns of one length", sizes)
        for name in ("groups", "entries", "rows"):
            whole(f"balanced.{name}", getattr(self, name), 1)
        whole_or_none("balanced.batches", self.batches, 1)
        whole("samples of a batch of balanced", self.size, 1)

    @property
    def size(self) -> int:
        """Samples per batch."""
        return self.groups * self.entries * self.rows

    def samples_of_batch(self, batch_size: int) -> int:
        del batch_size
        return self.size

    def sampler(self, split: Sampled, seed: int) -> BalancedSampler:
        return BalancedSampler(self, split.windows, seed, split.chunk_rows, split.selected_runs())


class BalancedSampler(Sampler):
    """Draws batches of groups; samples are single rows, or windows that reach back."""

    def __init__(
        self,
        balanced: Balanced,
        windows: Windows,
        seed: int,
        chunk_rows: int,
        runs: tuple[Ints, Ints] | None = None,  # of selected rows; entries with others are left out
    ) -> None:
        if windows.samples != windows.rows:
            raise ParamsError("balanced sampling draws rows: use no window, or one with mode='reach'")
        first, count, step = (integers(name, getattr(balanced, name)) for name in ("first", "count", "step"))
        inside = (count >= 1) & (step >= 1) & (first >= 0) & (first < windows.rows)
        inside &= count - 1 <= (windows.rows - 1 - first) // np.where(inside, step, 1)
        last = first + (count - 1) * step
        if not np.all(inside):
            entry = int(np.argmin(inside))
            values = {name: int(getattr(balanced, name)[entry]) for name in ("first", "count", "step")}
            refuse(f"balanced, entry {entry}", f"rows inside 0..{windows.rows}, count and step positive", values)
        groups = balanced.group
        if runs is not None:
            first_stored, last_stored = (windows.first_rows(rows) + windows.length - 1 for rows in (first, last))
            run_numbers = np.searchsorted(runs[0], first_stored, "right") - 1
            selected = run_numbers >= 0
            selected[selected] = last_stored[selected] < (runs[0] + runs[1])[run_numbers[selected]]
            groups, first, count, step, last = (column[selected] for column in (groups, first, count, step, last))
        names, group = np.unique(groups, return_inverse=True)
        if len(names) < balanced.groups:
            raise ParamsError(
                f"balanced.groups: expected at least {balanced.groups} groups to draw from, got {len(names)}"
            )
        order = np.lexsort((first, group))
        self.balanced = balanced
        self.lanes = balanced.size  # every rank makes the whole batch and takes its own samples
        self.windows = windows
        self.seed = seed
        self.group_starts = np.searchsorted(group[order], np.arange(len(names) + 1))
        self.first, self.count, self.step = first[order], count[order], step[order]
        low = np.maximum(windows.first_rows(self.first), 0) // chunk_rows
        self._spans = low, (windows.first_rows(last[order]) + windows.length - 1) // chunk_rows

    @property
    def groups(self) -> int:
        """Number of groups to draw from."""
        return len(self.group_starts) - 1

    @property
    def batches(self) -> int:
        """Batches per epoch."""
        if self.balanced.batches is not None:
            return self.balanced.batches
        entries = self.balanced.groups * self.balanced.entries
        return max(1, round(len(self.first) / entries))

    @property
    def positions(self) -> int:
        return self.batches * self.balanced.size

    @property
    def near(self) -> int:
        """Entries per block: a multiple of the number drawn at a time."""
        return -(-_NEAR // self.balanced.entries) * self.balanced.entries

    def pools(self, epoch: int, start: int) -> Iterator[Pool]:
        """A pool is a batch."""
        groups = np.empty((self.batches, self.balanced.groups), np.int64)
        turns = np.empty_like(groups)
        take_turns(self.groups, np.uint64(key(self.seed, epoch, _GROUPS)), groups, turns)
        orders: dict[tuple[int, int], Ints] = {}
        size = self.balanced.size
        for batch in range(start // size, self.batches):
            drawn = list(zip(groups[batch].tolist(), turns[batch].tolist(), strict=True))
            yield Pool(batch * size, (batch + 1) * size, partial(self._draw, epoch, batch, drawn, orders))

    def limits(self, world: int) -> PoolLimits:
        """Of a batch: the chunks of the groups with the most."""
        of_groups = []
        for start, stop in zip(self.group_starts[:-1], self.group_starts[1:], strict=True):
            low, high = self._spans[0][start:stop], self._spans[1][start:stop]
            single = np.sort(high - low + 1)[::-1][: self.balanced.entries].sum()
            blocks = [
                len(np.unique(np.concatenate([low[first : first + self.near], high[first : first + self.near]])))
                + int(np.maximum(high[first : first + self.near] - low[first : first + self.near] - 1, 0).sum())
                for first in range(0, stop - start, self.near)
            ]
            of_groups.append(min(int(single), sum(sorted(blocks)[-_BLOCKS - 1 :])))
        return PoolLimits(
            samples=self.balanced.size // world,
            chunks=sum(sorted(of_groups)[-self.balanced.groups :]),
            # The entries and their order, and the groups of each batch.
            table_bytes=7 * self.first.nbytes + 16 * self.batches * self.balanced.groups,
        )

    def describe(self) -> dict[str, Any]:
        table = hashlib.blake2b(digest_size=16)
        for array in (self.group_starts, self.first, self.count, self.step):
            table.update(array.astype("<i8").data)
        shape = [self.balanced.groups, self.balanced.entries, self.balanced.rows, self.batches]
        window = self.windows.window
        return {
            "balanced": shape,
            "entries": [len(self.first), table.hexdigest()],
            "window": [window.length, window.stride, window.mode] if window else None,
        }

    def mixing(self, batch_size: int, sequences: int) -> str:
        del batch_size, sequences
        shape = f"{self.balanced.groups} groups x {self.balanced.entries} entries x {self.balanced.rows} rows"
        return f"a batch is {shape}, of {self.groups:,} groups with {len(self.first):,} entries"

    def _draw(
        self,
        epoch: int,
        batch: int,
        drawn: list[tuple[int, int]],  # groups, and how often each was drawn before
        orders: dict[tuple[int, int], Ints],  # of the entries of groups that were drawn, kept for their next turns
        rank: int,
        world: int,
    ) -> Ints:
        """The rows that a rank draws for a batch, entry after entry, group after group; a sample is a row."""
        entries = np.concatenate([self._entries(epoch, group, turn, orders) for group, turn in drawn])
        words = _words(len(entries) * (self.balanced.rows + 1), key(self.seed, epoch, _ROWS, batch))
        places = _places(self.count[entries], self.balanced.rows, words.reshape(len(entries), -1))
        rows = self.first[entries][:, None] + places * self.step[entries][:, None]
        return np.asarray(rows.reshape(-1)[rank::world])

    def _entries(self, epoch: int, group: int, turn: int, orders: dict[tuple[int, int], Ints]) -> Ints:
        """The entries of a group at its turn."""
        taken, start = self.balanced.entries, int(self.group_starts[group])
        size = int(self.group_starts[group + 1]) - start
        if size < taken:  # all of them, some twice
            return np.asarray(start + np.arange(taken, dtype=np.int64) % size)
        cycle, place = divmod(turn, size // taken)
        if (group, cycle) not in orders:
            orders.pop((group, cycle - 1), None)
            words = (self.seed, epoch, _ENTRIES, group, cycle)
            orders[group, cycle] = local_permutation(size, self.near, _BLOCKS * self.near, *words)
        return np.asarray(start + orders[group, cycle][place * taken : (place + 1) * taken])


@njit(nogil=True, cache=True)
def take_turns(groups: int, start: np.uint64, out: Ints, turns: Ints) -> None:
    """The groups of each batch, all different, and how often each came before; counts differ by at most one.

    Permutations of the groups follow each other. If a batch spans two, groups already in it are postponed until it is
    full.
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
                # Postponed groups are inserted at random among the rest.
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
    """``rows`` places in each entry, distinct if there are enough, all equally likely.

    One in each of as many stretches of the entry, after a random rotation, as stretch lengths differ by one.
    """
    counts, numbers = counts[:, None], np.arange(rows + 1)
    edges = numbers * (counts // rows) + numbers * (counts % rows) // rows
    drawn = edges[:, :-1] + scaled(words[:, 1:], np.diff(edges, axis=1))
    return np.asarray((drawn + scaled(words[:, :1], counts)) % counts)


def _words(count: int, start: int) -> npt.NDArray[np.uint64]:
    """Random words: the raw stream of a Philox generator, which numpy guarantees to keep."""
    return np.random.Philox(key=start).random_raw(count)
