"""Values of a session one entry at a time, by the plainest means of each format: for the oracle."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import zarr

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.folder import split_column
from outofcore.domains.neural.recordings.recording import matching
from outofcore.domains.neural.sessions import Session, opened
from outofcore.raw.files import decompressed, natural_order

BLOCK = 1 << 20
READ_ERRORS = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What the readers of the formats raise where a file is damaged."""


def _loaded(path: Path, name: str) -> npt.NDArray[Any]:
    """An array of an .npz; of damage that seems to announce objects, numpy tells by a ValueError."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return np.asarray(archive[name])
    except ValueError as error:
        message = f"{path}, {name}: {error}"
        raise OSError(message) from error


class PlainSession:
    """A session, looked up by name and number."""

    def __init__(self, session: Session, handle: Any) -> None:
        self._session, self._handle = session, handle
        self._columns: dict[tuple[str, int], list[float]] = {}
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
            yield cls(session, None)

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

    def times(self, name: str, times: str | None) -> Iterator[npt.NDArray[Any]]:
        """The clock of an array, block by block, in the unit of the file."""
        if times is not None:
            yield from self._blocks(times)
            return
        series = self._handle[name]
        if "timestamps" in series:
            yield from self._blocks(f"{name}/timestamps")
            return
        start, rate = series["starting_time"][()], series["starting_time"].attrs["rate"]
        for first in range(0, len(series["data"]), BLOCK):
            yield start + np.arange(first, min(first + BLOCK, len(series["data"]))) / rate

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
            return self._member(name)[0]
        file, column = split_column(name)
        if file in self._session.members and not file.endswith(".npy"):
            return (len(self._text(file, column)),)
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
            shape, dtype, offset, entry, fortran = self._member(name)
            if axis or fortran:
                return np.asarray(np.take(_loaded(self._session.root, name), number, axis))
            size = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
            with zipfile.ZipFile(self._session.root) as archive, archive.open(entry) as stream:
                stream.seek(offset + number * size)
                return np.frombuffer(stream.read(size), dtype).reshape(shape[1:])
        file, column = split_column(name)
        if file in self._session.members and not file.endswith(".npy"):
            return np.array(self._text(file, column)[number])
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
            yield _loaded(self._session.root, name).reshape(-1)
        elif kind == "zarr":
            yield np.asarray(self._handle[name][:]).reshape(-1)
        else:
            file, column = split_column(name)
            if file in self._session.members and not file.endswith(".npy"):
                yield np.array(self._text(file, column))
            else:
                yield np.asarray(self._npy(file)).reshape(-1)

    def _npy(self, file: str) -> npt.NDArray[Any]:
        path = self._session.root / f"{file.removesuffix('.npy')}.npy"
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))

    def _member(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int, zipfile.ZipInfo, bool]:
        with zipfile.ZipFile(self._session.root) as archive:
            entry = archive.getinfo(f"{name.removesuffix('.npy')}.npy")
            with archive.open(entry) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(stream)
                return shape, dtype, stream.tell(), entry, fortran

    def _text(self, file: str, column: int) -> list[float]:
        if (file, column) not in self._columns:
            self._columns[file, column] = list(self._parsed(file, column))
        return self._columns[file, column]

    def _parsed(self, file: str, column: int) -> Iterator[float]:
        titled = False
        with (self._session.root / file).open("rb") as raw:
            for line in decompressed(raw, file):
                text = line.decode("latin-1").split("#")[0].strip()
                mark = "," if "," in text else ";" if ";" in text else "\t" if "\t" in text else None
                words = text.split(mark) if text else []
                try:
                    value = float(words[column]) if words else math.nan
                except (ValueError, IndexError):
                    value = math.nan
                    words = words if titled else []
                titled |= bool(words) or not math.isnan(value)
                if words:
                    yield value
