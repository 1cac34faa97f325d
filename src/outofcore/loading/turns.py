"""Which of several streams gives the next batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from outofcore.loading.permutation import key, permutation
from outofcore.loading.pipeline import Step, Task
from outofcore.loading.schedule import Group

Ints = npt.NDArray[np.int64]
Turns = Literal["size", "turn"]

_TURN = 48  # purpose of a key; those of the order, samplers and readings are lower numbers


def take_turns(batches: Sequence[int], by: Turns, seed: int, epoch: int) -> Ints:
    """The stream of each batch of an epoch, in which every stream gives all of its batches.

    ``batches`` per stream; ``by`` is ``"size"`` (at random, each stream throughout in proportion to its size) or
    ``"turn"`` (one of each that has any left, in an order that changes from round to round).
    """
    streams = np.repeat(np.arange(len(batches), dtype=np.int64), batches)
    if by == "size":
        return streams[permutation(len(streams), key(seed, epoch, _TURN))]
    rounds = np.concatenate([np.arange(count, dtype=np.int64) for count in batches])
    within = permutation(len(streams), key(seed, epoch, _TURN))
    return streams[np.lexsort((within, rounds))]


def interleave(streams: Sequence[Iterator[Step[Group]]], turns: Ints) -> Iterator[Step[Group]]:
    """One stream of several, whose groups are single batches: up to the next batch of the one in turn."""
    for turn in turns:
        for step in streams[turn]:
            yield step
            if isinstance(step, Task) and step.delivers:
                break
