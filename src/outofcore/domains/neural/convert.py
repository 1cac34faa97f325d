"""Convert a unit to rows and sequences.

A run is a stretch of bins within one trial that are all stored, or all rejected for one reason. Each run of stored bins
becomes a sequence, the others are reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.bins import REASONS, WAYS_OUT, Slice
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.recordings.arrays import Mask
from outofcore.domains.neural.source import UnitBins
from outofcore.domains.neural.transforms import bins_before
from outofcore.domains.neural.trials import UNLABELLED
from outofcore.domains.splits import SPLITS
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import KEY_BYTES, Reject, Unit, UnitResult

Fields = dict[str, npt.NDArray[Any]]

NO_PREDECESSOR = len(REASONS)
"""State of a bin that a transform would compare with a bin that does not exist."""
OUTSIDE = len(REASONS) + 1
"""State of a bin between trials."""


def convert(unit: Unit, section: NeuralSection) -> UnitResult:
    """Read, align and check the bins of a unit."""
    surveyed: tuple[Reject, ...] = tuple(unit.detail.get("rejects", ()))
    counts: dict[str, int] = dict(unit.detail.get("counts", {}))
    if "bins" not in unit.detail:
        keys = np.empty((0, KEY_BYTES), np.uint8)
        return UnitResult(found=len(surveyed), rows={}, sequences={}, keys=keys, rejects=surveyed, counts=counts)
    span: UnitBins = unit.detail["bins"]
    read = unit.detail["slice"]
    aligned: Slice = read if isinstance(read, Slice) else read()
    runs = find_runs(span, aligned, bins_before(section.source.transforms))
    rejects = (*surveyed, *_rejects(span, runs))
    rows = _rows(span, aligned, runs)
    if section.source.names.stimulus is None:
        del rows["stim"]
    trial = span.trials[runs.trial[runs.good]]
    first, lengths = runs.start[runs.good], runs.length[runs.good]
    continues = bool(runs.good[0] and runs.continued)
    counts |= _counts(runs, aligned.silent[span.start - aligned.first : span.stop - aligned.first], rows)
    if section.source.names.spike_times is not None:
        counts["spikes_stored"] = int(rows["robs"].sum(dtype=np.float64))
    return UnitResult(
        found=len(lengths) + len(rejects) - continues,
        rows=rows,
        sequences={
            "length": lengths,
            "trial": trial.label,
            "repeat": trial.repeat,
            "source": np.full(len(lengths), unit.source, np.int32),
            "offset": first,
            **({} if section.source.names.tier is None else {"tier": trial.tier}),
        },
        keys=trial.key,
        split=np.array(SPLITS)[trial.split],
        rejects=rejects,
        part=unit.detail["part"],
        continues=continues,
        unfinished=bool(runs.good[-1] and runs.unfinished),
        counts=counts,
    )


def _rows(span: UnitBins, aligned: Slice, runs: Runs) -> Fields:
    bins = np.arange(span.start, span.stop)
    trial = np.searchsorted(span.trials.start, bins, side="right") - 1
    first = span.trials.condition[trial]
    condition = np.where(first >= 0, first + bins - span.trials.start[trial], -1)
    fields: Fields = {"stim": aligned.stim, "robs": aligned.robs, "dfs": aligned.dfs, **aligned.covariates}
    rows = {name: field[span.start - aligned.first : span.stop - aligned.first] for name, field in fields.items()}
    rows["condition"] = condition.astype(np.int32)
    kept = np.repeat(runs.good, runs.length)
    return rows if kept.all() else {name: field[kept] for name, field in rows.items()}


def _rejects(span: UnitBins, runs: Runs) -> list[Reject]:
    """One reject per unusable run; a run continued from the previous unit was reported there."""
    reported = runs.wrong
    reported[0] &= not runs.continued
    columns = (runs.start, runs.state, span.trials.label[runs.trial])
    rejects = []
    for first, why, label in zip(*(column[reported].tolist() for column in columns), strict=True):
        trial = "bins without a label" if label == UNLABELLED else f"trial {label}"
        detail = f"{trial}, from bin {first} of the session on{WAYS_OUT.get(REASONS[why], '')}"
        rejects.append(Reject(reason=REASONS[why], offset=first, detail=detail))
    return rejects


def _counts(runs: Runs, silent: Bytes, rows: Fields) -> dict[str, int]:
    """Bins that are stored or not; of those stored, bins in which no response counts, by reason."""
    stored = np.repeat(runs.good, runs.length)
    reasons = np.bincount(silent[stored], minlength=len(REASONS)).tolist()
    return {
        "bins_stored": int(stored.sum()),
        "bins_without_response": sum(reasons[1:]),
        **{f"bins_without_response_{REASONS[why]}": count for why, count in enumerate(reasons) if why and count},
        "bins_rejected": int(runs.length[runs.wrong].sum()),
        "bins_without_predecessor": int(runs.length[runs.state == NO_PREDECESSOR].sum()),
        "responses_masked": int((rows["dfs"] == 0).sum()),
    }


@dataclass(frozen=True)
class Runs:
    """The runs of a unit, in order; all arrays have shape (runs,)."""

    start: Ints  # bins of the session
    stop: Ints
    trial: Ints  # index into the unit's trials
    state: Ints  # 0 if stored, else index into bins.REASONS, NO_PREDECESSOR or OUTSIDE
    continued: bool  # the first run continues one of the previous unit
    unfinished: bool  # the last run continues in the next unit

    @property
    def length(self) -> Ints:
        """Bins of each run."""
        return self.stop - self.start

    @property
    def good(self) -> Mask:
        """Which runs become sequences."""
        counts: Mask = self.state == 0
        return counts

    @property
    def wrong(self) -> Mask:
        """Which runs are rejected."""
        return (self.state > 0) & (self.state < NO_PREDECESSOR)


def find_runs(span: UnitBins, aligned: Slice, before: int) -> Runs:
    """Runs of equal trial and state, of which the stored ones have ``before`` bins of their trial before them."""
    bins = np.arange(aligned.first, aligned.first + len(aligned.reason))
    trial = np.searchsorted(span.trials.start, bins, side="right") - 1
    trial[bins >= span.trials.stop[trial]] = -1
    state = aligned.reason.astype(np.int64)
    fine = (state == 0) & (trial >= 0)
    for step in range(1, before + 1):
        behind = np.zeros(len(fine), bool)
        behind[step:] = fine[:-step] & (trial[step:] == trial[:-step])
        state[(state == 0) & ~behind] = NO_PREDECESSOR
    state[trial < 0] = OUTSIDE
    change = (np.diff(trial) != 0) | (np.diff(state) != 0)
    low, high = span.start - aligned.first, span.stop - aligned.first
    edges = np.flatnonzero(change) + 1
    start = np.concatenate([[low], edges[(edges > low) & (edges < high)]])
    return Runs(
        start + aligned.first,
        np.append(start[1:], high) + aligned.first,
        trial[start],
        state[start],
        continued=bool(low > 0 and not change[low - 1]),
        unfinished=bool(high < len(state) and not change[high - 1]),
    )
