"""Runs of bins: of one trial each, and either all of them count or all fail for one reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.bins import REASONS, Slice
from outofcore.domains.neural.source import Piece

Ints = npt.NDArray[np.int64]

NO_PREDECESSOR = len(REASONS)
"""State of a bin that a transform would compare with a bin that is none."""
OUTSIDE = len(REASONS) + 1
"""State of a bin between trials."""


@dataclass(frozen=True)
class Runs:
    """The runs of a piece, in order; all arrays have shape (runs,).

    Attributes
    ----------
    start, stop
        Range of bins of the session.
    trial
        Index into the piece's trials.
    state
        0 where the bins count, else why not: an index into :data:`outofcore.domains.neural.bins.REASONS`, or
        :data:`NO_PREDECESSOR` or :data:`OUTSIDE`.
    continued
        Whether the first run goes on from the piece before.
    unfinished
        Whether the last one goes on in the next piece.
    """

    start: Ints
    stop: Ints
    trial: Ints
    state: Ints
    continued: bool
    unfinished: bool

    @property
    def length(self) -> Ints:
        """Bins of each run."""
        return self.stop - self.start

    @property
    def good(self) -> npt.NDArray[np.bool_]:
        """Which runs become sequences."""
        counts: npt.NDArray[np.bool_] = self.state == 0
        return counts

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Which runs are rejected."""
        return (self.state > 0) & (self.state < NO_PREDECESSOR)


def find_runs(piece: Piece, held: Slice, before: int) -> Runs:
    """Find the runs of a piece.

    Parameters
    ----------
    piece
        Bins and their trials.
    held
        What was read, the bins on both sides included.
    before
        Bins that a transform looks back.
    """
    bins = np.arange(held.first, held.first + len(held.reason))
    trial = np.searchsorted(piece.trials[:, 0], bins, side="right") - 1
    trial[bins >= piece.trials[trial, 1]] = -1
    state = held.reason.astype(np.int64)
    fine = (state == 0) & (trial >= 0)
    for step in range(1, before + 1):
        behind = np.zeros(len(fine), bool)
        behind[step:] = fine[:-step] & (trial[step:] == trial[:-step])
        state[(state == 0) & ~behind] = NO_PREDECESSOR
    state[trial < 0] = OUTSIDE
    change = (np.diff(trial) != 0) | (np.diff(state) != 0)
    low, high = piece.start - held.first, piece.stop - held.first
    edges = np.flatnonzero(change) + 1
    start = np.concatenate([[low], edges[(edges > low) & (edges < high)]])
    return Runs(
        start + held.first,
        np.append(start[1:], high) + held.first,
        trial[start],
        state[start],
        continued=bool(low > 0 and not change[low - 1]),
        unfinished=bool(high < len(state) and not change[high - 1]),
    )
