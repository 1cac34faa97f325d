"""Units joined in memory, against windows of the whole text in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.windows import Joined
from outofcore.order.windows import Window


def joined(units: list[list[int]], window: Window, *, moves: bool, epoch: int) -> tuple[list[list[int]], int]:
    """The windows of documents of these lengths, unit by unit, whose tokens count up; and how many it counts."""
    text = np.arange(sum(map(sum, units)), dtype=np.uint32)
    waiting, found, start = Joined(window, 3, epoch, moves=moves), list[list[int]](), 0
    for lengths in units:
        stop = start + sum(lengths)
        waiting.add(text[start:stop], np.array(lengths, np.int64))
        start = stop
        tokens, firsts = waiting.pool()
        found += [tokens[first : first + window.length].tolist() for first in firsts]
    return found, waiting.windows


@given(
    units=st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=12),
    length=st.integers(1, 9),
    stride=st.integers(1, 14),
    moves=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_windows_are_those_of_the_whole_wherever_it_was_cut(units, length, stride, moves, epoch):
    window = Window(length=length, stride=stride)
    found, count = joined(units, window, moves=moves, epoch=epoch)
    total = sum(map(sum, units))
    spare = stride - 1 if moves else 0
    assert len(found) == count == max(0, (total - length - spare) // stride + 1)
    starts = [window[0] for window in found]
    assert found == [list(range(start, start + length)) for start in starts]
    moved = starts[0] if starts else 0
    assert starts == list(range(moved, moved + count * stride, stride))
    assert moved <= spare


@given(
    units=st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=12),
    length=st.integers(1, 9),
    stride=st.integers(1, 14),
)
def test_no_window_crosses_documents(units, length, stride):
    window = Window(length=length, stride=stride, mode="never")
    found, count = joined(units, window, moves=False, epoch=0)
    lengths = [each for unit in units for each in unit]
    firsts = np.cumsum([0, *lengths]).tolist()
    expected = [
        list(range(first + start, first + start + length))
        for first, size in zip(firsts, lengths, strict=False)
        for start in range(0, size - length + 1, stride)
    ]
    assert found == expected
    assert count == len(expected)
