from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.network import Network, NetworkShape
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


def test_targets_that_are_not_valid_are_ignored():
    tokens, valid = np.array([[5, 6, 0, 8, 8], [1, 2, 3, 4, 0]], np.uint16), np.ones((2, 5), bool)
    valid[0, 3:], valid[1, [0, 2]] = False, False
    batch = TextReading(end=0)({"tokens": tokens, "valid": valid}, GENERATOR)
    assert batch["inputs"].tolist() == [[5, 6, 0, 8], [1, 2, 3, 4]]
    assert batch["targets"].tolist() == [[6, 0, -100, -100], [2, -100, 4, 0]]


def test_a_rest_does_not_follow_the_end_of_another_document():
    rows = {"tokens": np.array([[5, 6, 0, 8, 9, 0, 0, 0]], np.uint16), "valid": np.ones((1, 8), bool)}
    rows["valid"][0, [3, 6, 7]] = False  # the rest 8, 9, 0 shares its 8 with a window before; then padding
    batch = TextReading(end=0)(rows, GENERATOR)
    assert batch["positions"].tolist() == [[0, 1, 2, 0, 1, 2, 0]]
    assert batch["segments"].tolist() == [[0, 0, 0, 1, 1, 1, 2]]


@given(rows=st.lists(st.lists(st.integers(0, 3), min_size=8, max_size=8), min_size=1, max_size=4))
def test_places_begin_again_after_each_end(rows):
    batch = TextReading(end=0)({"tokens": np.array(rows, np.uint16)}, GENERATOR)
    for row, positions, segments in zip(rows, batch["positions"].tolist(), batch["segments"].tolist(), strict=True):
        position, segment = -1, 0
        for token, found_position, found_segment in zip(row, positions, segments, strict=False):
            position, segment = (0, segment + 1) if token == 0 else (position + 1, segment)
            assert (found_position, found_segment) == (position, segment)


def test_the_first_token_of_a_document_is_not_predicted_from_the_document_before():
    torch.manual_seed(0)
    network = Network(NetworkShape(layers=2, width=16, heads=2, vocabulary=50, context=9)).eval()
    rows = np.array([[1, 2, 3, 4, 0, 7, 8, 0, 9, 5], [5, 6, 0, 6, 0, 7, 8, 0, 9, 5]], np.uint16)
    batch = TextReading(end=0)({"tokens": rows}, GENERATOR)
    hidden = network(batch["inputs"], batch["positions"], batch["segments"])
    assert batch["targets"][0, 4] == 7
    assert torch.allclose(hidden[0, 4:], hidden[1, 4:], atol=1e-6)
    alone = network(batch["inputs"][:1, 4:7])
    assert torch.allclose(hidden[:1, 4:7], alone, atol=1e-6)
