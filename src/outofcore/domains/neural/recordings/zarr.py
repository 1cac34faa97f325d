"""Zarr groups, version 2 and 3, through zarr-python."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import zarr

from outofcore.domains.neural.recordings.arrays import SlicedArray
from outofcore.domains.neural.recordings.recording import SessionError, clean, native
from outofcore.raw.files import natural_order

if TYPE_CHECKING:
    from outofcore.domains.neural.clocks import Clock
    from outofcore.domains.neural.params import TimeUnit


class ZarrArray:
    """An array of a group, sliced along one of its axes."""

    def __init__(self, array: Any, axis: int) -> None:
        if axis >= array.ndim > 0:
            message = f"{array.name}: no axis {axis} in shape {array.shape}; see source.time_axis"
            raise SessionError(message, reason="wrong_shape")
        self._array, self._axis = array, axis
        shape = array.shape
        self.shape: tuple[int, ...] = (shape[axis], *shape[:axis], *shape[axis + 1 :]) if shape else ()
        self.dtype: np.dtype[Any] = np.dtype(np.uint8) if array.dtype.kind == "b" else array.dtype.newbyteorder("=")

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` along time."""
        choice = (*(slice(None),) * self._axis, slice(start, stop))
        try:
            values = native(np.asarray(self._array[choice]))
        except (OSError, RuntimeError, ValueError, EOFError, zlib.error) as error:  # each codec has its own
            message = f"{self._array.name}, entries {start} to {stop}: {clean(error)}"
            raise OSError(message) from error
        return np.moveaxis(values, self._axis, 0)


class ZarrRecording:
    """A Zarr group in a folder."""

    streamed = False
    unit: TimeUnit | None = None

    def __init__(self, path: Path) -> None:
        try:
            self._group = zarr.open_group(path, mode="r")
        except (OSError, ValueError, KeyError, zarr.errors.BaseZarrError) as error:
            message = f"not a readable Zarr group: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error

    def names(self) -> list[str]:
        """Paths of all arrays."""
        members = self._group.members(max_depth=None)
        return sorted((name for name, member in members if isinstance(member, zarr.Array)), key=natural_order)

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """An array by path."""
        found: Any = self._group[name.strip("/")]
        if not isinstance(found, zarr.Array):
            message = f"{name!r} is a group; name one of its arrays"
            raise SessionError(message, reason="wrong_type")
        return ZarrArray(found, axis)

    def trains(self, name: str) -> list[SlicedArray]:
        """The arrays of a group, or one vector."""
        found: Any = self._group[name.strip("/")]
        if isinstance(found, zarr.Array):
            return [ZarrArray(found, 0)]
        return [self.array(f"{name}/{key}") for key in sorted(found.array_keys(), key=natural_order)]

    def clock(self, name: str, count: int) -> Clock | None:
        """None: Zarr keeps clocks in arrays of their own."""
        del name, count
        return None

    def close(self) -> None:
        """Nothing is held open between reads."""
