"""Zstandard files as streams that notice when they break off."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import zstandard

# A block of four bytes can stand for 128 KiB: this bounds what one read decompresses to, also for hostile input.
READ_BYTES = 1 << 12
# The largest window that any level of the zstd program writes (--long=31).
WINDOW_BYTES = 2**31


class ZstdStream(io.RawIOBase):
    """Decompressed bytes of all frames of a file.

    The reader of the zstandard package takes the end of the file for the end of its last frame, so that a file that was
    cut short gives a part of its content and no error.

    Parameters
    ----------
    source
        The compressed file, read from where it stands.

    Raises
    ------
    EOFError
        On reading, if the file ends inside a frame.
    zstandard.ZstdError
        On reading, if a frame is damaged.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._frames = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        self._frame: Any = None
        self._ahead = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill a buffer as far as what is at hand reaches; 0 at the end."""
        while not self._ready:
            self._ahead = self._ahead or self._source.read(READ_BYTES)
            if not self._ahead:
                if self._frame is not None:
                    message = "the zstd file ends inside a frame; it was cut short"
                    raise EOFError(message)
                return 0
            if self._frame is None:
                self._frame = self._frames.decompressobj()
            self._ready = memoryview(self._frame.decompress(self._ahead))
            self._ahead = b""
            if self._frame.eof:
                self._ahead, self._frame = self._frame.unused_data, None
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
