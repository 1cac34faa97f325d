from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import TypeAdapter

from outofcore.domains.neural.transforms import (
    Transforms,
    apply,
    bfloat16_bits,
    bfloat16_values,
    bins_before,
    encode,
    transformed_shape,
)
from tests.domains.neural.naive import transform_plainly

ADAPTER = TypeAdapter(Transforms)

crop = st.fixed_dictionaries(
    {
        "name": st.just("crop"),
        "top": st.integers(0, 2),
        "left": st.integers(0, 2),
        "height": st.integers(4, 5),
        "width": st.integers(4, 6),
    }
)
downsample = st.fixed_dictionaries({"name": st.just("downsample"), "factor": st.integers(2, 3)})
normalise = st.fixed_dictionaries(
    {"name": st.just("normalise"), "mean": st.floats(-100, 300), "std": st.floats(0.5, 300)}
)
difference = st.just({"name": "difference"})
steps = st.tuples(
    st.lists(crop, max_size=1), st.lists(downsample, max_size=1), st.lists(normalise | difference, max_size=3)
)


@settings(deadline=None)
@given(steps.map(lambda groups: [step for group in groups for step in group]), st.data())
def test_numpy_torch_and_plain_loops_agree(listed, data):
    transforms = ADAPTER.validate_python(listed)
    dtype = data.draw(st.sampled_from([np.uint8, np.float32]))
    elements = st.integers(0, 255) if dtype == np.uint8 else st.floats(-1000, 1000, width=32)
    frames = data.draw(arrays(dtype, (5, 8, 9), elements=elements))
    by_numpy = apply(frames, transforms)
    by_torch = apply(torch.from_numpy(frames), transforms).numpy()
    assert by_numpy.dtype == by_torch.dtype
    np.testing.assert_array_equal(by_numpy, by_torch)
    assert by_numpy.shape == (5 - bins_before(transforms), *transformed_shape((8, 9), transforms))
    plain = np.stack(transform_plainly(list(frames), transforms))
    # Differences cancel digits, and division by a small deviation magnifies what is left.
    np.testing.assert_allclose(by_numpy, plain, rtol=1e-4, atol=2e-2)


def test_time_may_be_another_axis():
    transforms = ADAPTER.validate_python([{"name": "difference"}, {"name": "downsample", "factor": 2}])
    frames = np.random.default_rng(0).integers(0, 256, (3, 6, 4, 4)).astype(np.uint8)
    together = apply(torch.from_numpy(frames), transforms, time=1).numpy()
    assert np.array_equal(together, np.stack([apply(each, transforms) for each in frames]))


def test_whole_pixels_are_rounded_half_up_and_stay_whole():
    transforms = ADAPTER.validate_python([{"name": "downsample", "factor": 2}])
    frame = np.array([[[1, 2, 255, 255], [1, 2, 255, 254]]], np.uint8)
    assert apply(frame, transforms).tolist() == [[[2, 255]]]
    assert apply(frame, transforms).dtype == np.uint8


@pytest.mark.parametrize("factor", [8, 9, 16])
def test_large_blocks_of_bright_pixels_do_not_overflow(factor):
    transforms = ADAPTER.validate_python([{"name": "downsample", "factor": factor}])
    frames = np.full((2, 35, 33), 255, np.uint8)
    expected = np.full((2, 35 // factor, 33 // factor), 255)
    assert np.array_equal(apply(frames, transforms), expected)
    assert np.array_equal(apply(torch.from_numpy(frames), transforms).numpy(), expected)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"name": "crop", "top": 5, "left": 0, "height": 4, "width": 4}, "does not lie inside a frame of 8 x 9"),
        ({"name": "downsample", "factor": 9}, "leaves nothing of a frame of 8 x 9"),
    ],
)
def test_what_does_not_fit_is_refused(step, words):
    with pytest.raises(ValueError, match=words):
        transformed_shape((8, 9), ADAPTER.validate_python([step]))


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
