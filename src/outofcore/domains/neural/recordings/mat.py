"""MATLAB files before version 7.3, which are not HDF5, through scipy.

A variable has at most 2 GB in them, and is decompressed whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from scipy.io import loadmat, whosmat

from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, refusing, sliced
from outofcore.domains.neural.recordings.hdf5 import Hdf5Recording
from outofcore.domains.neural.recordings.recording import Recording
from outofcore.system.failures import NamedFile


class MatRecording(Recording):
    format = "mat"
    suffixes = (".mat",)
    one_reader = True  # a variable is decompressed once, not again by each worker

    @classmethod
    def open(cls, root: Path, members: tuple[str, ...]) -> Recording:
        """The file; since version 7.3, MATLAB writes HDF5."""
        del members
        return Hdf5Recording(root) if h5py.is_hdf5(root) else cls(root)

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded: dict[str, Any] = {}
        with _opened(path, path.name) as stream:
            self._variables = {name: kind for name, _, kind in whosmat(stream)}

    def names(self) -> list[str]:
        """Variables, and the fields of structs as ``struct/field``."""
        structs = {name: self._variable(name) for name, kind in self._variables.items() if kind == "struct"}
        return [name for variable in self._variables for name in _inside(variable, structs.get(variable))]

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        """A variable or a field; raises KeyError, or SessionError for what is no plain array."""
        return _as_array(self.value(name), axis, name)

    def cells(self, name: str, axis: int = 0) -> list[RecordedArray] | None:
        """The cells of a cell array, column by column."""
        value = self.value(name)
        if not isinstance(value, np.ndarray) or value.dtype != object:
            return None
        return [_as_array(cell, axis, name) for cell in value.reshape(-1, order="F")]

    def value(self, name: str) -> Any:
        """What a variable or a field holds; raises KeyError."""
        variable, *steps = name.strip("/").split("/")
        if variable not in self._variables:
            raise KeyError(name)
        value = self._variable(variable)
        for step in steps:
            if not _is_struct(value) or step not in value.dtype.names:
                raise KeyError(name)
            value = value.reshape(-1)[0][step]
        return value

    def _variable(self, name: str) -> Any:
        if name not in self._loaded:
            with _opened(self._path, f"{self._path.name}, variable {name}") as stream:
                self._loaded[name] = loadmat(stream, variable_names=[name], mat_dtype=True, spmatrix=False)[name]
        return self._loaded[name]

    def close(self) -> None:
        self._loaded.clear()


def _is_struct(value: Any) -> bool:
    """Whether it is a single struct; an array of structs has no field of its own."""
    return isinstance(value, np.ndarray) and value.dtype.names is not None and value.size == 1


def _inside(name: str, value: Any) -> Iterator[str]:
    if not _is_struct(value):
        yield name
        return
    for field in value.dtype.names:
        yield from _inside(f"{name}/{field}", value.reshape(-1)[0][field])


def _as_array(value: Any, axis: int, name: str) -> RecordedArray:
    plain = isinstance(value, np.ndarray) and value.dtype.kind in "biufSU"
    if not plain:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        message = f"{name}: expected numbers, got {kind}; only arrays by trial and names.spike_times can "
        message += "be cells, and a sparse array must be full"
        raise SessionError("wrong_type", message)
    return sliced(value, axis, name)


@contextmanager
def _opened(path: Path, what: str) -> Iterator[BinaryIO]:
    """The file, for scipy; what it raises becomes a SessionError about ``what``."""
    disk = NamedFile(path)
    # Errors of any type: scipy trusts what a file says of itself.
    with BufferedReader(disk) as stream, refusing(f"{what}: not a readable MATLAB file", disk, (Exception,)):
        yield stream
