from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.neural.transforms import bfloat16_bits, bfloat16_values, encode


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), max_size=50))
def test_bfloat16_is_rounded_as_torch_rounds(values):
    plain = np.array(values, np.float32)
    expected = torch.from_numpy(plain).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(bfloat16_values(bfloat16_bits(plain)), expected)


def test_whole_types_round_and_wrap_nothing():
    values = np.array([0, 255, 256, -1, 1.5, np.nan, np.inf])
    stored, fits = encode(values, "uint8")
    assert stored.tolist() == [0, 255, 0, 0, 0, 0, 0]
    assert fits.tolist() == [True, True, False, False, False, False, False]
    assert encode(values, "uint16")[1].tolist() == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
def test_floating_types_take_what_stays_finite(name):
    stored, fits = encode(np.array([1.5, 1e39, np.nan]), name)
    assert fits.tolist() == [True, False, False]
    assert (bfloat16_values(stored) if name == "bfloat16" else stored).tolist() == [1.5, 0, 0]


def test_what_has_the_type_already_is_not_copied():
    frames = np.zeros((3, 4), np.uint8)
    stored, fits = encode(frames, "uint8")
    assert stored is frames
    assert fits is None
