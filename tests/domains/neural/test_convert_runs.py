"""Runs of bins, by hand."""

from __future__ import annotations

import numpy as np

from outofcore.domains.neural.bins import REASONS, Slice
from outofcore.domains.neural.convert import NO_PREDECESSOR, OUTSIDE, find_runs
from outofcore.domains.neural.source import Piece
from outofcore.domains.neural.trials import Trials

NO_FRAME, MASKED = REASONS.index("no_frame"), REASONS.index("masked")


def held(first, reason, silent):
    nothing = np.zeros((len(reason), 1))
    reason, silent = (np.array(each, np.uint8) for each in (reason, silent))
    return Slice(first, nothing, nothing, nothing.astype(np.uint8), None, reason, silent)


def piece(start, stop, before, after, *trials):
    first, end = np.array(trials).T
    unknown = np.full(len(trials), -1)
    return Piece(start, stop, before, after, Trials(first, end, np.arange(len(trials)), unknown, unknown, 0))


def told(runs):
    return list(zip(runs.start.tolist(), runs.stop.tolist(), runs.trial.tolist(), runs.state.tolist(), strict=True))


def test_a_missing_frame_ends_a_run_and_a_missing_response_does_not():
    reason = [0, 0, NO_FRAME, NO_FRAME, 0, 0, 0, 0, 0, 0]
    silent = [0, MASKED, 0, 0, 0, MASKED, MASKED, 0, 0, MASKED]
    stored, listed = find_runs(piece(10, 20, 0, 0, (10, 16), (17, 20)), held(10, reason, silent), 0)
    outside = (16, 17, -1, OUTSIDE)
    assert told(stored) == [(10, 12, 0, 0), (12, 14, 0, NO_FRAME), (14, 16, 0, 0), outside, (17, 20, 1, 0)]
    assert told(listed) == [
        (10, 11, 0, 0),
        (11, 12, 0, MASKED),
        (12, 14, 0, NO_FRAME),
        (14, 15, 0, 0),
        (15, 16, 0, MASKED),
        outside,
        (17, 19, 1, 0),
        (19, 20, 1, MASKED),
    ]
    assert stored.good.tolist() == [True, False, True, False, True]
    assert stored.wrong.tolist() == [False, True, False, False, False]
    assert stored.length.tolist() == [2, 2, 2, 1, 3]
    assert not any((stored.continued, stored.unfinished, listed.continued, listed.unfinished))


def test_a_bin_without_one_before_it_is_neither_stored_nor_listed():
    reason, silent = [0, 0, NO_FRAME, 0, 0, 0, 0, 0], [0, 0, 0, 0, MASKED, 0, 0, 0]
    for before in (1, 2):
        stored, listed = find_runs(piece(0, 8, 0, 0, (0, 6), (6, 8)), held(0, reason, silent), before)
        alone = [
            start for start, stop, _, state in told(stored) for start in range(start, stop) if state == NO_PREDECESSOR
        ]
        assert alone == ([0, 3, 6] if before == 1 else [0, 1, 3, 4, 6, 7])
        assert np.flatnonzero(stored.wrong).tolist() == [told(stored).index((2, 3, 0, NO_FRAME))]
        masked = [(start, stop) for start, stop, _, state in told(listed) if state == MASKED]
        assert masked == ([(4, 5)] if before == 1 else [])


def test_runs_of_a_piece_know_whether_they_go_on():
    reason = [0, 0, 0, 0, NO_FRAME, NO_FRAME]
    silent = [MASKED, MASKED, 0, 0, 0, 0]
    stored, listed = find_runs(piece(1, 5, 1, 1, (0, 9)), held(0, reason, silent), 0)
    assert told(stored) == [(1, 4, 0, 0), (4, 5, 0, NO_FRAME)]
    assert told(listed) == [(1, 2, 0, MASKED), (2, 4, 0, 0), (4, 5, 0, NO_FRAME)]
    assert (stored.continued, stored.unfinished) == (True, True)
    assert (listed.continued, listed.unfinished) == (True, True)
    stored, listed = find_runs(piece(2, 4, 1, 1, (0, 9)), held(1, reason[1:5], silent[1:5]), 0)
    assert (stored.continued, stored.unfinished) == (True, False)
    assert (listed.continued, listed.unfinished) == (False, False)


def test_a_run_without_frames_and_one_without_responses_are_listed_apart():
    reason, silent = [NO_FRAME, NO_FRAME, 0, 0], [0, 0, NO_FRAME, NO_FRAME]
    _, listed = find_runs(piece(0, 4, 0, 0, (0, 4)), held(0, reason, silent), 0)
    assert told(listed) == [(0, 2, 0, NO_FRAME), (2, 4, 0, NO_FRAME)]
