"""Arrays of numpy: .npy files, and archives of them (.npz), read in slices, which ``np.load`` cannot do of archives.

A member stored plainly (``np.savez``) is mapped at its offset in the archive; a compressed one
(``np.savez_compressed``) is decompressed whole. Pickled objects are never loaded.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import (
    WHOLE_BYTES,
    RecordedArray,
    SessionError,
    refusing,
    sliced,
)
from outofcore.domains.neural.recordings.recording import Recording
from outofcore.system.failures import NamedFile

# Local file header of a zip archive: 30 bytes, the last two fields are the lengths of what follows.
LOCAL_HEADER = 30


@dataclass(frozen=True)
class MappedArray:
    """An uncompressed array, mapped anew for each read so that its pages are released."""

    path: Path
    offset: int  # of the values
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    def __getitem__(self, choice: Any) -> npt.NDArray[Any]:
        if 0 in self.shape:
            values = np.empty(self.shape, self.dtype)
        else:
            order = "F" if self.fortran else "C"
            values = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)  # type: ignore[call-overload]
        return np.array(values[choice])


def read_header(stream: IO[bytes], name: str, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and type of a .npy file of ``size`` bytes; leaves the stream at the values."""
    with refusing(f"{name}: not a readable numpy array"):
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise SessionError(
            "wrong_type", f"{name}: holds pickled Python objects, which are never loaded; save it as plain numbers"
        )
    needed, available = dtype.itemsize * math.prod(shape), size - stream.tell()
    if available < needed:
        raise SessionError(
            "unreadable_file",
            f"{name}: truncated: its header tells {needed} bytes of values, the file holds {available}",
        )
    return shape, fortran, dtype


def npy_array(path: Path, name: str, axis: int) -> RecordedArray:
    with BufferedReader(NamedFile(path)) as stream:
        shape, fortran, dtype = read_header(stream, name, path.stat().st_size)
        return sliced(MappedArray(path, stream.tell(), shape, dtype, fortran), axis, name)


class NpzRecording(Recording):
    format = "npz"
    suffixes = (".npz",)

    def __init__(self, path: Path) -> None:
        self._path, self._disk = path, NamedFile(path)
        with ExitStack() as on_failure, refusing("not a readable .npz archive", self._disk):
            self._file = on_failure.enter_context(BufferedReader(self._disk))
            self._archive = zipfile.ZipFile(self._file)
            on_failure.pop_all()
        members = (entry for entry in self._archive.infolist() if entry.filename.endswith(".npy"))
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in members}
        self._decompressed: dict[str, npt.NDArray[Any]] = {}
        self.one_reader = any(entry.compress_type != zipfile.ZIP_STORED for entry in self._entries.values())

    def names(self) -> list[str]:
        return list(self._entries)

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        entry = self._entries[name.removesuffix(".npy")]
        with self._member(name, entry) as stream:
            shape, fortran, dtype = read_header(stream, name, entry.file_size)
            offset = stream.tell()
        if entry.compress_type == zipfile.ZIP_STORED:
            return sliced(MappedArray(self._path, self._place(entry) + offset, shape, dtype, fortran), axis, name)
        return sliced(self._whole(name, entry), axis, name)

    def _whole(self, name: str, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
        """A compressed member, decompressed once."""
        if entry.file_size > WHOLE_BYTES:
            message = f"{name}: {entry.file_size >> 20} MiB, compressed as one stream, which is read whole up to "
            message += f"{WHOLE_BYTES >> 20} MiB; save it as .npy, or with np.savez"
            raise SessionError("too_large", message)
        if name not in self._decompressed:
            with self._member(name, entry) as stream:
                self._decompressed[name] = np.lib.format.read_array(stream, allow_pickle=False)
        return self._decompressed[name]

    def close(self) -> None:
        self._archive.close()
        self._file.close()

    @contextmanager
    def _member(self, name: str, entry: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        damaged = f"{name}: cannot be read, the archive is damaged"
        with refusing(damaged, self._disk), self._archive.open(entry) as stream:
            yield stream

    def _place(self, entry: zipfile.ZipInfo) -> int:
        with BufferedReader(NamedFile(self._path)) as stream:
            stream.seek(entry.header_offset)
            name, extra = struct.unpack("<26x2H", stream.read(LOCAL_HEADER))
        return int(entry.header_offset + LOCAL_HEADER + name + extra)
