"""Batches of an epoch: cut from its positions, dealt to ranks, and taken from several parts in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

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

    def own(self, start: int, stop: int) -> int:
        """Number of this rank's positions from ``start`` to ``stop``."""
        return self._own_before(stop) - self._own_before(start)

    def first_own(self, start: int) -> int:
        """The first of this rank's positions from ``start`` on; the others follow in steps of ``world``."""
        return start + (self.rank - start) % self.world

    def _own_before(self, position: int) -> int:
        return (position - self.rank + self.world - 1) // self.world


def take_turns(batches: Sequence[int], by: str, seed: int, epoch: int) -> Ints:
    """The part of each batch: in proportion to size, or round robin, in an order that changes by round."""
    parts = np.repeat(np.arange(len(batches), dtype=np.int64), batches)
    if by == "size":
        return parts[permutation(len(parts), key(seed, epoch, _TURN))]
    rounds = np.concatenate([np.arange(count, dtype=np.int64) for count in batches])
    within = permutation(len(parts), key(seed, epoch, _TURN))
    return parts[np.lexsort((within, rounds))]


def epoch_turns(positions: Sequence[int], batching: Batching, by: str, seed: int, epoch: int) -> tuple[Ints, Ints]:
    """The part of each step of an epoch, and how many samples come before each, and in all.

    Repeated samples do not count; a step whose samples join those of the one before has none.
    """
    turns = take_turns([batching.steps(count) for count in positions], by, seed, epoch)
    sizes = np.empty(len(turns), np.int64)
    for part, count in enumerate(positions):
        steps = range(batching.steps(count) + 1)
        sizes[turns == part] = np.diff([batching.step_start(step, count) for step in steps])
    return turns, np.cumsum(np.append(0, sizes))


def turns_left(
    positions: Sequence[int], batching: Batching, by: str, seed: int, epoch: int, received: int
) -> tuple[list[int], Ints]:
    """Position in each part after ``received`` samples of all of them, and the part of each batch that follows."""
    turns, ends = epoch_turns(positions, batching, by, seed, epoch)
    turn = int(np.searchsorted(ends, received))
    sizes = np.diff(ends)
    if turn == len(ends) or ends[turn] != received:
        raise StateError(
            f"the saved state counts {received} samples, which is between two batches of {batching.size}: "
            "with several parts, resume with the batch size and number of ranks that it was saved with"
        )
    batches, before = sizes[:turn], turns[:turn]
    starts = [int(batches[before == part].sum()) for part in range(len(positions))]
    return starts, turns[turn:][sizes[turn:] > 0]
