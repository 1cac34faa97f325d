from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.windows import Windower, count_windows


@given(
    parts=st.lists(st.integers(0, 20), max_size=12),
    length=st.integers(1, 9),
    step=st.integers(1, 14),
    skip=st.integers(0, 13),
    spare=st.integers(0, 5),
)
def test_windows_are_those_of_the_whole_wherever_it_was_cut(parts, length, step, skip, spare):
    text = np.arange(sum(parts), dtype=np.uint16)
    last = len(text) - length - spare
    expected = [text[start : start + length].tolist() for start in range(skip, last + 1, step)]
    windower = Windower(length, step, skip, spare)
    found = []
    start = 0
    for size in parts:
        found += windower.add(text[start : start + size]).tolist()
        start += size
    assert found == expected
    assert count_windows(len(text) - skip, length, step, spare) == len(expected)


def test_what_ended_does_not_go_on():
    windower = Windower(3, 3)
    assert len(windower.add(np.arange(2))) == 0
    windower.end()
    assert windower.add(np.arange(5, 9)).tolist() == [[5, 6, 7]]


def test_windows_are_counted_for_every_phase():
    lengths = np.array([0, 4, 5, 6, 12])
    assert count_windows(lengths, 5, 3) == 0 + 0 + 1 + 1 + 3
    assert count_windows(12, 5, 3, spare=2) == 2
