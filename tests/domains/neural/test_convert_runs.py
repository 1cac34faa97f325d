"""Runs of bins, by hand."""

from __future__ import annotations

import numpy as np

from outofcore.domains.neural.bins import REASONS, Slice
from outofcore.domains.neural.convert import NO_PREDECESSOR, OUTSIDE, find_runs
from outofcore.domains.neural.source import UnitBins
from outofcore.domains.neural.trials import Trials

NO_FRAME = REASONS.index("no_frame")


def aligned(first, reason):
    nothing = np.zeros((len(reason), 1))
    silent = np.zeros(len(reason), np.uint8)
    return Slice(first, nothing, nothing, nothing.astype(np.uint8), {}, np.array(reason, np.uint8), silent)


def unit_bins(start, stop, before, after, *trials):
    first, end = np.array(trials).T
    unknown = np.full(len(trials), -1)
    undivided = np.zeros((len(trials), 16), np.uint8), np.zeros(len(trials), np.int8), np.full(len(trials), "")
    return UnitBins(start, stop, before, after, Trials(first, end, unknown, unknown, unknown, 0, *undivided))


def tuples(runs):
    return list(zip(runs.start.tolist(), runs.stop.tolist(), runs.trial.tolist(), runs.state.tolist(), strict=True))


def test_a_missing_frame_and_the_end_of_a_trial_end_a_run():
    runs = find_runs(unit_bins(10, 20, 0, 0, (10, 16), (17, 20)), aligned(10, [0, 0, NO_FRAME, NO_FRAME, *[0] * 6]), 0)
    assert tuples(runs) == [
        (10, 12, 0, 0),
        (12, 14, 0, NO_FRAME),
        (14, 16, 0, 0),
        (16, 17, -1, OUTSIDE),
        (17, 20, 1, 0),
    ]
    assert runs.good.tolist() == [True, False, True, False, True]
    assert runs.wrong.tolist() == [False, True, False, False, False]
    assert runs.length.tolist() == [2, 2, 2, 1, 3]
    assert not runs.continued
    assert not runs.unfinished


def test_a_bin_without_one_before_it_is_neither_stored_nor_rejected():
    for before in (1, 2):
        runs = find_runs(unit_bins(0, 8, 0, 0, (0, 6), (6, 8)), aligned(0, [0, 0, NO_FRAME, 0, 0, 0, 0, 0]), before)
        alone = [
            start for start, stop, _, state in tuples(runs) for start in range(start, stop) if state == NO_PREDECESSOR
        ]
        assert alone == ([0, 3, 6] if before == 1 else [0, 1, 3, 4, 6, 7])
        assert np.flatnonzero(runs.wrong).tolist() == [tuples(runs).index((2, 3, 0, NO_FRAME))]


def test_runs_of_a_piece_know_whether_they_go_on():
    reason = [0, 0, 0, 0, NO_FRAME, NO_FRAME]
    runs = find_runs(unit_bins(1, 5, 1, 1, (0, 9)), aligned(0, reason), 0)
    assert tuples(runs) == [(1, 4, 0, 0), (4, 5, 0, NO_FRAME)]
    assert (runs.continued, runs.unfinished) == (True, True)
    runs = find_runs(unit_bins(2, 4, 1, 1, (0, 9)), aligned(1, reason[1:5]), 0)
    assert (runs.continued, runs.unfinished) == (True, False)
