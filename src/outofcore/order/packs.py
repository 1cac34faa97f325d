"""Whole sequences in windows, by best fit: a window is a short list of pieces, and padding.

A sequence longer than a window is cut into full windows that overlap by one row, and a rest. The pieces, rests and
shorter sequences, that begin in the same stretch of rows of a store are packed together: the longest first (of equal
ones, the first in the store), each into the window with the least room that holds it (of equal ones, the one begun
first), or a new one. Pieces of a window, and windows, are in the order of their first rows. All of this follows from
the sequences and the length alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Ints
from outofcore.system.compilation import kernel, njit

Pieces = npt.NDArray[np.int32]

STRETCH = 64  # windows; pieces that begin in as many rows are packed together, and read together


class Packs:
    """The windows of ``length`` rows of sequences; ``origins`` are the first rows of their stores.

    An entry is a window, or the full windows of one sequence: ``firsts`` (entries,) is its first row and ``ends``
    (entries,) the number of samples up to its end. Its pieces are held as offset from its first row and length, which
    is negative for a rest.
    """

    def __init__(self, starts: Ints, lengths: Ints, length: int, origins: Ints) -> None:
        self.length = length
        self.sequences, self.cut = int(np.count_nonzero(lengths)), int(np.count_nonzero(lengths > length))
        entries, pieces = 0, 0
        for _ in range(2):  # counts, then fills
            self.firsts, self.ends = np.empty(entries, np.int64), np.empty(entries, np.int64)
            self._first_pieces, self._pieces = np.zeros(entries + 1, np.int64), np.empty((pieces, 2), np.int32)
            done = _pack(starts, lengths, origins, length, self.firsts, self.ends, self._first_pieces, self._pieces)
            entries, pieces = done[:2].tolist()
        self.samples, self.filled, self.extent, self.opening = map(int, done[2:])
        self.bytes = self._first_pieces.nbytes + self._pieces.nbytes
        self.runs_bytes = 16 * (int(np.diff(self._first_pieces).max(initial=0)) + 1) + length  # most of a sample

    def report(self) -> str:
        """How full the windows are, how many sequences are cut, and how many rows are no targets."""
        return (
            f"best fit: sequences fill {self.filled / max(self.samples * self.length, 1):.2%} of the windows, the rest "
            f"is padding; {self.cut:,} of {self.sequences:,} ({self.cut / max(self.sequences, 1):.1%}) are longer than "
            f"a window and cut, no others; {self.opening:,} begin a window, so that their first rows are no targets"
        )

    def runs(self, first: Ints) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        """First row and length of the runs of rows of samples with these first rows, and which rows are valid.

        ``length`` rows per sample; a negative length repeats the row: padding. Valid (samples, length) is each row of
        a sequence once: neither padding, nor the row that a window or rest shares with the window before.
        """
        entries = np.searchsorted(self.firsts, first, "right") - 1
        total = int((self._first_pieces[entries + 1] - self._first_pieces[entries]).sum()) + len(first)
        starts, lengths = np.empty(total, np.int64), np.empty(total, np.int64)
        valid = np.ones((len(first), self.length), np.bool_)
        _spread(first, entries, self._first_pieces, self._pieces, starts, lengths, valid)
        valid[first != self.firsts[entries], 0] = False
        return starts, lengths, valid

    def rows(self, first: Ints) -> Ints:
        """The rows of samples, (samples, length)."""
        starts, lengths, _ = self.runs(first)
        counts = np.abs(lengths)
        places = np.arange(len(first) * self.length) - np.repeat(np.cumsum(counts) - counts, counts)
        places[np.repeat(lengths < 0, counts)] = 0
        return np.asarray(np.repeat(starts, counts) + places).reshape(len(first), self.length)


@njit(nogil=True, cache=True, error_model="numpy")
def _pack(
    starts: Ints, lengths: Ints, origins: Ints, length: int, firsts: Ints, ends: Ints, at: Ints, pieces: Pieces
) -> Ints:
    """Fill the tables unless they are empty.

    Returns entries, pieces, samples, filled rows, most rows of one, and sequences that begin a window.
    """
    stretch, step = STRETCH * length, length - 1
    most = min(stretch, 2 * len(starts)) + 1
    rows, sizes = np.empty(most, np.int64), np.empty(most, np.int64)  # of the pieces of a stretch, in order
    done = np.zeros(6, np.int64)
    count, store, last = 0, 0, np.int64(-1)
    for sequence in range(len(starts)):
        while store + 1 < len(origins) and starts[sequence] >= origins[store + 1]:
            store, last = store + 1, np.int64(-1)
        full = max(lengths[sequence] - 1, 0) // step * step
        rest = lengths[sequence] - full
        for row, size in ((starts[sequence], full + 1 if full > 0 else 0), (starts[sequence] + full, rest)):
            if size < 1 or (full > 0 and size == 1):
                continue
            place = (row - origins[store]) // stretch
            if place != last:
                _fit(rows[:count], sizes[:count], length, firsts, ends, at, pieces, done)
                count, last = 0, place
            if count == most:
                raise IndexError("sequences overlap")
            rows[count], sizes[count] = row, -size if row > starts[sequence] else size
            count += 1
    _fit(rows[:count], sizes[:count], length, firsts, ends, at, pieces, done)
    return done


@njit(nogil=True, cache=True, error_model="numpy")
def _fit(rows: Ints, sizes: Ints, length: int, firsts: Ints, ends: Ints, at: Ints, pieces: Pieces, done: Ints) -> None:
    """Pack the pieces of a stretch; a size of more than ``length`` is that of all full windows of a sequence."""
    window, room, windows = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), 0
    for piece in np.argsort(-np.abs(sizes), kind="mergesort"):
        size, best = min(abs(sizes[piece]), length), -1
        for other in range(windows):
            if room[other] >= size and (best < 0 or room[other] < room[best]):
                best = other
        if best < 0:
            best, windows = windows, windows + 1
            room[best] = length
        room[best] -= size
        window[piece] = best
    firsts_of = np.full(windows, -1, np.int64)
    for piece in range(len(rows)):
        if firsts_of[window[piece]] < 0:
            firsts_of[window[piece]] = rows[piece]
        window[piece] = firsts_of[window[piece]]
    first = np.int64(-1)
    for piece in np.argsort(window, kind="mergesort"):
        size = abs(sizes[piece])
        if window[piece] != first:
            first = window[piece]
            samples = max(1, (size - 1) // (length - 1))
            done[5] += sizes[piece] > 0
            done[2] += samples
            done[3] += (samples - 1) * length
            if len(firsts):
                firsts[done[0]], ends[done[0]] = first, done[2]
            done[0] += 1
        size = min(size, length)
        if len(firsts):
            pieces[done[1], 0], pieces[done[1], 1] = rows[piece] - first, size if sizes[piece] > 0 else -size
            at[done[0]] = done[1] + 1
        done[1] += 1
        done[3] += size
        done[4] = max(done[4], rows[piece] - first + size)


@kernel
def _spread(
    first: Ints, entries: Ints, at: Ints, pieces: Pieces, starts: Ints, lengths: Ints, valid: npt.NDArray[np.bool_]
) -> None:
    run = 0
    for sample in range(len(first)):
        place, end = 0, first[sample]
        for piece in range(at[entries[sample]], at[entries[sample] + 1]):
            size = abs(pieces[piece, 1])
            starts[run], lengths[run] = first[sample] + pieces[piece, 0], size
            valid[sample, place] = pieces[piece, 1] > 0
            place, end, run = place + size, starts[run] + size - 1, run + 1
        starts[run], lengths[run] = end, place - valid.shape[1]  # the last row again and again
        run += 1
        valid[sample, place:] = False
