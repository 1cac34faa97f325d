"""Cut a sequence of tokens into windows, each with the place in the raw text where it begins."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[Any]


@dataclass(frozen=True)
class Origin:
    """A place in the tokens of a split, from which reading can resume."""

    round: int = 0  # how many times the whole text was read before, in this epoch
    file: int = 0  # in the order of the round
    unit: int = 0  # in that file
    token: int = 0  # tokens of the split in that unit before the place

    def after(self, tokens: int) -> Origin:
        """The place this many tokens later in the same unit."""
        return replace(self, token=self.token + tokens)


@dataclass(frozen=True)
class Windows:
    """Consecutive windows, ``tokens`` (windows, length)."""

    tokens: Tokens
    _step: int
    _begins: tuple[int, ...]
    _origins: tuple[Origin, ...]

    def origin(self, number: int) -> Origin:
        """Where a window begins."""
        place = number * self._step
        part = bisect_right(self._begins, place) - 1
        return self._origins[part].after(place - self._begins[part])


class Windower:
    """Cuts consecutive tokens into windows of ``length``, ``step`` apart, after skipping ``skip``."""

    def __init__(self, length: int, step: int, skip: int = 0) -> None:
        self._length = length
        self._step = step
        self._skip = skip
        self._waiting: Tokens | None = None
        self._begins: list[int] = []
        self._origins: list[Origin] = []

    def add(self, tokens: Tokens, origin: Origin) -> Windows:
        """The windows completed by these tokens, which continue the previous ones."""
        passed = min(self._skip, len(tokens))
        self._skip -= passed
        before = 0 if self._waiting is None else len(self._waiting)
        self._begins.append(before)
        self._origins.append(origin.after(passed))
        text = tokens[passed:] if self._waiting is None else np.concatenate([self._waiting, tokens[passed:]])
        count = max(0, (len(text) - self._length) // self._step + 1)
        made = np.lib.stride_tricks.sliding_window_view(text, self._length)[:: self._step] if count else text[:0, None]
        windows = Windows(made, self._step, tuple(self._begins), tuple(self._origins))
        self._drop(text, count * self._step)
        return windows

    def end(self) -> None:
        """Discard the rest: what follows does not continue it."""
        self._waiting, self._begins, self._origins, self._skip = None, [], [], 0

    def _drop(self, text: Tokens, count: int) -> None:
        kept = max(0, bisect_right(self._begins, count) - 1)
        self._skip += max(0, count - len(text))
        self._waiting = text[count:].copy()
        moved = [begin - count for begin in self._begins[kept:]]
        # The first remaining part may have begun before the remaining tokens.
        origins = self._origins[kept:]
        if moved[0] < 0:
            origins[0] = origins[0].after(-moved[0])
            moved[0] = 0
        self._begins, self._origins = moved, origins


def count_windows(tokens: npt.NDArray[np.int64] | int, length: int, step: int, spare: int = 0) -> int:
    """Windows in stretches of these lengths, each cut separately.

    ``spare`` tokens at the start of a stretch may be skipped.
    """
    return int(np.maximum((np.asarray(tokens) - spare - length) // step + 1, 0).sum())
