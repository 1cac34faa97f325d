"""Streams read in slices, and labels as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.neural.recordings.arrays import identify, sliced, streamed

NUMBERS = st.floats() | st.integers(-5, 2**40).map(float) | st.sampled_from([np.nan, -1.0, 0.5, 2.0**62])
WORDS = st.sampled_from(["grating", "film", "nan", "", "7"])


@given(st.lists(NUMBERS, min_size=1) | st.lists(WORDS, min_size=1), st.data())
def test_a_label_is_the_same_number_in_any_block(labels: list[float] | list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(labels)))
    values = np.array(labels)
    parts = np.concatenate([identify(values[:cut]), identify(values[cut:])])
    assert np.array_equal(identify(values), parts)


def test_whole_numbers_stay_what_they_are() -> None:
    labels = identify(np.array([3.0, 0.5, np.nan, -1.0, 12.0, 0.25, 0.5]))
    assert labels[[0, 2, 3, 4]].tolist() == [3, -1, -1, 12]
    assert labels[1] == labels[6] != labels[5]
    assert (labels[[1, 5]] > 2**32).all()


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32"])
def test_of_any_dtype(dtype: str) -> None:
    assert identify(np.array([[0, 7], [7, 2]], dtype)).tolist() == [[0, 7], [7, 2]]


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12),
)
def test_any_reads_are_those_of_the_array(blocks, reads):
    values = np.arange(sum(blocks))

    def produce():
        start = 0
        for size in blocks:
            yield values[start : start + size]
            start += size

    array = streamed(values.shape, values.dtype, produce)
    for start, length in reads:
        first, last = min(start, len(values)), min(start + length, len(values))
        assert array.read(first, last).tolist() == values[first:last].tolist()


def test_reads_that_go_forward_produce_every_block_once():
    produced = []

    def produce():
        for number in range(10):
            produced.append(number)
            yield np.arange(number * 5, number * 5 + 5)

    array = streamed((50,), np.dtype(np.int64), produce)
    for start in range(0, 48, 2):
        assert array.read(start, start + 3).tolist() == [start, start + 1, start + 2]
    assert produced == list(range(10))


def test_a_machine_without_memory_is_no_damage():
    class Huge:
        shape, dtype = (4,), np.dtype(np.int64)

        def __getitem__(self, choice):
            raise MemoryError

    with pytest.raises(MemoryError):
        sliced(Huge(), 0, "stim").read(0, 4)
