"""What trials of numbered pictures show, and which of them are repeats of each other."""

from __future__ import annotations

import numpy as np

from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.survey import survey_sessions
from outofcore.raw.files import find_files
from tests.domains.neural.rig import section_of

NONE = -1


def test_trials_repeat_each_other_if_they_show_the_same_pictures_in_the_same_order(tmp_path, write_h5):
    shown = [[5, 5], [5, 5], [NONE, NONE], [6, 5], [5, 6], [5, 6], [NONE, NONE], [5, NONE], [6, 6]]
    pictures = np.random.default_rng(0).integers(0, 256, (8, 2, 2)).astype(np.uint8)
    start = np.arange(0, 3 * len(shown), 3)  # the third bin is between trials
    numbers = np.concatenate([[*each, 7] for each in shown])
    arrays = {"scenes": pictures, "shown": numbers, "robs": np.ones((len(numbers), 1))}
    write_h5(arrays | {"trial": np.stack([start, start + 2], 1)})
    names = {"stimulus": "scenes", "frame": "shown", "responses": "robs", "trial": "trial"}
    files = find_files(tmp_path, "**/*", DOMAIN.suffixes, section="neural")
    ((_, survey),) = survey_sessions(files, section_of(tmp_path, names=names))
    repeat = survey.trials.repeat.tolist()
    assert [repeat[place] for place in (0, 1, 2, 6, 7, 8)] == [5, 5, NONE, NONE, 5, 6]
    assert repeat[4] == repeat[5] != repeat[3]
    assert survey.trials.condition.tolist() == [0, 0, NONE, NONE, 2, 2, NONE, 0, NONE]
