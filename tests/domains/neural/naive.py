"""A naive reader: the bins of a session one by one, in plain Python, from its arrays as NumPy has them."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

import numpy as np
import pytest

from outofcore.domains.neural.transforms import Crop, Downsample, Normalise

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def nanoseconds(times, unit="s"):
    return [round(time * UNITS[unit]) if math.isfinite(time) else None for time in np.ravel(times).tolist()]


class NaiveSession:
    """Arrays by role, as ``source.names`` calls them; ``spike_times`` is a list with a vector per neuron."""

    def __init__(self, arrays, source):
        self.arrays, self.source = arrays, source
        clocks = (arrays[name] for name in ("frame_times", "sample_times", "behavior_times") if name in arrays)
        self.clock = nanoseconds(next(clocks, ())) or None  # of the stimulus, or else of the first series
        self.origin = min((time for time in self.clock or () if time is not None), default=0)
        if not self.clock and source.bin_width is not None:  # spikes alone: bins are counted from time 0
            first = np.min(arrays["trial"]) if "trial" in arrays else min(map(np.min, arrays["spike_times"]))
            self.origin = round(first * 1e9 // (source.bin_width * 1e9) * source.bin_width * 1e9)

    def span(self, number):
        width = self.source.bin_width * 1e9
        return self.origin + round(number * width), self.origin + round((number + 1) * width)

    def trial(self, number):
        """The trial in which a bin is, or None."""
        marks = np.asarray(self.arrays["trial"])
        if marks.ndim == 1:
            return int(marks[number]) if marks[number] >= 0 else None
        low, high = self.span(number)
        inside = [
            trial
            for trial, (start, stop) in enumerate(marks.tolist())
            if round(start * 1e9) <= (low + high) // 2 < round(stop * 1e9)
        ]
        return inside[0] if inside else None

    def bin(self, number):
        """The row of a bin, as the store should have it; None where there is no frame."""
        row = {}
        if "stimulus" in self.arrays:
            entry = number if self.clock is None else self.held(self.clock, number)
            if "frame" in self.arrays and entry is not None:
                entry = int(np.ravel(self.arrays["frame"])[entry])
            if entry is None or not 0 <= entry < len(self.arrays["stimulus"]):
                return None
            row["stim"] = self.arrays["stimulus"][entry]
        values = self.responses(number)
        robs = np.zeros(self.neurons) if values is None else np.ravel(values)
        dfs = np.isfinite(robs) & self.allowed(number) & (values is not None)
        if "behavior" in self.arrays:
            found = self.sampled("behavior", number)
            known = found is not None and bool(np.isfinite(found).all())
            row["behavior"] = np.ravel(found) if known else np.zeros(np.size(self.arrays["behavior"][0]))
            dfs &= known
        return row | {"robs": np.where(dfs, robs, 0), "dfs": dfs}

    @property
    def neurons(self):
        spikes = self.arrays.get("spike_times")
        return len(spikes) if spikes is not None else np.size(self.arrays["responses"][0])

    def responses(self, number):
        if "spike_times" not in self.arrays:
            return self.sampled("responses", number)
        low, high = self.span(number)
        return [
            sum(time is not None and low <= time < high for time in nanoseconds(train))
            for train in self.arrays["spike_times"]
        ]

    def allowed(self, number):
        """Which responses the session's own mask allows."""
        if "valid" not in self.arrays:
            return True
        mask = self.arrays["valid"]
        if self.clock is None:
            return np.ravel(mask[number]) != 0
        own = "sample_times" in self.arrays and len(mask) == len(self.arrays["responses"])
        entry = self.held(nanoseconds(self.arrays["sample_times"]) if own else self.clock, number)
        return entry is not None and np.ravel(mask[entry]) != 0

    def sampled(self, role, number):
        """The value of a matrix in a bin, or None."""
        values = self.arrays[role]
        if self.clock is None:
            return np.asarray(values[number], float) if number < len(values) else None
        times = nanoseconds(self.arrays[{"responses": "sample_times", "behavior": "behavior_times"}[role]])
        mode = getattr(self.source.resample, role)
        low, high = self.span(number)
        if mode == "mean":
            inside = [values[place] for place, time in enumerate(times) if time is not None and low <= time < high]
            with np.errstate(invalid="ignore"):
                return np.mean(np.asarray(inside, float), 0) if inside else None
        if mode == "hold":
            place = self.held(times, number)
            return None if place is None else np.asarray(values[place], float)
        known = [(time, place) for place, time in enumerate(times) if time is not None]
        centre = (low + high) // 2
        before = max((each for each in known if each[0] <= centre), default=None)
        after = min((each for each in known if each[0] > centre), default=None)
        if before is None or (before[0] < centre and (after is None or after[0] - before[0] > self.longest(times))):
            return None
        left = np.asarray(values[before[1]], float)
        if before[0] == centre:
            return left
        with np.errstate(invalid="ignore"):
            return left + (np.asarray(values[after[1]], float) - left) * ((centre - before[0]) / (after[0] - before[0]))

    def held(self, times, number):
        """The last entry at or before the centre of a bin, unless it is too old."""
        centre = sum(self.span(number)) // 2
        earlier = [place for place, time in enumerate(times) if time is not None and time <= centre]
        return earlier[-1] if earlier and centre - times[earlier[-1]] < self.longest(times) else None

    def longest(self, times):
        known = [time for time in times if time is not None]
        return int(1.5 * int(median(later - earlier for earlier, later in pairwise(known))))


