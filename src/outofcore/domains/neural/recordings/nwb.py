"""NWB 2 files, read with h5py; their series have clocks.

Time series are named by their group (``acquisition/sweep_01``): voltage and current traces, image series, fluorescence
and other optical physiology. ``units`` holds spike times by neuron, ``intervals/trials`` start and stop.
"""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import pairwise
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import joined_intervals, listed_clock, nanoseconds, regular_clock
from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, flat, part
from outofcore.domains.neural.recordings.hdf5 import Hdf5Recording, as_array, damage_named, link_of
from outofcore.domains.neural.recordings.recording import intervals_of, split_column
from outofcore.ndarrays import Ints

# Largest plausible number of units; a longer index is invalid.
MOST_NEURONS = 1 << 20

INVALID = "intervals/invalid_times"
REGIONS = ("rois", "electrodes")
"""What a series has in place of a table of its own: rows of one, an entry for each of its columns.

A table may have columns of these names as well."""


class NwbRecording(Hdf5Recording):
    format = "nwb"
    suffixes = (".nwb",)
    unit: TimeUnit | None = "s"
    always_read = (INVALID,)

    def listed(self, name: str, item: Any) -> bool:
        """Whether something is a series, a table or a column of one."""
        if name.startswith("specifications"):
            return False
        if isinstance(item, h5py.Group):
            return bool({"data", "start_time", "order_of_images", "spike_times"} & set(item))
        return _is_table(item.parent)

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        """The data of a series, the intervals of a table, or a column."""
        node = self.resolve(name)
        if isinstance(node, h5py.Dataset):
            return as_array(node, axis)
        if (intervals := intervals_of(self, name)) is not None:
            return intervals
        if link_of(node, "order_of_images") is not None:
            return _images(self.file, node, axis)
        outside = self._part(name, "external_file")
        if outside is not None:
            raise SessionError(
                "external_link",
                f"{name!r} keeps its frames in {math.prod(outside.shape)} other files, which are not read",
            )
        array = self._part(name, "data", axis)
        if array is None:
            raise SessionError(
                "wrong_type", f"{name!r} is no series: it has no data; name one of {', '.join(self.names()[:24])}"
            )
        return self._in_its_unit(name, array, axis)

    def trains(self, name: str) -> list[RecordedArray]:
        """Spike times of the units, or ragged vectors as in plain HDF5."""
        if link_of(self.resolve(name), "spike_times_index") is None:
            return super().trains(name)
        times = flat(self._required(name, "spike_times"), f"{name}/spike_times: expected a time for each spike")
        return [part(times, start, end) for start, end in self._bounds(name, "spike_times", times.shape[0])]

    def observed(self, name: str) -> list[Ints | None] | None:
        """The ``obs_intervals`` of each unit; for a unit that has spikes but no interval, nothing states it."""
        units = self.resolve(name)
        if any(link_of(units, key) is None for key in ("obs_intervals", "obs_intervals_index", "spike_times_index")):
            return None
        table = self._required(name, "obs_intervals")
        if table.shape[1:] != (2,) or table.dtype.kind not in "iuf":
            raise SessionError(
                "wrong_shape",
                f"{name}/obs_intervals: expected a start and a stop each, got {table.dtype} {table.shape}",
            )
        spikes = self._bounds(name, "spike_times", self._required(name, "spike_times").shape[0])
        intervals = self._bounds(name, "obs_intervals", table.shape[0])
        if len(spikes) != len(intervals):
            raise SessionError(
                "unequal_length", f"{name}: {len(spikes)} units have spike times, {len(intervals)} have obs_intervals"
            )
        with damage_named(f"{name}/obs_intervals"):
            times = nanoseconds(table.read(0, table.shape[0]), "s")
        return [
            joined_intervals(times[start:end]) if end > start or last == first else None
            for (start, end), (first, last) in zip(intervals, spikes, strict=True)
        ]

    def invalid_times(self) -> Ints:
        """The table ``intervals/invalid_times``."""
        try:
            table = self.array(INVALID)
        except KeyError:
            return super().invalid_times()
        with damage_named(INVALID):
            return joined_intervals(nanoseconds(table.read(0, table.shape[0]), "s"))

    def _bounds(self, name: str, column: str, entries: int) -> list[tuple[int, int]]:
        """First entry and end of each unit in a ragged column."""
        ends = self._values(name, f"{column}_index")
        if ends.dtype.kind == "f":
            raise SessionError("wrong_type", f"{name}/{column}_index: expected whole numbers, got {ends.dtype}")
        bounds = [0, *ends.astype(np.int64).tolist()]
        if any(end < start for start, end in pairwise(bounds)) or bounds[-1] > entries:
            raise SessionError(
                "unequal_length", f"{name}/{column}_index: expected ends that ascend to at most {entries}"
            )
        return list(pairwise(bounds))

    def column(self, name: str, column: str) -> npt.NDArray[Any]:
        """Numbers or words of the units, groups by their names; of a series, those of its rois. Raises SessionError."""
        node = self.resolve(name)
        key = next((key for key in REGIONS if link_of(node, key) is not None), None)
        if key is None or _is_table(node):
            return self._column(name, column)
        rows = self._values(name, key)
        with damage_named(f"{name}/{key}"):
            table = self.file[self.resolve(f"{name}/{key}").attrs["table"]].name
        values = self._column(table, column)
        if not np.isin(rows, np.arange(len(values))).all():
            raise SessionError(
                "wrong_shape",
                f"{name}/{key}: expected rows of {table}, from 0 to {len(values) - 1}, got up to {rows.max()}",
            )
        return np.asarray(values[rows])

    def _column(self, name: str, column: str) -> npt.NDArray[Any]:
        """A column of a table; of one with several numbers per row, the one in brackets."""
        table, dataset = self.resolve(name), None
        title, place = split_column(column)
        with suppress(KeyError):
            dataset = self.resolve(f"{name}/{title}")
        shape: tuple[int, ...] = dataset.shape if isinstance(dataset, h5py.Dataset) else ()
        inside = len(shape) == 1 if place is None else len(shape) == 2 and place in range(shape[1])
        if dataset is None or not inside or shape[0] > MOST_NEURONS or link_of(table, f"{title}_index") is not None:
            columns = ", ".join(sorted(table)) if isinstance(table, h5py.Group) else "none"
            raise SessionError(
                "missing_field",
                f"source.units: expected a column {column!r} with one entry per unit; {name} has {columns}",
            )
        with damage_named(f"{name}/{column}"):
            if h5py.check_ref_dtype(dataset.dtype) is not None:
                return np.array([self.file[group].name.rpartition("/")[2] for group in dataset[()]], object)
            values = dataset.asstr()[()] if h5py.check_string_dtype(dataset.dtype) else dataset[()]
            return np.asarray(values if place is None else values[:, place])

    def clock(self, name: str, count: int) -> RecordedArray | None:
        """The clock of a series: its timestamps, or its start and rate; always seconds."""
        series = self.resolve(name)
        key = "timestamps" if link_of(series, "timestamps") is not None else "starting_time"
        times = self._part(name, key) if link_of(series, "data") is not None else None
        if times is None:
            return None
        place = self.resolve(f"{name}/{key}")
        with damage_named(f"{name}/{key}"):
            unit = place.attrs.get("unit", "seconds")
        if not isinstance(unit, str) or unit != "seconds":
            raise SessionError(
                "time_unit", f"{name}/{key}: expected the unit that NWB prescribes, 'seconds', got {unit!r}"
            )
        if key == "timestamps":
            return listed_clock(flat(times, f"{name}/{key}: expected a time for each sample"), "s")
        start, rate = float(self._values(name, key, 1)[0]), _number(place, "rate", None)
        if not (math.isfinite(start) and math.isfinite(rate) and rate > 0):
            raise SessionError(
                "no_time", f"{name}/{key}: expected a start in seconds and a rate above 0, got {start:g} and {rate:g}"
            )
        return regular_clock(start, rate, count)

    def _in_its_unit(self, name: str, array: RecordedArray, axis: int) -> RecordedArray:
        """A series in its stated unit: data * conversion + offset, with an optional conversion per channel."""
        data = self.resolve(f"{name}/data")
        factor, offset = np.array(_number(data, "conversion", 1.0)), _number(data, "offset", 0.0)
        if link_of(self.resolve(name), "channel_conversion") is not None:
            if axis:
                raise SessionError(
                    "wrong_shape", f"{name!r} converts by channel along its second axis: source.time_axis must be 0"
                )
            factor = factor * self._values(name, "channel_conversion", array.columns)
        if np.all(factor == 1) and offset == 0:
            return array
        return RecordedArray(
            array.shape, np.dtype(np.float64), lambda start, stop: array.read(start, stop) * factor + offset
        )

    def _part(self, name: str, key: str, axis: int = 0) -> RecordedArray | None:
        """A dataset of a series or table, or None."""
        return None if link_of(self.resolve(name), key) is None else self._required(name, key, axis)

    def _required(self, name: str, key: str, axis: int = 0) -> RecordedArray:
        """A dataset that a series or table must have; its link may be broken."""
        try:
            return as_array(self.resolve(f"{name}/{key}"), axis)
        except KeyError as error:
            raise SessionError("unreadable_file", f"{name}/{key} leads to nothing") from error

    def _values(self, name: str, key: str, count: int | None = None) -> npt.NDArray[Any]:
        """A small vector, possibly stored as a column, a row or a single value; of ``count`` numbers if given."""
        array = self._required(name, key)
        size = math.prod(array.shape)
        fits = max(array.shape, default=1) == size and size <= MOST_NEURONS and count in (None, size)
        if not fits or array.dtype.kind not in "iuf":
            wanted = "a number per unit" if count is None else f"{count} numbers"
            raise SessionError("wrong_shape", f"{name}/{key}: expected {wanted}, got {array.dtype} {array.shape}")
        with damage_named(f"{name}/{key}"):
            return np.reshape(self.resolve(f"{name}/{key}")[()], -1)


