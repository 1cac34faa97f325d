from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.tensors import TextReading

GENERATOR = np.random.default_rng(0)


def test_targets_are_the_inputs_one_token_on():
    tokens = np.array([[5, 6, 7, 65_535], [1, 2, 3, 4]], np.uint16)
    batch = TextReading()({"tokens": tokens}, GENERATOR)
    assert batch["inputs"].tolist() == [[5, 6, 7], [1, 2, 3]]
    assert batch["targets"].tolist() == [[6, 7, 65_535], [2, 3, 4]]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
    tokens[:] = 0  # the loader uses its room again
    assert batch["inputs"][0, 0] == 5


@given(rows=st.lists(st.lists(st.integers(0, 3), min_size=8, max_size=8), min_size=1, max_size=4))
def test_places_begin_again_after_each_end(rows):
    batch = TextReading(end=0)({"tokens": np.array(rows, np.uint16)}, GENERATOR)
    for row, positions, segments in zip(rows, batch["positions"].tolist(), batch["segments"].tolist(), strict=True):
        position = segment = 0
        for token, found_position, found_segment in zip(row, positions, segments, strict=False):
            assert (found_position, found_segment) == (position, segment)
            position, segment = (0, segment + 1) if token == 0 else (position + 1, segment)


def test_the_same_where_rows_lie_on_a_device():
    for dtype, signed, mask in ((np.uint16, np.int16, 0xFFFF), (np.uint32, np.int32, 0xFFFFFFFF)):
        tokens = np.array([[0, 1, np.iinfo(dtype).max, 0, 7]], dtype)
        reading = TextReading(end=0, mask=mask)
        there = reading.on_device({"tokens": torch.from_numpy(tokens.view(signed))}, GENERATOR)
        here = reading({"tokens": tokens}, GENERATOR)
        assert all(torch.equal(here[name], there[name]) for name in here)
