"""Labels as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.neural.recordings.arrays import identify, sliced

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


def test_a_machine_without_memory_is_no_damage():
    class Huge:
        shape, dtype = (4,), np.dtype(np.int64)

        def __getitem__(self, choice):
            raise MemoryError

    with pytest.raises(MemoryError):
        sliced(Huge(), 0, "stim").read(0, 4)