def _is_table(node: Any) -> bool:
    """Whether a group is a table of columns, not a series."""
    with damage_named(node.name):
        return "colnames" in node.attrs


def _images(file: h5py.File, group: h5py.Group, axis: int) -> RecordedArray:
    """The pictures of a group, one by one, in their stated order, which the numbers of an IndexSeries mean."""
    with damage_named(f"{group.name}/order_of_images"):
        order = group["order_of_images"]
        places = (
            [file[reference] for reference in order[()]] if order.ndim == 1 and order.shape[0] <= MOST_NEURONS else []
        )
    pictures = [as_array(place) for place in places]
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) != 1 or len(shapes[0]) < 2 or axis:
        raise SessionError(
            "unequal_shapes",
            f"{group.name}: expected pictures of one shape, and source.time_axis 0; got shapes {shapes}",
        )

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        return np.stack([picture.read(0, picture.shape[0]) for picture in pictures[start:stop]])

    return RecordedArray((len(pictures), *shapes[0]), np.result_type(*(picture.dtype for picture in pictures)), read)


def _number(place: Any, key: str, default: float | None) -> float:
    """A single-number attribute; ``default`` if missing; if that is None, an error."""
    with damage_named(f"{place.name}, attribute {key}"):
        value = place.attrs.get(key, default)
    if not np.isscalar(value) or isinstance(value, (str, bytes)):
        raise SessionError("wrong_type", f"{place.name}: attribute {key!r}: expected a number, got {value!r:.40}")
    return float(value)  # type: ignore[arg-type]
