from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.neural.recordings.streamed import StreamedArray


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

    array = StreamedArray(values.shape, values.dtype, produce)
    for start, length in reads:
        first, last = min(start, len(values)), min(start + length, len(values))
        assert array.read(first, last).tolist() == values[first:last].tolist()


def test_reads_that_go_forward_produce_every_block_once():
    produced = []

    def produce():
        for number in range(10):
            produced.append(number)
            yield np.arange(number * 5, number * 5 + 5)

    array = StreamedArray((50,), np.dtype(np.int64), produce)
    for start in range(0, 48, 2):
        assert array.read(start, start + 3).tolist() == [start, start + 1, start + 2]
    assert produced == list(range(10))
