"""Runs of bins: each within one trial, with all bins stored or all rejected for one reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.bins import REASONS, Slice
from outofcore.domains.neural.source import Piece

Ints = npt.NDArray[np.int64]

NO_PREDECESSOR = len(REASONS)
"""State of a bin that a transform would compare with a bin that does not exist."""
OUTSIDE = len(REASONS) + 1
"""State of a bin between trials."""


@dataclass(frozen=True)
class Runs:
    """The runs of a piece, in order; all arrays have shape (runs,)."""

    start: Ints  # bins of the session
    stop: Ints
    trial: Ints  # index into the piece's trials
    state: Ints  # 0 if stored, else index into bins.REASONS, NO_PREDECESSOR or OUTSIDE
    continued: bool  # the first run continues one of the previous piece
    unfinished: bool  # the last run continues in the next piece

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


def find_runs(piece: Piece, held: Slice, before: int) -> tuple[Runs, Runs]:
    """Runs to store or reject; and runs to report, which also end at a bin without a response.

    ``held`` includes the bins on both sides of the piece; ``before`` is how many bins the transforms look back.
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
    reported = np.where(state, state, held.silent)
    return _cut(piece, held.first, trial, state, state), _cut(piece, held.first, trial, reported, state)


def _cut(piece: Piece, first: int, trial: Ints, state: Ints, frames: Ints) -> Runs:
    """Runs of equal trial and state, with frames that are all stored (0) or none; ``first`` is their first bin."""
    change = (np.diff(trial) != 0) | (np.diff(state) != 0) | (np.diff(frames == 0) != 0)
    low, high = piece.start - first, piece.stop - first
    edges = np.flatnonzero(change) + 1
    start = np.concatenate([[low], edges[(edges > low) & (edges < high)]])
    return Runs(
        start + first,
        np.append(start[1:], high) + first,
        trial[start],
        state[start],
        continued=bool(low > 0 and not change[low - 1]),
        unfinished=bool(high < len(state) and not change[high - 1]),
    )
