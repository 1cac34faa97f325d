"""Archives of numpy arrays (.npz), read in slices, which ``np.load`` cannot do.

A member stored plainly (``np.savez``) is mapped at its offset in the archive; a compressed one
(``np.savez_compressed``) is decompressed as a stream. Pickled objects are never loaded.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.recordings.arrays import SlicedArray
from outofcore.domains.neural.recordings.recording import SessionError, clean, native
from outofcore.domains.neural.recordings.streamed import BLOCK_BYTES, StreamedArray

if TYPE_CHECKING:
    from outofcore.domains.neural.clocks import Clock
    from outofcore.domains.neural.params import TimeUnit

# Local file header of a zip archive: 30 bytes, the last two fields are the lengths of what follows.
LOCAL_HEADER = 30
# Raised by zipfile for a damaged archive, also for absurd versions (NotImplementedError is a RuntimeError) and names.
ARCHIVE_DAMAGE = (OSError, zipfile.BadZipFile, RuntimeError, ValueError, struct.error)


class MappedArray:
    """An uncompressed array, mapped anew for each read so that its pages are released."""

    def __init__(self, path: Path, header: Header, offset: int, axis: int) -> None:
        self._path, self._header, self._offset, self._axis = path, header, offset, axis
        shape = header.shape
        self.shape = (shape[axis], *shape[:axis], *shape[axis + 1 :]) if shape else ()
        self.dtype = np.dtype(np.uint8) if header.dtype.kind == "b" else header.dtype.newbyteorder("=")

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop`` along time."""
        if not np.prod(self.shape, dtype=np.int64):
            return np.empty((stop - start, *self.shape[1:]), self.dtype)
        order = "F" if self._header.fortran else "C"
        mapped = np.memmap(self._path, self._header.dtype, "r", self._offset, self._header.shape, order)  # type: ignore[call-overload]
        return native(np.moveaxis(np.asarray(mapped), self._axis, 0)[start:stop].copy())


class Header:
    """Header of a .npy file."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        try:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, self.fortran, self.dtype = read(stream)
        except (ValueError, OSError, EOFError, TokenError, zlib.error, zipfile.BadZipFile) as error:
            message = f"{name}: not a readable numpy array: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error
        if self.dtype.hasobject:
            message = f"{name}: holds pickled Python objects, which are never loaded; save it as plain numbers"
            raise SessionError(message, reason="wrong_type")

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))

    def check_room(self, name: str, held: int) -> None:
        """Reject an array if the file holds only ``held`` of its bytes."""
        if held < self.nbytes:
            message = f"{name}: truncated: its header tells {self.nbytes} bytes of values, the file holds {held}"
            raise SessionError(message, reason="unreadable_file")

    def checked_axis(self, name: str, axis: int) -> int:
        """The axis, if the array has it."""
        if axis >= len(self.shape) > 0:
            message = f"{name}: no axis {axis} in shape {self.shape}; see source.time_axis"
            raise SessionError(message, reason="wrong_shape")
        return axis


def npy_array(path: Path, name: str, axis: int) -> SlicedArray:
    """The array of a .npy file."""
    with path.open("rb") as stream:
        header = Header(stream, name)
        offset = stream.tell()
    header.check_room(name, path.stat().st_size - offset)
    return MappedArray(path, header, offset, header.checked_axis(name, axis))


class NpzRecording:
    """An .npz archive."""

    unit: TimeUnit | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except ARCHIVE_DAMAGE as error:
            message = f"not a readable .npz archive: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error
        self._entries = {
            entry.filename.removesuffix(".npy"): entry
            for entry in self._archive.infolist()
            if entry.filename.endswith(".npy")
        }
        self.streamed = any(entry.compress_type != zipfile.ZIP_STORED for entry in self._entries.values())

    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._entries)

    def array(self, name: str, axis: int = 0) -> SlicedArray:
        """A member by name."""
        entry = self._entries[name.removesuffix(".npy")]
        try:
            with self._archive.open(entry) as stream:
                header = Header(stream, name)
                offset = stream.tell()
        except ARCHIVE_DAMAGE as error:
            message = f"{name}: cannot be read, the archive is damaged: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error
        axis = header.checked_axis(name, axis)
        header.check_room(name, entry.file_size - offset)
        if entry.compress_type == zipfile.ZIP_STORED:
            return MappedArray(self._path, header, self._place(entry) + offset, axis)
        if axis or header.fortran:
            message = f"{name}: compressed, with time not first; save it with np.savez, or time first in C order"
            raise SessionError(message, reason="wrong_shape")
        dtype = np.dtype(np.uint8) if header.dtype.kind == "b" else header.dtype.newbyteorder("=")

        def blocks() -> Iterator[npt.NDArray[Any]]:
            row = header.nbytes // max(header.shape[0], 1)
            rows = max(1, BLOCK_BYTES // max(row, 1))
            with self._archive.open(entry) as stream:
                stream.read(offset)
                for start in range(0, header.shape[0], rows):
                    count = min(rows, header.shape[0] - start)
                    content = stream.read(count * row)
                    if len(content) != count * row:
                        message = f"{name} ends early"
                        raise EOFError(message)
                    yield native(np.frombuffer(content, header.dtype).reshape(count, *header.shape[1:]))

        return StreamedArray(header.shape, dtype, blocks)

    def trains(self, name: str) -> list[SlicedArray]:
        """One vector; an archive has no ragged vectors."""
        return [self.array(name)]

    def clock(self, name: str, count: int) -> Clock | None:
        """None: archives keep clocks in arrays of their own."""
        del name, count
        return None

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def _place(self, entry: zipfile.ZipInfo) -> int:
        with self._path.open("rb") as stream:
            stream.seek(entry.header_offset)
            name, extra = struct.unpack("<26x2H", stream.read(LOCAL_HEADER))
        return int(entry.header_offset + LOCAL_HEADER + name + extra)
