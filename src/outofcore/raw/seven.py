"""7z archives as streams of their files, through py7zr; see :func:`outofcore.raw.archives.tar_entries`.

The files of a 7z archive are compressed together in a few folders: each is one stream that is cut into files. Skipped
data is decompressed and dropped, so that only a few blocks and the dictionary are in memory.
"""

from __future__ import annotations

import errno
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from outofcore.raw.archives import Entry, broken
from outofcore.raw.checked import buffered
from outofcore.raw.damage import DamagedInput
from outofcore.raw.window import require_window

# Input and most output per step: the decompressor keeps input that it has not used.
_READ_BYTES = 1 << 12
_MOST_BYTES = 4 << 20
_LZMA, _LZMA2 = b"\x03\x01\x01", b"\x21"
_COPY, _DELTA, _DEFLATE, _BZIP2, _ZSTD = b"\x00", b"\x03", b"\x04\x01\x08", b"\x04\x02\x02", b"\x04\xf7\x11\x01"
_BRANCHES = b"\x03\x03\x01\x03"  # of x86 programs
_AES = b"\x06\xf1\x07\x01"
# Others are left out: the library for PPMd kills the process where an archive states a wrong size.
_READ = {_LZMA, _LZMA2, _COPY, _DELTA, _DEFLATE, _BZIP2, _ZSTD, _BRANCHES}


def seven_entries(source: BinaryIO, name: str, counts: Callable[[str], bool]) -> Iterator[Entry]:
    """The files of a 7z archive whose names count; raises RawInputError for a too large dictionary."""
    import py7zr

    try:
        archive = py7zr.SevenZipFile(cast("Any", source), "r")
    except Exception as error:  # noqa: BLE001 - a damaged header can raise anything
        yield broken(_damage(error), 0)
        return
    folders: dict[int, _Folder] = {}
    streams: Any = getattr(archive.header, "main_streams", None)
    known = [id(folder) for folder in streams.unpackinfo.folders] if streams else []
    for file in archive.files:
        folder = None
        if not file.emptystream and file.folder is not None:
            number = known.index(id(file.folder))
            if number not in folders:
                folders.clear()  # files of a folder follow one another
                # Positions are of packed streams; a folder of another method may have several.
                before = sum(len(each.packed_indices) for each in streams.unpackinfo.folders[:number])
                place = archive.afterheader + streams.packinfo.packpositions[before]
                folders[number] = _Folder(source, name, file.folder, place, int(file.compressed or 0))
            folder = folders[number]
        start = folder.cut(int(file.uncompressed)) if folder else 0
        if file.is_directory or not counts(file.filename):
            continue
        if file.is_symlink or file.is_junction or file.is_socket:
            problem = DamagedInput("a link or a device, not a file with bytes of its own", "not_a_file")
            yield Entry(file.filename, None, problem)
        elif folder is None:
            yield Entry(file.filename, cast("BinaryIO", io.BytesIO()))
        else:
            member = _Member(folder, start, int(file.uncompressed), file.crc32)
            yield Entry(file.filename, buffered(member))


class _Folder:
    """Files that are compressed together, as one stream."""

    def __init__(self, source: BinaryIO, name: str, folder: Any, place: int, packed: int) -> None:
        self._source = source
        self._name = name
        self._folder = folder
        self._place = place
        self._packed = packed
        self._decompressor: Any = None
        self._problem: DamagedInput | None = None
        self._ready = memoryview(b"")
        self._end = self._given = 0
        self.position = 0

    def cut(self, size: int) -> int:
        """Start the next file, of this many bytes."""
        start = self._end
        self._end += size
        return start

    def read(self, size: int) -> memoryview:
        """The next bytes, at least one."""
        if self._problem is not None:
            raise self._problem
        try:
            while not self._ready:
                self._ready = memoryview(self._more())
        except DamagedInput as error:
            self._problem = error
            raise
        data = self._ready[:size]
        self._ready = self._ready[size:]
        self.position += len(data)
        return data

    def _more(self) -> bytes:
        if self._decompressor is None:
            for coder in self._folder.coders:
                _require_method(coder)
                require_window(_dictionary(coder), self._name)
        try:
            if self._decompressor is None:
                from py7zr.compressor import SevenZipDecompressor

                self._decompressor = SevenZipDecompressor(
                    self._folder.coders, self._packed, self._folder.unpacksizes, self._folder.crc, None, _READ_BYTES
                )
            self._source.seek(self._place)
            data: bytes = self._decompressor.decompress(self._source, min(_MOST_BYTES, self._end - self._given))
        except Exception as error:
            raise _damage(error) from error
        place = self._source.tell()
        if not data and place == self._place:
            message = "the archive ends before its files do"
            raise DamagedInput(message)
        self._place = place
        self._given += len(data)
        return data


class _Member(io.RawIOBase):
    """A file in a folder, checked against its checksum."""

    def __init__(self, folder: _Folder, start: int, size: int, checksum: int | None) -> None:
        self._folder = folder
        self._start = start
        self._left = size
        self._stated = checksum
        self._found = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while self._folder.position < self._start:
            self._folder.read(self._start - self._folder.position)
        if not self._left:
            if self._stated is not None and self._stated != self._found:
                message = "its checksum is not the one that the archive states"
                raise DamagedInput(message)
            return 0
        data = self._folder.read(min(len(target), self._left))
        self._start += len(data)
        self._left -= len(data)
        self._found = zlib.crc32(data, self._found)
        target[: len(data)] = data
        return len(data)


def _require_method(coder: Any) -> None:
    if coder["method"] == _AES:
        message = "it is encrypted with a password"
        raise DamagedInput(message)
    if coder["method"] not in _READ:
        message = f"method {coder['method'].hex()} of 7z is not read; pack it anew with LZMA2, the usual one"
        raise DamagedInput(message)


def _dictionary(coder: Any) -> int:
    """Dictionary bytes of a method, as stated in the archive."""
    stated = coder.get("properties") or b""
    if coder["method"] == _LZMA and len(stated) >= 5:
        return int.from_bytes(stated[1:5], "little")
    if coder["method"] == _LZMA2 and stated:
        return (2 | stated[0] & 1) << (stated[0] // 2 + 11)
    return 0


def _damage(error: Exception) -> DamagedInput:
    """What is wrong with the archive; disk errors propagate."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        raise error
    return DamagedInput(f"{type(error).__name__}: {' '.join(str(error).split())}"[:500])
