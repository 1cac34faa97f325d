"""HDF5 files, including MATLAB 7.3, through h5py.

Handles are local to a call and a thread: h5py objects must not cross a fork.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from outofcore.domains.neural.recordings.arrays import (
    SLICE_DAMAGE,
    Mask,
    RecordedArray,
    SessionError,
    chunk_grid,
    guard_size,
    refusing,
    sliced,
    unwritten,
    written,
)
from outofcore.domains.neural.recordings.recording import Recording, intervals_of
from outofcore.system.failures import raise_if_of_system

with suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers the filters that it brings

# Raised by h5py for a damaged file: invalid types, undecodable names, null references.
DAMAGE = (OSError, RuntimeError, TypeError, ValueError)
# Soft links may chain; more than this many in a row is a cycle.
MOST_LINKS = 16


class Hdf5Recording(Recording):
    format = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5")

    def __init__(self, path: Path) -> None:
        with refusing("not a readable HDF5 file", OSError):
            # Read-only, so a lock would only block others; some filesystems have none.
            self.file = h5py.File(path, "r", locking=False)

    def names(self) -> list[str]:
        """Paths of everything that :meth:`array` reads."""
        found: list[str] = []

        def visit(name: str, item: Any) -> None:
            if self.listed(name, item):
                found.append(name)

        try:
            self.file.visititems(visit)
        except (*DAMAGE, KeyError) as error:  # in a damaged file, whatever is readable
            raise_if_of_system(error)
        return found

    def listed(self, name: str, item: Any) -> bool:
        """Whether a group or dataset is one that users name."""
        return isinstance(item, h5py.Dataset) and not name.startswith("#")

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        return intervals_of(self, name) or as_array(self.resolve(name), axis)

    def cells(self, name: str, axis: int = 0) -> list[RecordedArray] | None:
        """MATLAB cells, column by column, or the rows of a ragged dataset."""
        found = self.resolve(name)
        if not isinstance(found, h5py.Dataset):
            return None
        with damage_named(name):
            if h5py.check_ref_dtype(found.dtype) is not None:
                return [as_array(self.file[reference], axis) for reference in found[()].T.reshape(-1)]
            if not isinstance(h5py.check_vlen_dtype(found.dtype), np.dtype) or found.ndim != 1:  # of text it is a class
                return None
            return [sliced(row, axis, f"{name}, row {number}") for number, row in enumerate(found[()])]

    def members(self, name: str) -> list[str] | None:
        found = self.resolve(name)
        with damage_named(name):
            return list(found) if isinstance(found, h5py.Group) else None

    def close(self) -> None:
        self.file.close()

    def resolve(self, name: str) -> Any:
        """The group or dataset at a path, following links by hand so that none leaves this file."""
        steps, group, links = name.strip("/").split("/"), self.file["/"], 0
        while steps:
            step = steps.pop(0)
            link = link_of(group, step)
            if isinstance(link, h5py.ExternalLink):
                raise SessionError(
                    f"{name!r} is a link into another file, {link.filename!r}; copy the data into the session",
                    reason="external_link",
                )
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


def damage_named(name: str) -> AbstractContextManager[None]:
    """Convert h5py errors of a damaged file to errors of the session."""
    return refusing(f"{name!r} cannot be read, the file is damaged", *DAMAGE, KeyError)


def as_array(found: Any, axis: int = 0) -> RecordedArray:
    """A dataset as an array; rejects datasets whose values are outside the file."""
    with damage_named(str(found.name)):
        message, reason = _refused(found)
        if not message:
            turned = "MATLAB_class" in found.attrs
            if turned and found.attrs.get("MATLAB_empty", 0):  # its values are its shape
                return sliced(np.empty(found[()].astype(np.int64)), axis, found.name)
            if turned and found.attrs["MATLAB_class"] == b"char":
                rows = ["".join(map(chr, row)) for row in np.atleast_2d(found[()].T).tolist()]
                return sliced(np.array(rows), axis, found.name)
            # HDF5 asks for the memory that the header of a damaged chunk names.
            damage = (*SLICE_DAMAGE, MemoryError)
            return written(
                sliced(found, axis, found.name, turned=turned, damage=damage),
                _absent(found, found.ndim - 1 - axis if turned else axis),
                found.name,
            )
    raise SessionError(message, reason=reason)


def _matlab_class(found: h5py.Dataset) -> str:
    kind = found.attrs.get("MATLAB_class", b"object")
    return kind.decode("utf-8", "replace") if isinstance(kind, bytes) else str(kind)


def _absent(found: h5py.Dataset, axis: int) -> Mask | None:
    """Which entries along an axis of the file are in a chunk that was never written; None if none is."""
    if not found.size or not found.ndim or found.is_virtual:
        return None
    if not found.chunks:
        return None if found.id.get_storage_size() else np.ones(found.shape[axis], bool)
    if found.id.get_num_chunks() >= math.prod(chunk_grid(found.shape, found.chunks)):
        return None
    offsets: list[tuple[int, ...]] = []
    found.id.chunk_iter(lambda chunk: offsets.append(chunk.chunk_offset))
    places = [tuple(np.floor_divide(offset, found.chunks).tolist()) for offset in offsets]
    return unwritten(found.shape, found.chunks, axis, places)


def _inside(found: h5py.Dataset) -> bool:
    """Whether a virtual dataset has all its values in datasets of this file."""
    sources = found.virtual_sources()
    is_inside = all(each.file_name == "." and each.dset_name in found.file for each in sources)
    if not is_inside:
        return False
    mapped = sum(each.vspace.get_select_npoints() for each in sources)
    return mapped == found.size and all(_absent(found.file[each.dset_name], 0) is None for each in sources)


def _refused(found: Any) -> tuple[str, str]:
    """Why something cannot be read as an array, and the word for it; empty if it can."""
    if isinstance(found, h5py.Group):
        return f"{found.name!r} is a group; name one of {', '.join(list(found)[:24])}", "wrong_type"
    if not isinstance(found, h5py.Dataset):
        return f"{found.name!r} is no array", "wrong_type"
    if found.external or (found.is_virtual and not _inside(found)):
        return f"{found.name!r} keeps its values in other files; copy the data into the session", "external_link"
    plist = found.id.get_create_plist()
    for code, _, _, title in map(plist.get_filter, range(plist.get_nfilters())):
        if not h5py.h5z.filter_avail(code):
            named = f"filter {code} ({title.decode(errors='replace')})"
            return f"{found.name!r} is compressed with {named}; install hdf5plugin to read it", "missing_filter"
    if "MATLAB_object_decode" in found.attrs:
        kind = _matlab_class(found)
        what = f"{found.name!r} is a MATLAB {kind}, an object without plain values"
        return f"{what}; save it as numbers or as a char array (double, posixtime, char)", "wrong_type"
    if h5py.check_ref_dtype(found.dtype) is not None:
        return (
            f"{found.name!r} holds references (MATLAB cells); only arrays by trial and names.spike_times can be cells",
            "wrong_type",
        )
    guard_size(found.name, found.shape, found.dtype.itemsize * found.size, found.file.id.get_filesize())
    return "", ""
