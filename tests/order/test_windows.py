"""Windows against a plain list of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.order.windows import Window, Windows

Lengths = st.lists(st.integers(0, 30), min_size=0, max_size=12)
Tables = Callable[[], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]


def table(lengths: list[int]) -> Tables:
    sizes = np.array(lengths, np.int64)
    return lambda: (np.cumsum(sizes) - sizes, sizes)


@settings(deadline=None, max_examples=200)
@given(Lengths, st.integers(1, 12), st.integers(1, 12))
def test_never_crosses_and_misses_none(lengths: list[int], length: int, stride: int) -> None:
    windows = Windows(sum(lengths), Window(length=length, stride=stride, mode="never"), sequences=table(lengths))
    expected, start = [], 0
    for size in lengths:
        expected += [start + place for place in range(0, size - length + 1, stride)]
        start += size
    assert windows.first_rows(np.arange(windows.samples)).tolist() == expected


@settings(deadline=None, max_examples=200)
@given(Lengths, st.integers(1, 12), st.integers(1, 12), st.data())
def test_every_phase_stays_inside(lengths: list[int], length: int, stride: int, data: st.DataObject) -> None:
    window = Window(length=length, stride=stride, mode="never")
    windows = Windows(sum(lengths), window, phase=True, sequences=table(lengths))
    phase = data.draw(st.integers(0, stride - 1))
    first = windows.first_rows(np.arange(windows.samples), phase)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    assert all(len(set(owner[row : row + length].tolist())) == 1 and row + length <= len(owner) for row in first)
    assert len(set(first.tolist())) == len(first)
    long_enough = [number for number, size in enumerate(lengths) if size >= length]
    assert sorted({int(owner[row]) for row in first}) == long_enough


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 12), st.booleans(), st.data())
def test_pack_runs_on(rows: int, length: int, stride: int, phase: bool, data: st.DataObject) -> None:
    windows = Windows(rows, Window(length=length, stride=stride), phase=phase)
    moved = data.draw(st.integers(0, stride - 1)) if phase else 0
    first = windows.first_rows(np.arange(windows.samples), moved)
    assert first.tolist() == [moved + place * stride for place in range(windows.samples)]
    assert all(row + length <= rows for row in first)
    # No window is missing, but for the one that some phases have no room for.
    assert moved + windows.samples * stride + length > rows - (stride if phase else 0)
