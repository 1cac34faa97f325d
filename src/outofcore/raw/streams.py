"""Streams of raw files: decompressed, transcoded, raising only DamagedInput, and stopped at decompression bombs.

A compressed file states in a few bytes how much memory its window or dictionary takes, up to gigabytes, and the
decompressor allocates it. What this machine allows decides whether a file is read at all, never its content: a larger
request ends the run.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from outofcore.errors import RawInputError
from outofcore.raw.damage import ERRORS, DamagedInput, as_damage
from outofcore.settings.machine import LEAST_WINDOW, PREFIX, load_machine, machine_file
from outofcore.settings.sizes import format_bytes

COMPRESSIONS = (".zst", ".gz", ".bz2", ".xz")
FREE_BYTES = 64 << 20
MOST_FOLD = 500
"""Limits on decompressed bytes, absolute and per byte read of the file.

Text shrinks to a third or a tenth, tables and games that repeat to a fiftieth; the methods that bombs are made with
reach 1,000 (deflate), 40,000 (zstd) and more (bzip2).
"""
# Of compressed data, a block of four bytes can expand to 128 KiB: this bounds the output of one step.
READ_BYTES = 1 << 12
STEP_BYTES = 1 << 20
# The largest window that any level of the zstd program writes (--long=31); the allowed size is checked before.
WINDOW_BYTES = 2**31
_ZSTD_HEADER_BYTES = 18  # the longest header of a frame
_BLOCK_BYTES = 1 << 16  # most of the readable part that a damaged file can lose
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def most_window() -> int:
    """Most bytes that this machine allows."""
    file = machine_file(Path())
    edited = file.stat().st_mtime_ns if file else 0
    return _stated(Path.cwd(), edited, os.environ.get(f"{PREFIX}DECOMPRESSION"))


@cache
def _stated(folder: Path, edited: int, variable: str | None) -> int:
    """The setting, looked up once: that takes longer than to read a small file, and each .xz file asks."""
    del edited, variable
    return load_machine(folder).decompression


def require_window(size: int, name: str) -> None:
    """Raise RawInputError if decompressing needs more than this machine allows."""
    # Most files ask for less than any setting forbids: none is looked up for them.
    if size > LEAST_WINDOW and size > (most := most_window()):
        raise RawInputError(
            f"{name}: decompressing it takes a window of {format_bytes(size)}, and this machine allows "
            f"{format_bytes(most)}; allow more with decompression in machine.yaml (OUTOFCORE_DECOMPRESSION)"
        )


def read_block(stream: BinaryIO, size: int) -> tuple[bytes, DamagedInput | None]:
    """Read ``size`` bytes, fewer at the end or before damage; and the damage, if any: nothing after it can be read."""
    parts = []
    missing = size
    try:
        while missing and (part := stream.read(min(missing, _BLOCK_BYTES))):
            parts.append(part)
            missing -= len(part)
    except ERRORS as error:
        return b"".join(parts), as_damage(error)
    return b"".join(parts), None


class Buffered(io.BufferedReader):
    """A buffer of 64 KiB; what was read before an error is returned, and the next call raises it."""

    def __init__(self, stream: io.RawIOBase) -> None:
        super().__init__(stream, 1 << 16)

    def read(self, size: int | None = -1, /) -> bytes:
        missing = -1 if size is None else size
        parts: list[bytes] = []
        try:
            while missing and (part := self.read1(min(missing, 1 << 20) if missing > 0 else 1 << 20)):
                parts.append(part)
                missing -= len(part) if missing > 0 else 0
        except DamagedInput:
            if not parts:
                raise
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Expansion:
    """Decompressed bytes of a raw file, compared with the bytes read of it."""

    def __init__(self, consumed: Callable[[], int]) -> None:
        self._consumed = consumed
        self._given = 0

    def add(self, count: int) -> None:
        """Count bytes; raises DamagedInput if they exceed any plausible ratio."""
        self._given += count
        consumed = self._consumed()
        if self._given > FREE_BYTES + MOST_FOLD * consumed:
            raise DamagedInput(
                f"{format_bytes(consumed)} on disk became more than {format_bytes(self._given)}: taken for a "
                "decompression bomb; if it is genuine, decompress it yourself",
                "decompression_bomb",
            )


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Checked(io.RawIOBase):
    """A checked view of another stream; ``problem`` is the error that ended it, which every later read raises.

    ``source`` is read in small amounts, so that little readable data before damage is lost. ``expansion`` counts
    decompressed bytes, None if they are already counted. With a ``problem``, nothing is read at all.
    """

    def __init__(
        self, source: _Source, expansion: Expansion | None = None, problem: DamagedInput | None = None
    ) -> None:
        self.problem = problem
        self._source = source
        self._expansion = expansion

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self.problem is not None:
            raise self.problem
        try:
            data = self._source.read1(len(target))
            if self._expansion is not None:
                self._expansion.add(len(data))
        except ERRORS as error:
            self.problem = as_damage(error)
            raise self.problem from error
        target[: len(data)] = data
        return len(data)


class Decompressed:
    """All streams of a compressed file, one after the other; what follows them is damage, and so is a missing end.

    The readers of libraries take the end of the file for the end of its last frame, allocate any window that a file
    asks for, or pass over what follows. Reading raises RawInputError if a stream needs more memory than allowed.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        self._source = source
        self._name = name
        self._kind = next(suffix for suffix in COMPRESSIONS if name.lower().endswith(suffix))
        self._stream: Any = None
        self._ahead = b""
        self._read = 0  # bytes of the source, those ahead included
        self._end = 0  # where a stream has ended in the source, and nothing came out of the next yet
        self._ready = memoryview(b"")

    def read1(self, size: int, /) -> bytes:
        """The next bytes, b"" only at the end."""
        try:
            while not self._ready:
                if not self._step():
                    return b""
        except (EOFError, OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            if not self._end or (isinstance(error, OSError) and error.errno):
                raise
            raise DamagedInput(
                f"the compressed data ends at byte {self._end:,}; what follows is not compressed in the same way",
                whole=True,
            ) from error
        data, self._ready = self._ready[:size], self._ready[size:]
        return bytes(data)

    def _step(self) -> bool:
        """Decompress some; False at the end of the file."""
        if not self._ahead and (self._stream is None or getattr(self._stream, "needs_input", True)):
            self._ahead = self._pull()
            if not self._ahead and self._stream is None:
                return False
        if self._stream is None:
            if self._kind in (".gz", ".xz") and self._end:  # zeros are allowed between streams
                self._ahead = self._ahead.lstrip(b"\0")
                if not self._ahead:
                    return True
            self._stream = self._begin()
        ended = not self._ahead and getattr(self._stream, "needs_input", True)
        ahead, self._ahead = self._ahead, b""
        content = self._stream.decompress(ahead) if self._kind == ".zst" else self._decompressed(ahead)
        self._ready = memoryview(content)
        if content:
            self._end = 0
        if self._stream.eof:
            self._ahead, self._stream = self._stream.unused_data, None
            self._end = self._read - len(self._ahead)
        elif not content and ended:
            raise EOFError(f"the file ends inside its {self._kind} data; it was cut short")
        else:
            self._ahead = getattr(self._stream, "unconsumed_tail", b"")
        return True

    def _pull(self) -> bytes:
        data = self._source.read(READ_BYTES)
        self._read += len(data)
        return data

    def _decompressed(self, ahead: bytes) -> bytes:
        try:
            content: bytes = self._stream.decompress(ahead, STEP_BYTES)
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                raise
            raise RawInputError(
                f"{self._name}: decompressing it takes a dictionary of more than the {format_bytes(most_window())} "
                "that this machine allows; allow more with decompression in machine.yaml (OUTOFCORE_DECOMPRESSION)"
            ) from error
        return content

    def _begin(self) -> Any:
        """A decompressor of the next stream; its window is checked before it is allocated."""
        if self._kind == ".gz":
            return zlib.decompressobj(31)
        if self._kind == ".bz2":
            return bz2.BZ2Decompressor()
        if self._kind == ".xz":  # the decoder itself takes some tens of kilobytes
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=most_window() + (1 << 20))
        while len(self._ahead) < _ZSTD_HEADER_BYTES and (more := self._pull()):
            self._ahead += more
        with suppress(zstandard.ZstdError):  # which the decompressor will raise
            require_window(zstandard.get_frame_parameters(self._ahead).window_size, self._name)
        return zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).decompressobj()


