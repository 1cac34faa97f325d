"""HDF5 files, including MATLAB 7.3, through h5py.

Handles are local to a call and a thread: h5py objects must not cross a fork.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py

from outofcore.domains.neural.recordings.arrays import SLICE_DAMAGE, Array, SessionError, clean, sliced
from outofcore.domains.neural.recordings.recording import Recording
from outofcore.raw.files import natural_order

# Limits on the number of values, absolute and per byte of their file (deflate reaches 1,032): a shape of terabytes
# never written has no bytes behind it and would take days to read.
FREE_BYTES, MOST_FOLD = 64 << 20, 2000
# Raised by h5py for a damaged file: invalid types, undecodable names, null references.
DAMAGE = (OSError, RuntimeError, TypeError, ValueError)
# Soft links may chain; more than this many in a row is a cycle.
MOST_LINKS = 16


class Hdf5Recording(Recording):
    def __init__(self, path: Path) -> None:
        try:
            # Read-only, so a lock would only block others; some filesystems have none.
            self.file = h5py.File(path, "r", locking=False)
        except OSError as error:
            message = f"not a readable HDF5 file: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error

    def names(self) -> list[str]:
        """Paths of everything that :meth:`array` reads."""
        found: list[str] = []

        def visit(name: str, item: Any) -> None:
            if self.listed(name, item):
                found.append(name)

        with suppress(*DAMAGE, KeyError):  # in a damaged file, whatever is readable
            self.file.visititems(visit)
        return found

    def listed(self, name: str, item: Any) -> bool:
        """Whether a group or dataset is one that users name."""
        return isinstance(item, h5py.Dataset) and not name.startswith("#")

    def array(self, name: str, axis: int = 0) -> Array:
        return as_array(self.resolve(name), axis)

    def cells(self, name: str, axis: int = 0) -> list[Array] | None:
        """MATLAB cells, column by column, or the rows of a ragged dataset."""
        found = self.resolve(name)
        if not isinstance(found, h5py.Dataset):
            return None
        with damage_named(name):
            if h5py.check_ref_dtype(found.dtype) is not None:
                return [as_array(self.file[reference], axis) for reference in found[()].T.reshape(-1)]
            ragged = h5py.check_vlen_dtype(found.dtype)
            if ragged is None or found.ndim != 1:
                return None
            return [sliced(row, axis, f"{name}, row {number}") for number, row in enumerate(found[()])]

    def trains(self, name: str) -> list[Array]:
        """The vectors of a group, MATLAB cells, ragged rows, or one vector."""
        found = self.resolve(name)
        if not isinstance(found, h5py.Group):
            return super().trains(name)
        with damage_named(name):
            keys = sorted(found, key=natural_order)
        return [self.array(f"{name}/{key}") for key in keys]

    def close(self) -> None:
        self.file.close()

    def resolve(self, name: str) -> Any:
        """The group or dataset at a path, following links by hand so that none leaves this file."""
        steps, group, links = name.strip("/").split("/"), self.file["/"], 0
        while steps:
            step = steps.pop(0)
            link = link_of(group, step)
            if isinstance(link, h5py.ExternalLink):
                message = f"{name!r} is a link into another file, {link.filename!r}; copy the data into the session"
                raise SessionError(message, reason="external_link")
            links += isinstance(link, h5py.SoftLink)
            if link is None or links > MOST_LINKS:
                raise KeyError(name)
            if isinstance(link, h5py.SoftLink):
                steps = link.path.strip("/").split("/") + steps
                group = self.file["/"] if link.path.startswith("/") else group
                continue
            with damage_named(name):  # the link exists, its target may not
                group = group[step]
        return group


def link_of(group: Any, step: str) -> Any:
    """The link of a name in a group, or None."""
    with damage_named(step):
        return group.get(step, getlink=True) if isinstance(group, h5py.Group) else None


@contextmanager
def damage_named(name: str) -> Iterator[None]:
    """Convert h5py errors of a damaged file to errors of the session."""
    try:
        yield
    except (*DAMAGE, KeyError) as error:
        message = f"{name!r} cannot be read, the file is damaged: {clean(error)}"
        raise SessionError(message, reason="unreadable_file") from error


def as_array(found: Any, axis: int = 0) -> Array:
    """A dataset as an array; rejects datasets whose values are outside the file."""
    with damage_named(str(found.name)):
        message, reason = _refused(found)
        if not message:
            turned = "MATLAB_class" in found.attrs
            # HDF5 asks for the memory that the header of a damaged chunk names.
            return sliced(found, axis, found.name, turned=turned, damage=(*SLICE_DAMAGE, MemoryError))
    raise SessionError(message, reason=reason)


def _refused(found: Any) -> tuple[str, str]:
    """Why something cannot be read as an array, and the word for it; empty if it can."""
    if isinstance(found, h5py.Group):
        return f"{found.name!r} is a group; name one of {', '.join(list(found)[:24])}", "wrong_type"
    if not isinstance(found, h5py.Dataset):
        return f"{found.name!r} is no array", "wrong_type"
    if found.external or found.is_virtual:
        return f"{found.name!r} keeps its values in other files; copy the data into the session", "external_link"
    if h5py.check_ref_dtype(found.dtype) is not None:
        return f"{found.name!r} holds references (MATLAB cells), which only names.spike_times can be", "wrong_type"
    size, held = found.dtype.itemsize * math.prod(found.shape or ()), found.file.id.get_filesize()
    if size > FREE_BYTES + MOST_FOLD * held:
        message = f"{found.name!r}: shape {found.shape} tells {size} bytes of values, the whole file has {held}"
        return message, "too_large"
    return "", ""
