"""Independent second reader: the format's own library, one bin at a time.

It shares no alignment code with the engine: times are scanned and compared from first to last, frames fetched singly.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.dtypes import bfloat16_values
from outofcore.domains.neural.params import Resampling, SourceSection, UnitCondition
from outofcore.domains.neural.reference import READ_ERRORS, NwbReference, Reference, reference
from outofcore.domains.neural.sessions import Session
from outofcore.domains.neural.transforms import Crop, Downsample, Normalise, Transforms

NANOSECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
# Relative tolerance for rounding to the stored type.
TOLERANCE = {"uint8": 0.0, "uint16": 0.0, "bfloat16": 2**-7, "float16": 2**-10, "float32": 1e-5}


def disagreements(
    session: Session, source: SourceSection, bins: Sequence[tuple[int, int]], rows: Mapping[str, npt.NDArray[Any]]
) -> list[str] | None:
    """One line per difference between stored rows and the oracle's.

    ``bins`` are bin numbers in the session and rows in ``rows``. None if the file is damaged and the oracle, which
    scans whole clocks, cannot read it.
    """
    try:
        with reference(session) as library:
            oracle = Oracle(library, source)
            return [line for number, row in bins for line in _compare(oracle, session.file, source, number, row, rows)]
    except READ_ERRORS:
        return None


def _compare(
    oracle: Oracle,
    file: str,
    source: SourceSection,
    number: int,
    row: int,
    rows: Mapping[str, npt.NDArray[Any]],
) -> Iterator[str]:
    for field, expected in oracle.bin(number, responses=bool(rows["dfs"][row].any())).items():
        stored = rows[field][row]
        if field == "stim" and source.stimulus_dtype == "bfloat16":
            stored = bfloat16_values(stored)
        dtype = source.stimulus_dtype if field == "stim" else source.response_dtype
        allowed = TOLERANCE["float32" if field == "behavior" else dtype]
        wide, wanted = np.asarray(stored, np.float64), np.asarray(expected, np.float64)
        if field == "robs" and wide.shape == wanted.shape:
            counts = rows["dfs"][row] != 0
            wide, wanted = np.where(counts, wide, 0), np.where(counts, wanted, 0)
        if wide.shape != wanted.shape or not np.allclose(wide, wanted, rtol=allowed, atol=allowed):
            yield f"{file}, bin {number}, {field}: the store has {_short(wide)}, the file says {_short(wanted)}"


def _short(values: npt.NDArray[Any]) -> str:
    flat = np.asarray(values).reshape(-1)
    return "[" + ", ".join(f"{value:g}" for value in flat[:6]) + (", ...]" if len(flat) > 6 else "]")


class Oracle:
    """Reads a session bin by bin."""

    def __init__(self, library: Reference, source: SourceSection) -> None:
        self._library, self._source = library, source
        self._names = source.names
        self._origin = 0
        if source.bin_width is not None:
            self._origin = min(
                int(times[np.isfinite(times)].min())
                for _, times in self._times(*self._screen())
                if np.isfinite(times).any()
            )

    def bin(self, number: int, *, responses: bool) -> dict[str, npt.NDArray[Any]]:
        """Expected stored values of a bin: ``stim``, and if responses count ``robs`` and ``behavior``."""
        found = {"stim": self._stimulus(number)}
        if not responses:
            return found
        found["robs"] = self._responses(number)
        if self._names.behavior is not None:
            mode, times = self._source.resample.behavior, self._names.behavior_times
            axis = self._source.time_axis.behavior
            found["behavior"] = self._sample(number, self._names.behavior, axis, times, mode).reshape(-1)
        return found

    def _screen(self) -> tuple[str, int, str | None]:
        """Name, time axis and clock of the array that was on screen."""
        names = self._names
        if names.frame is not None:
            return names.frame, self._library.longest(names.frame), names.frame_times
        return names.stimulus, self._source.time_axis.stimulus, names.frame_times

    def _edges(self, number: int) -> tuple[int, int]:
        assert self._source.bin_width is not None
        width = self._source.bin_width * 1e9
        return self._origin + round(number * width), self._origin + round((number + 1) * width)

    def _stimulus(self, number: int) -> npt.NDArray[np.float64]:
        transforms = self._source.transforms
        back = sum(each.name == "difference" for each in transforms)
        frames = [self._frame(number - step) for step in range(back, -1, -1)]
        return transform_plainly(frames, transforms)[0]

    def _frame(self, number: int) -> npt.NDArray[Any]:
        names, source = self._names, self._source
        axis = source.time_axis.stimulus
        if source.bin_width is not None and source.resample.stimulus != "hold":
            frame = self._sample(number, names.stimulus, axis, names.frame_times, source.resample.stimulus)
        else:
            entry = number
            if source.bin_width is not None:
                low, high = self._edges(number)
                entry = self._around(*self._screen(), (low + high) // 2)[0][0]
            if names.frame is not None:
                entry = int(self._library.entry(names.frame, self._library.longest(names.frame), entry).reshape(-1)[0])
            elif source.repeats is not None:
                count, frames = source.repeats.count, self._library.length(names.stimulus, axis)
                entry = entry // count if source.repeats.order == "together" else entry % frames
            frame = self._library.entry(names.stimulus, axis, entry)
        if source.frame_shape is not None:
            return frame.reshape(source.frame_shape)
        return frame if frame.ndim > 1 else frame.reshape(1, -1)

    def _responses(self, number: int) -> npt.NDArray[np.float64]:
        names, source = self._names, self._source
        if names.responses is not None:
            axis, mode = source.time_axis.responses, source.resample.responses
            return self._sample(number, names.responses, axis, names.sample_times, mode).reshape(-1)
        assert names.spike_times is not None
        low, high = self._edges(number)
        factor = NANOSECONDS[self._library.unit or source.spike_unit or source.time_unit]
        if names.spike_neurons is not None:
            return self._by_label(names.spike_times, names.spike_neurons, low, high, factor)
        counts: list[float] = []
        for row, train in enumerate(self._library.trains(names.spike_times)):
            if self._left_out and self._left_out[row]:
                continue
            blocks = (_nanoseconds(part, factor) for part in train)
            counts.append(float(sum(int(((times >= low) & (times < high)).sum()) for times in blocks)))
        return np.array(counts)

    @cached_property
    def _left_out(self) -> list[bool]:
        """Which units do not meet the conditions; none if there are no conditions."""
        name, conditions = self._names.spike_times or "", self._source.units
        columns = [cast("NwbReference", self._library).column(name, each.column) for each in conditions]
        return [not all(map(_meets, values, conditions)) for values in zip(*columns, strict=True)]

    def _by_label(self, name: str, labels: str, low: int, high: int, factor: float) -> npt.NDArray[np.float64]:
        """Spikes of each neuron from a time to another, where one vector holds the spikes of all."""
        known: set[float] = set()
        inside: Counter[float] = Counter()
        for values, owners in self._library.labelled(name, labels):
            times = _nanoseconds(values, factor)
            known.update(np.unique(owners).tolist())
            inside.update(owners[(times >= low) & (times < high)].tolist())
        top = 2.0**62 if any(isinstance(label, float) for label in known) else 2**63
        neurons = sorted(label for label in known if 0 <= label < top and label == int(label))
        return np.array([inside[label] for label in neurons], np.float64)

    def _sample(
        self, number: int, name: str, axis: int, times: str | None, mode: Resampling
    ) -> npt.NDArray[np.float64]:
        if self._source.bin_width is None:
            return np.asarray(self._library.entry(name, axis, number), np.float64)
        low, high = self._edges(number)
        centre = (low + high) // 2
        if mode == "mean":
            inside = [
                self._library.entry(name, axis, int(place) + start).astype(np.float64)
                for start, known in self._times(name, axis, times)
                for place in np.flatnonzero((known >= low) & (known < high))
            ]
            return np.asarray(sum(inside[1:], inside[0]) / len(inside), np.float64)
        (before, at), (after, then) = self._around(name, axis, times, centre)
        left = np.asarray(self._library.entry(name, axis, before), np.float64)
        if mode == "hold" or at == centre:
            return left
        right = np.asarray(self._library.entry(name, axis, after), np.float64)
        return left + (right - left) * ((centre - at) / (then - at))

    def _around(
        self, name: str, axis: int, times: str | None, moment: int
    ) -> tuple[tuple[int, float], tuple[int, float]]:
        """The last entry at or before a time, the first after it, and their times."""
        before, after = (-1, -math.inf), (-1, math.inf)
        for start, known in self._times(name, axis, times):
            earlier, later = np.flatnonzero(known <= moment), np.flatnonzero(known > moment)
            if len(earlier):
                before = int(earlier[-1]) + start, float(known[earlier[-1]])
            if len(later) and after[0] < 0:
                after = int(later[0]) + start, float(known[later[0]])
        return before, after

    def _times(self, name: str, axis: int, times: str | None) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
        """First entry and nanoseconds (whole float64, NaN if missing) of each block of a clock."""
        length = self._library.length(name, axis)
        factor = NANOSECONDS[self._library.unit or self._source.time_unit]
        start = 0
        for values in self._library.times(name, axis, times):
            known = _nanoseconds(values, factor)[: max(0, length - start)]
            yield start, known
            start += len(values)


def _meets(value: Any, condition: UnitCondition) -> bool:
    if isinstance(value, str):
        patterns = [re.escape(str(each)) for each in condition.values or ()]
        patterns = [each.replace(r"\*", ".*").replace(r"\?", ".") for each in patterns]
        return any(re.fullmatch(each, value, re.DOTALL) for each in patterns)
    if condition.values is not None and value not in condition.values:
        return False
    return bool((condition.min is None or value >= condition.min) and (condition.max is None or value <= condition.max))


def _nanoseconds(values: npt.NDArray[Any], factor: float) -> npt.NDArray[np.float64]:
    # Whole numbers stay exact in a double up to 104 days.
    wide = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        known = np.rint(wide * factor)
    return np.where(np.abs(known) < 2.0**63, known, np.nan)


def transform_plainly(frames: list[npt.NDArray[Any]], transforms: Transforms) -> list[npt.NDArray[np.float64]]:
    """Transform consecutive frames pixel by pixel; each difference shortens them by one."""
    whole = frames[0].dtype.kind in "iub"
    plain = [frame.astype(np.float64) for frame in frames]
    for each in transforms:
        if isinstance(each, Crop):
            plain = [frame[..., each.top :, each.left :][..., : each.height, : each.width] for frame in plain]
        elif isinstance(each, Downsample):
            plain = [_shrink(frame, each.factor, whole=whole) for frame in plain]
        elif isinstance(each, Normalise):
            plain = [(frame - each.mean) / each.std for frame in plain]
            whole = False
        else:
            plain = [later - earlier for earlier, later in pairwise(plain)]
            whole = False
    return plain


def _shrink(frame: npt.NDArray[np.float64], side: int, *, whole: bool) -> npt.NDArray[np.float64]:
    height, width = (size // side for size in frame.shape[-2:])
    squares = frame[..., : height * side, : width * side].reshape(*frame.shape[:-2], height, side, width, side)
    average: npt.NDArray[np.float64] = squares.mean((-3, -1))
    if whole:
        average = np.floor(average + 0.5)
    return average