def assert_as_naive(result, arrays, source):
    """Compare a converted session, bin by bin."""
    naive, rows, row = NaiveSession(arrays, source), result.only.rows, 0
    for sequence in result.only.sequences:
        for number in range(sequence["offset"], sequence["offset"] + sequence["length"]):
            expected = naive.bin(number)
            assert "trial" not in arrays or naive.trial(number) == sequence["trial"]
            assert ("stim" in rows) == ("stim" in expected)
            assert "stim" not in rows or np.array_equal(
                rows["stim"][row], np.reshape(expected["stim"], rows["stim"][row].shape)
            )
            assert np.array_equal(rows["dfs"][row], expected["dfs"])
            assert rows["robs"][row] == pytest.approx(expected["robs"], rel=1e-5, abs=1e-6)
            known = expected["dfs"].any()  # behaviour of a bin without a response counts for nothing
            if known and "behavior" in expected:
                assert rows["behavior"][row] == pytest.approx(expected["behavior"], rel=1e-5, abs=1e-6)
            row += 1
    bins = range(result.counts["bins"])
    inside = [number for number in bins if "trial" not in arrays or naive.trial(number) is not None]
    assert row == len(rows["robs"]) == sum(naive.bin(number) is not None for number in inside)


def transform_plainly(frames, transforms):
    """Transform consecutive frames one after another; each difference shortens them by one."""
    whole = frames[0].dtype.kind in "iub"
    plain = [frame.astype(np.float64) for frame in frames]
    for each in transforms:
        if isinstance(each, Crop):
            plain = [frame[..., each.top :, each.left :][..., : each.height, : each.width] for frame in plain]
        elif isinstance(each, Downsample):
            plain = [_shrink(frame, each.factor, whole=whole) for frame in plain]
        elif isinstance(each, Normalise):
            plain, whole = [(frame - each.mean) / each.std for frame in plain], False
        else:
            plain, whole = [later - earlier for earlier, later in pairwise(plain)], False
    return plain


def _shrink(frame, side, *, whole):
    height, width = (size // side for size in frame.shape[-2:])
    squares = frame[..., : height * side, : width * side].reshape(*frame.shape[:-2], height, side, width, side)
    average = squares.mean((-3, -1))
    return np.floor(average + 0.5) if whole else average
