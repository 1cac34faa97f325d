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
    DAMAGE,
    Mask,
    RecordedArray,
    SessionError,
    chunk_grid,
    guard_size,
    native,
    refusing,
    sliced,
    unwritten,
    written,
)
from outofcore.domains.neural.recordings.recording import Recording, intervals_of
from outofcore.system.failures import raise_if_of_system

with suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers the filters that it brings

# Soft links may chain; more than this many in a row is a cycle.
MOST_LINKS = 16


class Hdf5Recording(Recording):
    format = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5")

    def __init__(self, path: Path) -> None:
        with refusing("not a readable HDF5 file"):
            self.file = _opened(path)

    def names(self) -> list[str]:
        """Paths of everything that :meth:`array` reads."""
        paths: list[str] = []

        def visit(name: str, item: Any) -> None:
            if self.listed(name, item):
                paths.append(name)

        try:
            self.file.visititems(visit)
        except DAMAGE as error:  # in a damaged file, whatever is readable
            raise_if_of_system(error)
        return paths

    def listed(self, name: str, item: Any) -> bool:
        """Whether a group or dataset is one that users name."""
        return isinstance(item, h5py.Dataset) and not name.startswith("#")

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        return intervals_of(self, name) or as_array(self.resolve(name), axis)

    def cells(self, name: str, axis: int = 0) -> list[RecordedArray] | None:
        """MATLAB cells, column by column, or the rows of a ragged dataset."""
        dataset = self.resolve(name)
        if not isinstance(dataset, h5py.Dataset):
            return None
        with damage_named(name):
            if h5py.check_ref_dtype(dataset.dtype) is not None:
                return [as_array(self.file[reference], axis) for reference in dataset[()].T.reshape(-1)]
            ragged = isinstance(h5py.check_vlen_dtype(dataset.dtype), np.dtype)  # of text it is a class
            if not ragged or dataset.ndim != 1:
                return None
            return [sliced(row, axis, f"{name}, row {number}") for number, row in enumerate(dataset[()])]

    def members(self, name: str) -> list[str] | None:
        node = self.resolve(name)
        with damage_named(name):
            return list(node) if isinstance(node, h5py.Group) else None

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
                    "external_link",
                    f"{name!r} is a link into another file, {link.filename!r}; copy the data into the session",
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


def _opened(path: Path) -> h5py.File:
    """The file, read-only and unlocked, as some filesystems have no locks; one open in this program as that is."""
    for locking in (False, "best-effort"):
        try:
            return h5py.File(path, "r", locking=locking)
        except OSError as error:
            if "file locking" not in str(error):
                raise
    return h5py.File(path, "r", locking=True)


def link_of(group: Any, step: str) -> Any:
    """The link of a name in a group, or None."""
    with damage_named(step):
        return group.get(step, getlink=True) if isinstance(group, h5py.Group) else None


def damage_named(name: str) -> AbstractContextManager[None]:
    """Convert h5py errors of a damaged file to errors of the session."""
    return refusing(f"{name!r} cannot be read, the file is damaged")


def as_array(dataset: Any, axis: int = 0) -> RecordedArray:
    """A dataset as an array; rejects datasets whose values are outside the file."""
    with damage_named(str(dataset.name)):
        _check_readable(dataset)
        turned = "MATLAB_class" in dataset.attrs
        if turned and dataset.attrs.get("MATLAB_empty", 0):  # its values are its shape
            return sliced(np.empty(dataset[()].astype(np.int64)), axis, dataset.name)
        if turned and dataset.attrs["MATLAB_class"] == b"char":
            rows = ["".join(map(chr, row)) for row in np.atleast_2d(dataset[()].T).tolist()]
            return sliced(np.array(rows), axis, dataset.name)
        # HDF5 asks for the memory that the header of a damaged chunk names.
        array = sliced(dataset, axis, dataset.name, turned=turned, damage=(*DAMAGE, MemoryError))
        return written(array, _absent(dataset, dataset.ndim - 1 - axis if turned else axis), dataset.name)


def _absent(dataset: h5py.Dataset, axis: int) -> Mask | None:
    """Which entries along an axis of the file are in a chunk that was never written; None if none is."""
    if not dataset.size or not dataset.ndim or dataset.is_virtual:
        return None
    if not dataset.chunks:
        return None if dataset.id.get_storage_size() else np.ones(dataset.shape[axis], bool)
    if dataset.id.get_num_chunks() >= math.prod(chunk_grid(dataset.shape, dataset.chunks)):
        return None
    offsets: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: offsets.append(chunk.chunk_offset))
    places = [tuple(np.floor_divide(offset, dataset.chunks).tolist()) for offset in offsets]
    return unwritten(dataset.shape, dataset.chunks, axis, places)


def _inside(dataset: h5py.Dataset) -> bool:
    """Whether a virtual dataset has all its values in datasets of this file."""
    sources = dataset.virtual_sources()
    if not all(source.file_name == "." and source.dset_name in dataset.file for source in sources):
        return False
    mapped = sum(source.vspace.get_select_npoints() for source in sources)
    return mapped == dataset.size and all(_absent(dataset.file[source.dset_name], 0) is None for source in sources)


def _check_readable(node: Any) -> None:
    """Raise SessionError for what cannot be read as an array."""
    if isinstance(node, h5py.Group):
        raise SessionError("wrong_type", f"{node.name!r} is a group; name one of {', '.join(list(node)[:24])}")
    if not isinstance(node, h5py.Dataset):
        raise SessionError("wrong_type", f"{node.name!r} is no array")
    if node.external or (node.is_virtual and not _inside(node)):
        message = f"{node.name!r} keeps its values in other files; copy the data into the session"
        raise SessionError("external_link", message)
    plist = node.id.get_create_plist()
    for code, _, _, title in map(plist.get_filter, range(plist.get_nfilters())):
        if not h5py.h5z.filter_avail(code):
            message = f"{node.name!r} is compressed with filter {code} ({title.decode(errors='replace')})"
            raise SessionError("missing_filter", f"{message}; install hdf5plugin to read it")
    if "MATLAB_object_decode" in node.attrs:
        kind = native(np.asarray(node.attrs.get("MATLAB_class", b"object")))
        message = f"{node.name!r} is a MATLAB {kind}, an object without plain values"
        raise SessionError("wrong_type", f"{message}; save it as numbers or as a char array (double, posixtime, char)")
    if h5py.check_ref_dtype(node.dtype) is not None:
        message = f"{node.name!r} holds references (MATLAB cells)"
        raise SessionError("wrong_type", f"{message}; only arrays by trial and names.spike_times can be cells")
    guard_size(node.name, node.shape, node.dtype.itemsize * node.size, node.file.id.get_filesize())