class Transcoded(io.RawIOBase):
    """A text as UTF-8 that lies there as UTF-16 or UTF-32; a surrogate without its other half stays invalid."""

    def __init__(self, source: BinaryIO, encoding: str) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            data = self._source.read(1 << 16)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise DamagedInput(f"not {error.encoding}: {error.reason}") from error
            if not data and not text:
                return 0
            self._ready = memoryview(text.encode("utf-8", "surrogatepass"))
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def transcoded(stream: BinaryIO) -> tuple[BinaryIO, str, int]:
    """A text that begins with a byte-order mark of UTF-16 or UTF-32 as UTF-8 without it; others as they are.

    Without a mark, two characters of ASCII with a zero byte each at the beginning tell UTF-16. Returns also the
    encoding of the file, "" if it is not transcoded, and the bytes of the mark.
    """
    head = b""
    with suppress(DamagedInput):  # which reading will raise
        head = cast("io.BufferedReader", stream).peek(4)[:4]
    if head.isascii() and b"\0" not in head:
        return stream, "", 0
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            stream.read(len(mark))
            return Buffered(Transcoded(stream, encoding)), encoding, len(mark)
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        letters = head.replace(b"\0", b"")
        if len(head) == 4 and zeros == b"\0\0" and len(letters) == 2 and letters.isascii() and _is_text(letters):
            return Buffered(Transcoded(stream, encoding)), encoding, 0
    return stream, "", 0


def _is_text(letters: bytes) -> bool:
    return all(letter >= 0x20 or letter in b"\t\r\n" for letter in letters)
