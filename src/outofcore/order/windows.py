"""Rows of a sample: a single row, or a window of consecutive rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from outofcore.checks import flag, one_of, whole
from outofcore.errors import ParamsError, StoreError
from outofcore.ndarrays import Ints
from outofcore.order.packs import Packs
from outofcore.order.permutation import draw
from outofcore.system.compilation import kernel

Mode = Literal["pack", "never", "best_fit", "reach"]

_PHASE = 16  # purpose of a key; those of the order are lower numbers
_SLAB, _SEQUENCES = 1 << 13, 1 << 12  # runs, and sequences, that are examined at a time


@dataclass(frozen=True, kw_only=True)
class Window:
    """Consecutive rows that make a sample.

    ``length`` rows, ``stride`` rows from one window to the next. Modes: ``"pack"``: windows cross sequences (tokens of
    packed documents). ``"never"``: a window is inside one sequence; sequences shorter than ``length`` have none. None:
    ``"never"`` if ``write_store`` received ``groups``, ``sequences`` or ``lengths`` for all stores, else ``"pack"``.
    ``"best_fit"``: whole sequences share windows; longer ones are cut; padding is ``valid`` false (:mod:`.packs`).
    ``"reach"``: every row is a sample, and its window is the ``length`` rows that end with it (lags of a response); it
    may reach into the previous sequence, and before the split's first row that row is repeated. The user masks what
    should not count.

    With ``phase``, windows start elsewhere each epoch; None for what the tensors say, in the split ``train``.
    """

    length: int
    stride: int = 1
    mode: Mode | None = None
    phase: bool | None = None

    def __post_init__(self) -> None:
        whole("window.length", self.length, 1)
        whole("window.stride", self.stride, 1)
        if self.mode is not None:
            one_of("window.mode", self.mode, get_args(Mode))
        if self.phase is not None:
            flag("window.phase", self.phase)
        if self.mode == "reach" and self.stride != 1:
            raise ParamsError('with mode="reach" every row is a sample: stride must be 1')
        if self.mode == "best_fit" and not 1 <= self.stride == self.length - 1:
            raise ParamsError(
                f'with mode="best_fit" stride must be length - 1, got {self.stride} and a length of {self.length}'
            )

    @property
    def by_sequence(self) -> bool:
        """Whether the table of sequences is needed."""
        return self.mode in ("never", "best_fit")


class Windows:
    """The windows of a split: from a sample's number to its first row.

    With ``phase``, starts move from epoch to epoch by less than ``stride`` rows; the number of samples is the one that
    all phases allow, and in a sequence with room for a single window the start moves as far as possible. ``runs``:
    first row and length of each range of rows, in the order of their samples; no window crosses the end of one; by
    default a single range. ``sequences`` returns first rows and lengths of the sequences, called only for ``"never"``,
    where two int64 per sequence with a window are then held, and ``"best_fit"``, whose windows are ``packs``.
    ``origins``, first rows of the stores, are given if runs or sequences are a selection; then windows that reach back
    may begin before a run. ``length`` is 1 without a window, ``extent`` is that of the longest sample, ``span`` is the
    number after that of the last row.
    """

    def __init__(
        self,
        rows: int,
        window: Window | None = None,
        *,
        phase: bool = False,
        runs: tuple[Ints, Ints] | None = None,
        sequences: Callable[[], tuple[Ints, Ints]] | None = None,
        origins: Ints | None = None,
    ) -> None:
        self.rows = rows
        self.window = window
        self.phase = phase and window is not None and window.mode not in ("best_fit", "reach") and window.stride > 1
        self.length = self.extent = window.length if window else 1
        starts, lengths = (np.zeros(1, np.int64), np.array([rows], np.int64)) if runs is None else runs
        self.slack = window.stride - 1 if window and self.phase else 0  # rows by which a phase moves a window at most
        self.span = int((starts + lengths).max(initial=0))
        self.selects = origins is not None
        self._origins = starts if origins is None else origins
        self._starts = self._ends = self._room = np.empty(0, np.int64)
        self.packs: Packs | None = None
        if window is not None and window.by_sequence:
            if sequences is None:
                raise StoreError(f'windows with mode="{window.mode}" need the table of sequences')
            if window.mode == "best_fit":
                self.packs = Packs(*sequences(), window.length, self._origins)
                self._starts, self._ends, self.samples = self.packs.firsts, self.packs.ends, self.packs.samples
                self.extent = self.packs.extent
            else:
                self.samples = self._tabulate(*sequences())
            return
        counts = self._count(lengths)
        self.samples = int(counts.sum())
        if runs is not None:
            kept = counts > 0
            self._starts, self._ends = starts[kept], np.cumsum(counts[kept])

    @property
    def runs(self) -> int:
        """Number of runs or sequences with samples."""
        return max(1, len(self._ends))

    @property
    def bytes(self) -> int:
        """Memory of the table of runs or sequences."""
        return self._starts.nbytes + self._ends.nbytes + self._room.nbytes + (self.packs.bytes if self.packs else 0)

    def first_rows(self, samples: Ints, phase: int = 0) -> Ints:
        """First row of each sample, before that of its store if a window reaches back; ``phase`` shifts the starts."""
        stride = self.window.stride if self.window else 1
        if len(self._ends):
            first = np.empty(len(samples), np.int64)
            _place(samples, self._starts, self._ends, stride, self._room, phase, first)
        elif self.window is None:
            return samples
        else:
            first = samples * stride + phase
        if self.window is not None and self.window.mode == "reach":
            first -= self.length - 1
        return first

    def before(self, rows: Ints) -> Ints:
        """How many samples begin before each row, without a phase; of windows that reach back, how many end."""
        stride = self.window.stride if self.window else 1
        starts, ends = (self._starts, self._ends) if len(self._ends) else (np.zeros(1, np.int64), [self.samples])
        counts = np.diff(ends, prepend=0)
        run = np.searchsorted(starts, rows, "right") - 1
        inside = np.clip(-(-(rows - starts[run]) // stride), 0, counts[run])
        return np.asarray(np.where(run < 0, 0, np.asarray(ends)[run] - counts[run] + inside))

    def phase_of(self, seed: int, epoch: int) -> int:
        """By how many rows the starts of an epoch are shifted."""
        return draw(self.window.stride, seed, epoch, _PHASE) if self.window and self.phase else 0

    def chunks(self, chunk_rows: int) -> Ints:
        """The chunks that samples may need in any epoch, ascending."""
        marks = np.zeros(self.span // chunk_rows + 2, np.int64)
        for begin in range(0, len(self._ends), _SLAB):
            runs = slice(begin, begin + _SLAB)
            before = self._ends[begin - 1] if begin else 0
            last = self.first_rows(self._ends[runs] - 1) + self.extent - 1
            last = np.minimum(last + (self._room[runs] if len(self._room) else self.slack), self.span - 1)
            low = self.stored(self.first_rows(np.concatenate(([before], self._ends[runs][:-1]))))
            np.add.at(marks, low // chunk_rows, 1)
            np.add.at(marks, last // chunk_rows + 1, -1)
        return np.flatnonzero(np.cumsum(marks))

    def stored(self, first: Ints) -> Ints:
        """First rows of windows that are stored: one that reaches back before its store repeats the first row there."""
        if self.window is None or self.window.mode != "reach":
            return first
        store = np.searchsorted(self._origins, first + self.length - 1, "right") - 1
        return np.maximum(first, self._origins[store])

    def _count(self, lengths: Ints) -> Ints:
        """Windows in runs or sequences of these lengths, for every phase; at least one if one fits into a sequence."""
        if self.window is None or self.window.mode == "reach":
            return lengths
        stride, size = self.window.stride, self.window.length
        count = np.maximum((lengths - size - self.slack) // stride + 1, 0)
        return np.where(lengths >= size, np.maximum(count, self.window.mode == "never"), 0)

    def _tabulate(self, starts: Ints, lengths: Ints) -> int:
        assert self.window is not None
        slabs = [slice(start, start + _SEQUENCES) for start in range(0, len(starts), _SEQUENCES)]
        total = sum(int(np.count_nonzero(self._count(lengths[slab]))) for slab in slabs)
        self._starts, self._ends = np.empty(total, np.int64), np.empty(total, np.int64)
        self._room = np.empty(total if self.phase else 0, np.int64)
        place = samples = 0
        for slab in slabs:
            count = self._count(lengths[slab])
            kept = np.flatnonzero(count)
            count, windows = count[kept], slice(place, place + len(kept))
            self._starts[windows] = starts[slab][kept]
            self._ends[windows] = samples + np.cumsum(count)
            if self.phase:
                room = lengths[slab][kept] - self.window.length - (count - 1) * self.window.stride
                self._room[windows] = np.minimum(room, self.window.stride - 1)
            place, samples = windows.stop, samples + int(count.sum())
        return samples


@kernel
def _place(samples: Ints, starts: Ints, ends: Ints, stride: int, room: Ints, phase: int, first: Ints) -> None:
    """First rows of samples, by the runs or sequences that hold them; ``room`` limits the phase, if given."""
    for number in range(len(samples)):
        sample, run, left = samples[number], 0, len(ends)
        while left > 1:  # without branches, which nobody could predict: neighbouring samples are in other stores
            half = left >> 1
            run += half * (ends[run + half - 1] <= sample)
            left -= half
        run += ends[run] <= sample
        shift = phase % (room[run] + 1) if len(room) else phase
        first[number] = starts[run] + (sample - (ends[run - 1] if run else 0)) * stride + shift


def touched(first: Ints, length: int | Ints, chunk_rows: int, origins: Ints) -> Ints:
    """The chunks that hold these windows, ascending; one that reaches back before its store repeats the first row.

    ``length`` is that of all, or of each.
    """
    marks = np.zeros(len(origins), np.bool_)
    _mark(first, np.atleast_1d(length), chunk_rows, origins, marks)
    return np.flatnonzero(marks)


@kernel
def _mark(first: Ints, lengths: Ints, chunk_rows: int, origins: Ints, marks: npt.NDArray[np.bool_]) -> None:
    for number in range(len(first)):
        row = first[number]
        last = (row + lengths[min(number, len(lengths) - 1)] - 1) // chunk_rows
        if last < 0 or last >= len(marks):
            raise IndexError("a window begins or ends outside the rows of its split")
        for chunk in range(max(row, origins[last]) // chunk_rows, last + 1):
            marks[chunk] = True
