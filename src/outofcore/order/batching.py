"""Batches of an epoch: cut from its positions, dealt to ranks, taken from several parts in turn, and numbered as steps.

A step is a batch, counted from 1 and on through the epochs, as training prints it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np

from outofcore.checks import refuse, whole
from outofcore.errors import StateError
from outofcore.ndarrays import Ints
from outofcore.order.permutation import key, permutation

Last = Literal["keep", "drop", "pad"]
TURNS = "size", "turn"  # of several parts: in proportion to size, or round robin
Span = tuple[int, int]

_TURN = 48  # purpose of a key; those of the order, samplers and readings are lower numbers


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How positions become global batches, and which of them are this rank's."""

    size: int  # samples per global batch
    last: Last  # treatment of a last batch that is not full
    rank: int
    world: int  # number of ranks

    def spans(self, start: int, positions: int) -> Iterator[Span]:
        """Start and end position of each global batch of an epoch, from ``start`` on.

        With ``"keep"``, a remainder too small to give each rank a sample joins the previous batch, or is left out if
        that was delivered before, to fewer ranks. With ``"pad"`` the last batch extends past the epoch.
        """
        while start < (positions if self.last == "pad" else positions - self.world + 1):
            stop = start + self.size
            left = positions - stop
            if self.last == "keep":
                stop = positions if left < self.world else stop
            elif self.last == "drop" and left < 0:
                return
            yield start, stop
            start = stop

    def batches(self, start: int, positions: int) -> int:
        """Number of :meth:`spans`."""
        left = max(positions - start, 0)
        if self.last == "drop":
            return left // self.size
        if self.last == "keep" and left < self.world:
            return 0
        if self.last == "keep" and left > self.size and left % self.size < self.world:
            return left // self.size
        return -(-left // self.size)

    def steps(self, positions: int) -> int:
        """Steps that an epoch counts, on any number of ranks: its batches, also one that joins the one before."""
        return positions // self.size if self.last == "drop" else -(-positions // self.size)

    def step_start(self, step: int, positions: int) -> int:
        """Samples of an epoch before its step of this number, from 0; with all steps, those of the epoch."""
        start = min(step * self.size, positions)
        return positions if self.last == "keep" and positions - start < self.world else start

    def end(self, start: int, positions: int) -> int:
        """End position of the last of :meth:`spans`, ``start`` if there is none; later samples are in no batch."""
        batches = self.batches(start, positions)
        return positions if batches and self.last == "keep" else start + batches * self.size

    def samples_of_rank(self, start: int, stop: int) -> int:
        """Number of this rank's positions from ``start`` to ``stop``."""
        return self._of_rank_before(stop) - self._of_rank_before(start)

    def first_of_rank(self, start: int) -> int:
        """The first of this rank's positions from ``start`` on; the others follow in steps of ``world``."""
        return start + (self.rank - start) % self.world

    def _of_rank_before(self, position: int) -> int:
        return (position - self.rank + self.world - 1) // self.world


class StepOrder:
    """The steps of every epoch, of one part or of several that take turns, and the samples before each.

    ``positions`` are the samples of each part in an epoch. With several parts, those of all parts count.
    """

    def __init__(self, positions: Sequence[int], batching: Batching, turns: str, seed: int) -> None:
        self.positions, self.batching = tuple(positions), batching
        self.turns, self._seed = turns, seed
        self.samples = sum(positions)
        self.steps = sum(map(batching.steps, positions))  # more than batches where some have fewer samples than ranks

    def of_epoch(self, epoch: int) -> tuple[Ints, Ints]:
        """The part of each step of an epoch, and how many samples come before each, and in all.

        Parts come in proportion to size, or round robin in an order that changes by round. Repeated samples do not
        count; a step whose samples join those of the one before has none.
        """
        counts = [self.batching.steps(positions) for positions in self.positions]
        parts = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        order = permutation(len(parts), key(self._seed, epoch, _TURN))
        if self.turns == "turn":
            rounds = np.concatenate([np.arange(steps, dtype=np.int64) for steps in counts])
            order = np.lexsort((order, rounds))
        parts, sizes = parts[order], np.empty(len(parts), np.int64)
        for part, positions in enumerate(self.positions):
            starts = [self.batching.step_start(step, positions) for step in range(counts[part] + 1)]
            sizes[parts == part] = np.diff(starts)
        return parts, np.cumsum(np.append(0, sizes))

    def rest(self, epoch: int, received: int) -> tuple[list[int], Ints]:
        """Position in each part after ``received`` samples, and, with several, the part of each batch that follows."""
        if len(self.positions) == 1:
            return [received], np.empty(0, np.int64)
        parts, ends = self.of_epoch(epoch)
        step, sizes = int(np.searchsorted(ends, received)), np.diff(ends)
        if step == len(ends) or ends[step] != received:
            raise StateError(
                f"the saved state counts {received} samples, which is between two batches of {self.batching.size}: "
                "with several parts, resume with the batch size and number of ranks that it was saved with"
            )
        starts = np.bincount(parts[:step], sizes[:step], len(self.positions)).astype(np.int64).tolist()
        return starts, parts[step:][sizes[step:] > 0]

    def before(self, epoch: int, received: int) -> int:
        """Steps before a position, from epoch 0 on."""
        if len(self.positions) == 1:
            return epoch * self.steps + min(-(-received // self.batching.size), self.steps)
        return epoch * self.steps + int(np.searchsorted(self.of_epoch(epoch)[1], received, "right")) - 1

    def numbers(self, epoch: int, received: int) -> Iterator[int]:
        """The numbers of the steps whose batches follow a position."""
        if len(self.positions) == 1:
            return count(self.before(epoch, received) + 1)
        ends = self.of_epoch(epoch)[1]
        batches = np.flatnonzero((ends[:-1] >= received) & (ends[:-1] < ends[1:]))
        return iter((epoch * self.steps + batches + 1).tolist())

    def received_before(self, epoch: int, step: int) -> int:
        """Samples of an epoch, of all parts, before the batch of its step of this number, from 0."""
        if len(self.positions) == 1:
            start, stop = (self.batching.step_start(number, self.samples) for number in (step, step + 1))
            return start if start < stop else self.batching.step_start(step - 1, stop)
        parts, ends = self.of_epoch(epoch)
        if ends[step] == ends[step + 1]:
            step = np.flatnonzero(parts[:step] == parts[step])[-1]
        return int(ends[step])


class Steps:
    """Some steps and ranges of steps, of which both ends are included; raises ParamsError if they are none."""

    def __init__(self, name: str, value: object) -> None:
        if not isinstance(value, list | tuple):
            refuse(name, "a list of steps and ranges of them, such as [340, (1000, 1020)]", value)
        ranges = list[list[int]]()
        for item in value:
            first, last = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
            if whole(name, first, 1) > whole(name, last, 1):
                refuse(name, "a range from its first step to its last", item)
            ranges.append([first, last])
        self._ranges = list[list[int]]()  # first and last, ascending and apart from each other
        for first, last in sorted(ranges):
            if self._ranges and first <= self._ranges[-1][1] + 1:
                self._ranges[-1][1] = max(self._ranges[-1][1], last)
            else:
                self._ranges.append([first, last])
        self._firsts = [first for first, _ in self._ranges]

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __contains__(self, step: int) -> bool:
        place = bisect_right(self._firsts, step)
        return place > 0 and step <= self._ranges[place - 1][1]

    def until(self, step: int) -> list[list[int]]:
        """The ranges up to a step, each as its first and last, apart from each other."""
        return [[first, min(last, step)] for first, last in self._ranges if first <= step]
