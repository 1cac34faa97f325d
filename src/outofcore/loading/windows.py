"""Rows of a sample: a single row, or a window of consecutive rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numba
import numpy as np
import numpy.typing as npt

from outofcore.errors import ParamsError, StoreError
from outofcore.loading.arguments import one_of, whole
from outofcore.loading.permutation import draw

Ints = npt.NDArray[np.int64]
Mode = Literal["pack", "never", "reach"]

_PHASE = 16  # purpose of a key; those of the order are lower numbers
_SLAB = 1 << 20  # samples examined at a time


@dataclass(frozen=True, kw_only=True)
class Window:
    """Consecutive rows that make a sample.

    ``length`` rows, ``stride`` rows from one window to the next. Modes: ``"pack"``: windows cross sequences (tokens of
    packed documents). ``"never"``: a window is inside one sequence; sequences shorter than ``length`` have none.
    ``"reach"``: every row is a sample, and its window is the ``length`` rows that end with it (lags of a response); it
    may reach into the previous sequence, and before the split's first row that row is repeated. The user masks what
    should not count.
    """

    length: int
    stride: int = 1
    mode: Mode = "pack"

    def __post_init__(self) -> None:
        whole("window.length", self.length, 1)
        whole("window.stride", self.stride, 1)
        one_of("window.mode", self.mode, get_args(Mode))
        if self.mode == "reach" and self.stride != 1:
            message = 'with mode="reach" every row is a sample: stride must be 1'
            raise ParamsError(message)


class Windows:
    """The windows of a split: from a sample's number to its first row.

    With ``phase``, starts move from epoch to epoch by less than ``stride`` rows; the number of samples is the one that
    all phases allow, and in a sequence with room for a single window the start moves as far as possible. ``sequences``
    returns first rows and lengths of the sequences, called only for ``"never"``; two int64 per sequence with a window
    are then held. ``length`` is 1 without a window.
    """

    def __init__(
        self,
        rows: int,
        window: Window | None = None,
        *,
        phase: bool = False,
        sequences: Callable[[], tuple[Ints, Ints]] | None = None,
    ) -> None:
        self.rows = rows
        self.window = window
        self.phase = phase and window is not None and window.mode != "reach" and window.stride > 1
        self.length = window.length if window else 1
        self._starts = self._ends = self._room = np.empty(0, np.int64)
        if window is None or window.mode == "reach":
            self.samples = rows
        elif window.mode == "pack":
            self.samples = self._count(np.array([rows]), least=0)[0].item()
        else:
            if sequences is None:
                message = 'windows with mode="never" need the table of sequences'
                raise StoreError(message)
            self.samples = self._tabulate(*sequences())

    @property
    def bytes(self) -> int:
        """Memory of the table of sequences."""
        return self._starts.nbytes + self._ends.nbytes + self._room.nbytes

    def first_rows(self, samples: Ints, phase: int = 0) -> Ints:
        """First row of each sample; negative if a window reaches back before the split's first row.

        ``samples`` in any order; ``phase`` is the shift of this epoch's starts in rows, ``0 <= phase < stride``.
        """
        if self.window is None:
            return samples
        if self.window.mode == "reach":
            return samples - (self.length - 1)
        if self.window.mode == "pack":
            return samples * self.window.stride + phase
        sequence = np.searchsorted(self._ends, samples, "right")
        before = np.where(sequence, self._ends[sequence - 1], 0)
        first = self._starts[sequence] + (samples - before) * self.window.stride
        return first + phase % (self._room[sequence] + 1) if phase else first

    def phase_of(self, seed: int, epoch: int) -> int:
        """By how many rows the starts of an epoch are shifted."""
        return draw(self.window.stride, seed, epoch, _PHASE) if self.window and self.phase else 0

    def block_chunks(self, edges: Ints, chunk_rows: int) -> Ints:
        """Most chunks, over all phases, of the samples between each pair of neighbouring ``edges``."""
        slack = self.window.stride - 1 if self.window and self.phase else 0
        if self.window is None or self.window.mode != "never":
            low = np.maximum(self.first_rows(edges[:-1]), 0) // chunk_rows
            high = (self.first_rows(edges[1:] - 1) + self.length - 1 + slack) // chunk_rows
            return np.asarray(np.minimum(high, (self.rows - 1) // chunk_rows) - low + 1)
        counts = []
        each = max(1, _SLAB // int(np.diff(edges).max()))
        for begin in range(0, len(edges) - 1, each):
            own = edges[begin : begin + each + 1]
            first = self.first_rows(np.arange(own[0], own[-1], dtype=np.int64))
            low, high = first // chunk_rows, (first + self.length - 1 + slack) // chunk_rows
            new = high - np.maximum(low - 1, np.concatenate(([-1], high[:-1])))
            starts = own[:-1] - own[0]
            new[starts] = high[starts] - low[starts] + 1
            counts.append(np.add.reduceat(new, starts))
        return np.concatenate(counts)

    def _count(self, lengths: Ints, least: int) -> Ints:
        """Windows in sequences of these lengths, for every phase; at least ``least`` if one fits at all."""
        assert self.window is not None
        stride, size = self.window.stride, self.window.length
        spare = stride - 1 if self.phase else 0
        count = np.maximum((lengths - size - spare) // stride + 1, 0)
        return np.where(lengths >= size, np.maximum(count, least), 0)

    def _tabulate(self, starts: Ints, lengths: Ints) -> int:
        assert self.window is not None
        count = self._count(lengths, least=1)
        kept = count > 0
        self._starts, count = starts[kept], count[kept]
        self._ends = np.cumsum(count)
        if self.phase:
            room = lengths[kept] - self.window.length - (count - 1) * self.window.stride
            self._room = np.minimum(room, self.window.stride - 1)
        return int(self._ends[-1]) if len(self._ends) else 0


def touched(first: Ints, length: int, chunk_rows: int, chunks: int) -> Ints:
    """The chunks that hold windows of ``length`` rows, ascending; rows below 0 mean row 0."""
    marks = np.zeros(chunks, np.bool_)
    _mark(first, length, chunk_rows, marks)
    return np.flatnonzero(marks)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _mark(first: Ints, length: int, chunk_rows: int, marks: npt.NDArray[np.bool_]) -> None:
    for row in first:
        for chunk in range(max(row, 0) // chunk_rows, (row + length - 1) // chunk_rows + 1):
            marks[chunk] = True
