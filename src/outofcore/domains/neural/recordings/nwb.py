"""NWB 2 files, read with h5py; their series have clocks.

Time series are named by their group (``acquisition/sweep_01``): voltage and current traces, image series, fluorescence
and other optical physiology. ``units`` holds spike times by neuron, ``intervals/trials`` start and stop.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import Clock, ListedClock, RegularClock
from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import Part, SlicedArray
from outofcore.domains.neural.recordings.hdf5 import DAMAGE, Hdf5Array, Hdf5Recording, as_array, damage_told
from outofcore.domains.neural.recordings.recording import SessionError

# Largest plausible number of units; a longer index is invalid.
MOST_NEURONS = 1 << 20


class ScaledArray:
    """A series in its stated unit: data * conversion + offset, with an optional conversion per channel."""

    def __init__(self, array: SlicedArray, factor: npt.NDArray[np.float64], offset: float) -> None:
        self._array, self._factor, self._offset = array, factor, offset
        self.shape = array.shape
        self.dtype = np.dtype(np.float64)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` along time."""
        return self._array.read(start, stop) * self._factor + self._offset


class Intervals:
    """Start and stop of each row of an intervals table, shape (rows, 2), seconds."""

    def __init__(self, start: Hdf5Array, stop: Hdf5Array) -> None:
        if len(start.shape) != 1 or start.shape != stop.shape:
            message = f"expected start_time and stop_time of one length, got shapes {start.shape} and {stop.shape}"
            raise SessionError(message, reason="unequal_length")
        self._columns = (start, stop)
        self.shape = (start.shape[0], 2)
        self.dtype = np.dtype(np.float64)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows ``start`` to ``stop``."""
        return np.stack([column.read(start, stop) for column in self._columns], axis=1)


class NwbRecording(Hdf5Recording):
    """An NWB file."""

    unit: TimeUnit | None = "s"

    def names(self) -> list[str]:
        """Paths of series, tables and table columns."""
        found: list[str] = []

        def visit(name: str, item: Any) -> None:
            if name.startswith("specifications"):
                return
            series = isinstance(item, h5py.Group) and ("data" in item or "start_time" in item or name == "units")
            column = isinstance(item, h5py.Dataset) and item.parent.attrs.get("colnames") is not None
            if series or column:
                found.append(name)

        with suppress(*DAMAGE, KeyError):  # in a damaged file, whatever is readable
            self.file.visititems(visit)
        return found

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """The data of a series, the intervals of a table, or a column."""
        found = self.resolve(name)
        if isinstance(found, h5py.Dataset):
            return as_array(found, axis)
        if has(found, "start_time") and has(found, "stop_time"):
            return Intervals(self._part(name, "start_time"), self._part(name, "stop_time"))
        if has(found, "external_file"):
            count = math.prod(self._part(name, "external_file").shape)
            message = f"{name!r} keeps its frames in {count} other files, which are not read"
            raise SessionError(message, reason="external_link")
        if not has(found, "data"):
            message = f"{name!r} is no series: it has no data; name one of {', '.join(self.names()[:24])}"
            raise SessionError(message, reason="wrong_type")
        array = self._part(name, "data", axis)
        data = self.resolve(f"{name}/data")
        factor, offset = np.array(number(data, "conversion", 1.0)), number(data, "offset", 0.0)
        if has(found, "channel_conversion"):
            if axis:
                message = f"{name!r} converts by channel along its second axis: source.time_axis must be 0"
                raise SessionError(message, reason="wrong_shape")
            factor = factor * self._values(name, "channel_conversion", array.shape[1:2] or (1,))
        if np.all(factor == 1) and offset == 0:
            return array
        return ScaledArray(array, factor, offset)

    def trains(self, name: str) -> list[SlicedArray]:
        """Spike times of the units, or ragged vectors as in plain HDF5."""
        found = self.resolve(name)
        if not has(found, "spike_times_index"):
            return super().trains(name)
        times = self._part(name, "spike_times")
        if len(times.shape) != 1:
            message = f"{name}/spike_times: expected a time for each spike, got shape {times.shape}"
            raise SessionError(message, reason="wrong_shape")
        ends = self._values(name, "spike_times_index", None)
        if ends.dtype.kind == "f":
            message = f"{name}/spike_times_index: expected whole numbers, got {ends.dtype}"
            raise SessionError(message, reason="wrong_type")
        ends = ends.astype(np.int64)
        starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
        if (starts > ends).any() or ends.max(initial=0) > times.shape[0]:
            message = f"{name}/spike_times_index: expected ends that ascend to at most {times.shape[0]}"
            raise SessionError(message, reason="unequal_length")
        return [Part(times, int(start), int(end)) for start, end in zip(starts, ends, strict=True)]

    def clock(self, name: str, count: int) -> Clock | None:
        """The clock of a series: its timestamps, or its start and rate; always seconds."""
        found = self.resolve(name)
        if not has(found, "data"):
            return None
        key = "timestamps" if has(found, "timestamps") else "starting_time"
        if not has(found, key):
            return None
        times = self._part(name, key)
        place = self.resolve(f"{name}/{key}")
        with damage_told(f"{name}/{key}"):
            unit = place.attrs.get("unit", "seconds")
        if not isinstance(unit, str) or unit != "seconds":
            message = f"{name}/{key}: expected the unit that NWB prescribes, 'seconds', got {unit!r}"
            raise SessionError(message, reason="time_unit")
        if key == "timestamps":
            if len(times.shape) != 1:
                message = f"{name}/{key}: expected a time for each sample, got shape {times.shape}"
                raise SessionError(message, reason="wrong_shape")
            return ListedClock(times, "s")
        start, rate = float(self._values(name, key, ())), number(place, "rate", None)
        if not (math.isfinite(start) and math.isfinite(rate) and rate > 0):
            message = f"{name}/{key}: expected a start in seconds and a rate above 0, got {start:g} and {rate:g}"
            raise SessionError(message, reason="no_time")
        return RegularClock(start, rate, count)

    def _part(self, name: str, key: str, axis: int = 0) -> Hdf5Array:
        """A dataset of a series or table; it exists, but its link may be broken."""
        try:
            return as_array(self.resolve(f"{name}/{key}"), axis)
        except KeyError as error:
            message = f"{name}/{key} leads to nothing"
            raise SessionError(message, reason="unreadable_file") from error

    def _values(self, name: str, key: str, shape: tuple[int, ...] | None) -> npt.NDArray[Any]:
        """All values of a small dataset of that shape; shape None means a vector of at most MOST_NEURONS."""
        array = self._part(name, key)
        fits = len(array.shape) == 1 and array.shape[0] <= MOST_NEURONS if shape is None else array.shape == shape
        if not fits or array.dtype.kind not in "iuf":
            message = f"{name}/{key}: expected numbers of shape {shape or '(units,)'}, got {array.dtype} {array.shape}"
            raise SessionError(message, reason="wrong_shape")
        with damage_told(f"{name}/{key}"):
            return np.asarray(self.resolve(f"{name}/{key}")[()])


def has(found: Any, key: str) -> bool:
    """Whether a group has something of that name."""
    with damage_told(key):
        return isinstance(found, h5py.Group) and found.get(key, getlink=True) is not None


def number(place: Any, key: str, default: float | None) -> float:
    """A single-number attribute; ``default`` if missing; if that is None, an error."""
    with damage_told(f"{place.name}, attribute {key}"):
        value = place.attrs.get(key, default)
    if not np.isscalar(value) or isinstance(value, (str, bytes)):
        message = f"{place.name}: attribute {key!r}: expected a number, got {value!r:.40}"
        raise SessionError(message, reason="wrong_type")
    return float(value)  # type: ignore[arg-type]
