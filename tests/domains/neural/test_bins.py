"""Bins of drawn sessions in every format against the naive reader."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.neural import source as cutting
from tests.domains.neural.naive import assert_as_naive
from tests.domains.neural.rig import convert, save_session, section_of

FORMATS = ("h5", "npz", "compressed", "npy", "zarr", "mat")


def drawn_clock(generator, start, rate, count, *, odd):
    """Ascending times with jitter; some have a pause or missing times."""
    times = start + (np.arange(count) + generator.uniform(-0.2, 0.2, count)) / rate
    if odd:
        times[count // 2 :] += 7 / rate
        times[generator.integers(1, count, 3)] = np.nan
    return times


def drawn_session(generator, *, clocked, spikes, odd, shown, masked, tabled):
    """Arrays by role."""
    count = 60
    arrays = {"stimulus": generator.integers(0, 256, (count, 2, 3)).astype(np.uint8)}
    arrays["responses"] = generator.normal(size=(count, 2))
    arrays["behavior"] = generator.normal(size=(count, 2) if tabled else count)
    if odd:
        arrays["responses"][generator.integers(0, count, 4), 0] = np.nan
        arrays["behavior"][generator.integers(0, count, 2)] = np.inf
    if shown:
        arrays["frame"] = generator.integers(-1 if odd else 0, count, count)
    if masked:
        arrays["valid"] = generator.integers(0, 2, (count, 2) if tabled else count)
    if clocked:
        start = generator.uniform(-3, 30)
        arrays["frame_times"] = drawn_clock(generator, start, 20, count, odd=odd)
        arrays["sample_times"] = drawn_clock(generator, start - 0.3, 33, count, odd=False)
        arrays["behavior_times"] = drawn_clock(generator, start + 0.2, 19, count, odd=odd)
        arrays["trial"] = start + np.array([[0.1, 0.9], [1.0, 1.7], [1.7, 3.2]])
    if spikes:
        del arrays["responses"], arrays["sample_times"]
        trains = [np.sort(generator.uniform(start - 1, start + 5, size)) for size in (40, 15)]
        arrays["spike_times"] = trains
    return arrays


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_every_bin_is_what_the_naive_reader_gives(data):
    draw = data.draw
    clocked, odd, shown, masked, tabled = (draw(st.booleans()) for _ in range(5))
    spikes, kind = clocked and draw(st.booleans()), draw(st.sampled_from(FORMATS))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    arrays = drawn_session(
        generator, clocked=clocked, spikes=spikes, odd=odd, shown=shown, masked=masked, tabled=tabled
    )
    names = {"responses": None} | {role: role for role in arrays}
    stored = dict(arrays)
    if spikes:
        times, owners = np.concatenate(arrays["spike_times"]), np.repeat([3, 7], [40, 15])
        order = np.argsort(times, kind="stable") if draw(st.booleans()) else slice(None)  # by time or by neuron
        stored |= {"spike_times": times[order], "owners": owners[order]}
        names["spike_neurons"] = "owners"
        if kind in ("h5", "zarr") and draw(st.booleans()):
            del stored["owners"], stored["spike_times"], names["spike_neurons"]
            names["spike_times"] = "units"
            stored |= {f"units/{unit}": train for unit, train in zip((3, 7), arrays["spike_times"], strict=True)}
    marks = draw(st.sampled_from(["table", "vectors", "group"])) if clocked else "table"
    if marks == "vectors" or (marks == "group" and kind in ("h5", "zarr")):
        begun, ended = stored.pop("trial").T
        stored |= {"trial/start": begun, "trial/end": ended} if marks == "group" else {"begun": begun, "ended": ended}
        names["trial"] = "trial" if marks == "group" else ["begun", "ended"]
    axes = {}
    if draw(st.booleans()):  # time is the last axis
        axes = {
            role: stored[role].ndim - 1 for role in ("stimulus", "responses", "behavior", "valid") if role in stored
        }
        stored |= {role: np.moveaxis(stored[role], 0, -1).copy() for role in axes}
    source = {"time_axis": axes, "names": names, "bin_width": 0.07 if clocked else None, "response_dtype": "float32"}
    if clocked:
        modes = st.sampled_from(["mean", "hold", "linear"])
        source["resample"] = {"responses": draw(modes), "behavior": draw(modes)}
    unit_bytes = draw(st.sampled_from([1, 300, 2000]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        whole = convert(save_session(kind, Path(folder), stored), **source)
        for name in ("UNIT_BYTES", "ONE_READER_UNIT_BYTES"):
            patch.setattr(cutting, name, unit_bytes)
        result = convert(Path(folder), **source)
    assert whole.units == 1
    assert (result.only.sequences, result.counts) == (whole.only.sequences, whole.counts)
    assert (result.found, result.accepted, result.rejects) == (whole.found, whole.accepted, whole.rejects)
    assert_as_naive(result, arrays, section_of(Path(), **source).source)
