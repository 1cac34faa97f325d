"""HDF5 files, including MATLAB 7.3, through h5py.

Handles are local to a call and a thread: h5py objects must not cross a fork.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import SlicedArray
from outofcore.domains.neural.recordings.recording import SessionError, clean, native
from outofcore.raw.files import natural_order

if TYPE_CHECKING:
    from outofcore.domains.neural.clocks import Clock
    from outofcore.domains.neural.params import TimeUnit

# Limits on the number of values, absolute and per byte of their file (deflate reaches 1,032): a shape of terabytes
# never written has no bytes behind it and would take days to read.
FREE_BYTES, MOST_FOLD = 64 << 20, 2000
# Raised by h5py for a damaged file: invalid types, undecodable names, null references.
DAMAGE = (OSError, RuntimeError, TypeError, ValueError)
# Soft links may chain; more than this many in a row is a cycle.
MOST_LINKS = 16


class Hdf5Array:
    """A dataset, sliced along one of its axes.

    MATLAB writes arrays column by column, so all axes appear reversed; they are turned back.
    """

    def __init__(self, dataset: Any, axis: int) -> None:
        self._dataset = dataset
        self._reversed = "MATLAB_class" in dataset.attrs
        shape = dataset.shape[::-1] if self._reversed else dataset.shape
        if axis >= len(shape) > 0:
            message = f"{dataset.name}: no axis {axis} in shape {shape}; see source.time_axis"
            raise SessionError(message, reason="wrong_shape")
        self._axis = axis
        self.shape: tuple[int, ...] = (shape[axis], *shape[:axis], *shape[axis + 1 :]) if shape else ()
        kind = dataset.dtype
        self.dtype: np.dtype[Any] = np.dtype(np.uint8) if kind.kind == "b" else kind.newbyteorder("=")

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` along time."""
        rank = len(self.shape)
        place = rank - 1 - self._axis if self._reversed else self._axis
        choice = tuple(slice(start, stop) if axis == place else slice(None) for axis in range(rank))
        try:
            values = native(self._dataset[choice])
        except (OSError, RuntimeError, MemoryError) as error:  # h5py raises either for a damaged chunk
            message = f"{self._dataset.name}, entries {start} to {stop}: {clean(error)}"
            raise OSError(message) from error
        return np.moveaxis(values.T if self._reversed else values, self._axis, 0)


class Hdf5Recording:
    """An HDF5 file."""

    streamed = False
    unit: TimeUnit | None = None

    def __init__(self, path: Path) -> None:
        try:
            # Read-only, so a lock would only block others; some filesystems have none.
            self.file = h5py.File(path, "r", locking=False)
        except OSError as error:
            if path.suffix == ".mat" and not h5py.is_hdf5(path):
                message = "a .mat file older than version 7.3; save it in MATLAB with '-v7.3'"
                raise SessionError(message, reason="unreadable_file") from error
            message = f"not a readable HDF5 file: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error

    def names(self) -> list[str]:
        """Paths of all datasets."""
        found: list[str] = []

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and not name.startswith("#"):
                found.append(name)

        with suppress(*DAMAGE, KeyError):  # in a damaged file, whatever is readable
            self.file.visititems(visit)
        return found

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """A dataset by path."""
        return as_array(self.resolve(name), axis)

    def trains(self, name: str) -> list[SlicedArray]:
        """The datasets of a group, MATLAB cells, or one vector."""
        found = self.resolve(name)
        with damage_told(name):
            if isinstance(found, h5py.Group):
                return [self.array(f"{name}/{key}") for key in sorted(found, key=natural_order)]
            if h5py.check_ref_dtype(found.dtype) is not None:
                return [as_array(self.file[reference], 0) for reference in found[()].T.reshape(-1)]
        return [as_array(found, 0)]

    def clock(self, name: str, count: int) -> Clock | None:
        """None: plain HDF5 keeps clocks in arrays of their own."""
        del name, count
        return None

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def resolve(self, name: str) -> Any:
        """The group or dataset at a path, following links by hand so that none leaves this file.

        Raises KeyError if it does not exist, SessionError for a link into another file or damage.
        """
        steps, group, links = name.strip("/").split("/"), self.file["/"], 0
        while steps:
            step = steps.pop(0)
            link = _link(group, step)
            if link is None:
                raise KeyError(name)
            if isinstance(link, h5py.ExternalLink):
                message = f"{name!r} is a link into another file, {link.filename!r}; copy the data into the session"
                raise SessionError(message, reason="external_link")
            if isinstance(link, h5py.SoftLink):
                links += 1
                if links > MOST_LINKS:
                    raise KeyError(name)
                steps = link.path.strip("/").split("/") + steps
                group = self.file["/"] if link.path.startswith("/") else group
                continue
            with damage_told(name):  # the link exists, its target may not
                group = group[step]
        return group


def _link(group: Any, step: str) -> Any:
    """The link of a name in a group, or None."""
    if not isinstance(group, h5py.Group):
        return None
    with damage_told(step):
        return group.get(step, getlink=True)


@contextmanager
def damage_told(name: str) -> Iterator[None]:
    """Convert h5py errors of a damaged file to errors of the session."""
    try:
        yield
    except (*DAMAGE, KeyError) as error:
        message = f"{name!r} cannot be read, the file is damaged: {clean(error)}"
        raise SessionError(message, reason="unreadable_file") from error


def as_array(found: Any, axis: int) -> Hdf5Array:
    """A dataset as a sliced array; rejects datasets whose values are outside the file."""
    with damage_told(str(found.name)):
        return _as_array(found, axis)


def _as_array(dataset: Any, axis: int) -> Hdf5Array:
    if not isinstance(dataset, h5py.Dataset):
        held = (
            f"a group; name one of {', '.join(list(dataset)[:24])}" if isinstance(dataset, h5py.Group) else "no array"
        )
        message = f"{dataset.name!r} is {held}"
        raise SessionError(message, reason="wrong_type")
    if dataset.external or dataset.is_virtual:
        message = f"{dataset.name!r} keeps its values in other files; copy the data into the session"
        raise SessionError(message, reason="external_link")
    if h5py.check_ref_dtype(dataset.dtype) is not None:
        message = f"{dataset.name!r} holds references (MATLAB cells), which only names.spike_times can be"
        raise SessionError(message, reason="wrong_type")
    size, held = dataset.dtype.itemsize * math.prod(dataset.shape or ()), dataset.file.id.get_filesize()
    if size > FREE_BYTES + MOST_FOLD * held:
        message = f"{dataset.name!r}: shape {dataset.shape} tells {size} bytes of values, the whole file has {held}"
        raise SessionError(message, reason="too_large")
    return Hdf5Array(dataset, axis)
