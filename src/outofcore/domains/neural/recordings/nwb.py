"""NWB 2 files: an HDF5 file whose series know their clocks, read with h5py.

Time series of every kind are named by their group (``acquisition/sweep_01``): voltage and current traces, image series,
fluorescence and other optical physiology. ``units`` holds spike times by neuron, ``intervals/trials`` start and stop.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import Clock, ListedClock, RegularClock
from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import Part, SlicedArray
from outofcore.domains.neural.recordings.hdf5 import Hdf5Array, Hdf5Recording, as_array
from outofcore.domains.neural.recordings.recording import SessionError


class ScaledArray:
    """A series in the unit that it states: data * conversion + offset, with a conversion by channel perhaps."""

    def __init__(self, array: SlicedArray, factor: npt.NDArray[np.float64], offset: float) -> None:
        self._array, self._factor, self._offset = array, factor, offset
        self.shape = array.shape
        self.dtype = np.dtype(np.float64)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` along time."""
        return self._array.read(start, stop) * self._factor + self._offset


class Intervals:
    """Start and stop of each row of a table of intervals, shape (rows, 2), seconds."""

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
        """Paths of series and tables, and of the columns of tables."""
        found: list[str] = []

        def visit(name: str, item: Any) -> None:
            if name.startswith("specifications"):
                return
            series = isinstance(item, h5py.Group) and ("data" in item or "start_time" in item or name == "units")
            column = isinstance(item, h5py.Dataset) and item.parent.attrs.get("colnames") is not None
            if series or column:
                found.append(name)

        with suppress(RuntimeError, KeyError):  # of a damaged file, what there is
            self.file.visititems(visit)
        return found

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """The data of a series, the intervals of a table, or a column."""
        found = self.resolve(name)
        if isinstance(found, h5py.Dataset):
            return as_array(found, axis)
        if "start_time" in found and "stop_time" in found:
            columns = (self.resolve(f"{name}/{column}") for column in ("start_time", "stop_time"))
            return Intervals(*(as_array(column, 0) for column in columns))
        if "external_file" in found:
            message = f"{name!r} keeps its frames in {len(found['external_file'])} other files, which are not read"
            raise SessionError(message, reason="external_link")
        if "data" not in found:
            message = f"{name!r} is no series: it has no data; name one of {', '.join(self.names()[:24])}"
            raise SessionError(message, reason="wrong_type")
        data = self.resolve(f"{name}/data")
        array = as_array(data, axis)
        factor = np.float64(data.attrs.get("conversion", 1.0))
        offset = float(data.attrs.get("offset", 0.0))
        if "channel_conversion" in found:
            if axis:
                message = f"{name!r} converts by channel along its second axis: source.time_axis must be 0"
                raise SessionError(message, reason="wrong_shape")
            factor = factor * found["channel_conversion"][()]
        if np.all(factor == 1) and offset == 0:
            return array
        return ScaledArray(array, np.asarray(factor), offset)

    def trains(self, name: str) -> list[SlicedArray]:
        """Spike times of the units, or vectors as plain HDF5 keeps them."""
        found = self.resolve(name)
        if not (isinstance(found, h5py.Group) and "spike_times_index" in found):
            return super().trains(name)
        times = as_array(self.resolve(f"{name}/spike_times"), 0)
        ends = np.asarray(self.resolve(f"{name}/spike_times_index")[()], np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        return [Part(times, int(start), int(end)) for start, end in zip(starts, ends, strict=True)]

    def clock(self, name: str) -> Clock | None:
        """The clock of a series: its timestamps, or its start and rate; always seconds."""
        found = self.resolve(name)
        if not isinstance(found, h5py.Group) or "data" not in found:
            return None
        key = "timestamps" if "timestamps" in found else "starting_time"
        if key not in found:
            return None
        start = self.resolve(f"{name}/{key}")
        unit = start.attrs.get("unit", "seconds")
        if unit != "seconds":
            message = f"{name}/{key}: expected the unit that NWB prescribes, 'seconds', got {unit!r}"
            raise SessionError(message, reason="time_unit")
        if key == "timestamps":
            return ListedClock(as_array(start, 0), "s")
        return RegularClock(float(start[()]), float(start.attrs["rate"]), self.array(name).shape[0])
