"""Values of a session one entry at a time, by each format's plainest means, for the oracle."""

from __future__ import annotations

import lzma
import math
import threading
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import zarr
from zstandard import ZstdError

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.folder import split_column
from outofcore.domains.neural.recordings.recording import matching
from outofcore.domains.neural.sessions import Session, opened
from outofcore.raw.files import decompressed, natural_order

BLOCK = 1 << 20
READ_ERRORS = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, ZstdError)
"""Raised by the format readers for a damaged file."""


HELD_BYTES = 1 << 26
"""Total size of archive vectors kept in memory between bins; larger ones are read again."""


class _Member:
    """An array of an archive, kept open as a stream because bins are read in ascending order."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._stream = archive.open(name)
        version = np.lib.format.read_magic(self._stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, self._fortran, self._dtype = read(self._stream)
        self._offset = self._stream.tell()

    def entry(self, axis: int, number: int) -> npt.NDArray[Any]:
        """One entry along an axis; for any but the slowest axis, one from each stretch of the file."""
        order = range(len(self.shape))[:: -1 if self._fortran else 1]
        place = order.index(axis)
        sizes = [self.shape[each] for each in order]
        stretch = self._dtype.itemsize * math.prod(sizes[place + 1 :])
        parts = []
        for outer in range(math.prod(sizes[:place])):
            self._stream.seek(self._offset + (outer * sizes[place] + number) * stretch)
            parts.append(self._stream.read(stretch))
        values = np.frombuffer(b"".join(parts), self._dtype)
        sizes.pop(place)
        return values.reshape(sizes).T if self._fortran else values.reshape(sizes)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def whole(self) -> npt.NDArray[Any]:
        """All values, in file order."""
        self._stream.seek(self._offset)
        return np.frombuffer(self._stream.read(), self._dtype)


_LAST = threading.local()


def _close(archive: zipfile.ZipFile | None, members: dict[str, _Member]) -> None:
    for member in members.values():
        member.close()
    if archive is not None:
        archive.close()


def _files(session: Session) -> list[Path]:
    return [session.root / name for name in session.members] or [session.root]


class PlainSession:
    """A session, accessed by array name and entry number."""

    def __init__(self, session: Session, handle: Any) -> None:
        self._session, self._handle = session, handle
        self._vectors: dict[tuple[str, int | None], npt.NDArray[Any]] = {}
        self._members: dict[str, _Member] = {}
        self.unit: TimeUnit | None = "s" if session.kind == "nwb" else None

    @classmethod
    @contextmanager
    def of(cls, session: Session) -> Iterator[PlainSession]:
        """An open session."""
        if session.kind in ("hdf5", "nwb"):
            with h5py.File(session.root, "r", locking=False) as file:
                yield cls(session, file)
        elif session.kind == "zarr":
            yield cls(session, zarr.open_group(session.root, mode="r"))
        else:
            # Sequential streams stay open for the next unit that this thread converts.
            state = session, [(path.stat().st_mtime_ns, path.stat().st_ino) for path in _files(session)]
            held, _LAST.held = getattr(_LAST, "held", None), None
            if held is None or held[0] != state:
                held = state, cls(session, zipfile.ZipFile(session.root) if session.kind == "npz" else None)
                weakref.finalize(held[1], _close, held[1]._handle, held[1]._members)  # noqa: SLF001
            yield held[1]
            _LAST.held = held

    def length(self, name: str, axis: int) -> int:
        """Entries along time."""
        return sum(self._shape(each)[axis] for each in self._several(name))

    def entry(self, name: str, axis: int, number: int) -> npt.NDArray[Any]:
        """One entry along time."""
        for each in self._several(name):
            length = self._shape(each)[axis]
            if number < length:
                return self._one(each, axis, number)
            number -= length
        message = f"{name} has no entry {number}"
        raise IndexError(message)

    def longest(self, name: str) -> int:
        """The axis of a vector that may be stored as a row or a column."""
        return int(np.argmax(self._shape(self._several(name)[0])))

    def times(self, name: str, axis: int, times: str | None) -> Iterator[npt.NDArray[Any]]:
        """The clock of an array, block by block, in the unit of the file."""
        if times is not None:
            yield from self._blocks(times)
            return
        series = self._handle[name]
        if "timestamps" in series:
            yield from self._blocks(f"{name}/timestamps")
            return
        start, rate = series["starting_time"][()], series["starting_time"].attrs["rate"]
        length = self._shape(name)[axis]
        for first in range(0, length, BLOCK):
            yield start + np.arange(first, min(first + BLOCK, length)) / rate

    def trains(self, name: str, labels: str | None) -> list[Iterator[npt.NDArray[Any]]]:
        """Spike times of each neuron, block by block."""
        if labels is not None:
            found = {label for block in self._blocks(labels) for label in np.unique(block).tolist()}
            known = sorted(int(label) for label in found if 0 <= label < 2**62 and label == int(label))
            return [self._labelled(name, labels, label) for label in known]
        if self._session.kind in ("hdf5", "nwb") and "*" not in name:
            found = self._handle[name]
            if "spike_times_index" in found:
                ends = [0, *found["spike_times_index"][()].tolist()]
                spans = pairwise(ends)
                return [iter([found["spike_times"][start:end]]) for start, end in spans]
            if isinstance(found, h5py.Group):
                return [iter([found[key][()].reshape(-1)]) for key in sorted(found, key=natural_order)]
            if found.dtype.kind == "O":
                return [iter([self._handle[cell][()].reshape(-1)]) for cell in found[()].T.reshape(-1)]
        if self._session.kind == "zarr" and "*" not in name and isinstance(self._handle[name], zarr.Group):
            keys = sorted(self._handle[name].array_keys(), key=natural_order)
            return [iter([self._handle[f"{name}/{key}"][:].reshape(-1)]) for key in keys]
        return [self._blocks(each) for each in self._several(name)]

    def _labelled(self, name: str, labels: str, label: int) -> Iterator[npt.NDArray[Any]]:
        for times, owners in zip(self._blocks(name), self._blocks(labels), strict=True):
            yield times[owners == label]

    def _several(self, name: str) -> list[str]:
        if "*" not in name:
            return [name]
        with opened(self._session) as recording:
            return matching(recording, name)

    def _hdf5(self, name: str) -> Any:
        found = self._handle[name]
        return found["data"] if isinstance(found, h5py.Group) else found

    def _shape(self, name: str) -> tuple[int, ...]:
        kind = self._session.kind
        if kind in ("hdf5", "nwb"):
            data = self._hdf5(name)
            return tuple(data.shape[::-1] if "MATLAB_class" in data.attrs else data.shape)
        if kind == "zarr":
            return tuple(self._handle[name].shape)
        if kind == "npz":
            return self._member(name).shape
        file, column = split_column(name)
        if file in self._session.members and not file.endswith(".npy"):
            return self._text(file, column).shape
        return tuple(self._npy(file).shape)

    def _one(self, name: str, axis: int, number: int) -> npt.NDArray[Any]:
        kind = self._session.kind
        if kind in ("hdf5", "nwb"):
            data = self._hdf5(name)
            turned = "MATLAB_class" in data.attrs
            place = data.ndim - 1 - axis if turned else axis
            value = np.asarray(data[(*(slice(None),) * place, number)])
            if "conversion" in data.attrs:
                value = value * data.attrs["conversion"] + data.attrs.get("offset", 0.0)
                if "channel_conversion" in data.parent:
                    value = value * data.parent["channel_conversion"][()]
            return value.T if turned else value
        if kind == "zarr":
            return np.asarray(self._handle[name][(*(slice(None),) * axis, number)])
        if kind == "npz":
            return self._member(name).entry(axis, number)
        file, column = split_column(name)
        if file in self._session.members and not file.endswith(".npy"):
            return np.asarray(self._text(file, column)[number])
        return np.asarray(np.take(self._npy(file), number, axis))

    def _blocks(self, name: str) -> Iterator[npt.NDArray[Any]]:
        """A vector, block by block."""
        kind = self._session.kind
        if kind in ("hdf5", "nwb"):
            data = self._handle[name]
            flat = data if data.ndim == 1 or data.shape[0] > 1 else data[0]
            for start in range(0, len(flat), BLOCK):
                yield np.asarray(flat[start : start + BLOCK]).reshape(-1)
        elif kind == "npz":
            yield self._held(name, None, lambda: self._member(name).whole().reshape(-1))
        elif kind == "zarr":
            yield np.asarray(self._handle[name][:]).reshape(-1)
        else:
            file, column = split_column(name)
            if file in self._session.members and not file.endswith(".npy"):
                yield self._text(file, column).reshape(-1)
            else:
                yield np.asarray(self._npy(file)).reshape(-1)

    def _npy(self, file: str) -> npt.NDArray[Any]:
        path = self._session.root / f"{file.removesuffix('.npy')}.npy"
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))

    def _member(self, name: str) -> _Member:
        if name not in self._members:
            self._members[name] = _Member(self._handle, f"{name.removesuffix('.npy')}.npy")
        return self._members[name]

    def _held(self, name: str, column: int | None, read: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """A vector, cached if there is room."""
        found = self._vectors.get((name, column))
        if found is None:
            found = read()
            if sum(each.nbytes for each in self._vectors.values()) + found.nbytes <= HELD_BYTES:
                self._vectors[name, column] = found
        return found

    def _text(self, file: str, column: int | None) -> npt.NDArray[Any]:
        """A column of a text file, or all of it (a table if lines hold several numbers)."""
        return self._held(file, column, lambda: np.array(list(self._parsed(file, column)), np.float64))

    def _parsed(self, file: str, column: int | None) -> Iterator[float | list[float]]:
        first, width = True, 0
        with (self._session.root / file).open("rb") as raw:
            for line in decompressed(raw, file):
                text = line.decode("latin-1").split("#")[0].strip()
                mark = "," if "," in text else ";" if ";" in text else "\t" if "\t" in text else None
                words = text.split(mark) if text else []
                values = [_parse(word) for word in words]
                looked_at = values if column is None else values[column : column + 1]
                if words and not (first and None in looked_at):
                    width = width or len(words)
                    whole = column is not None or len(words) == width
                    numbers = [value if value is not None and whole else math.nan for value in values]
                    if column is None and width > 1:
                        yield numbers if whole else [math.nan] * width
                    else:
                        place = column or 0
                        yield numbers[place] if place < len(numbers) else math.nan
                first &= not words


def _parse(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
