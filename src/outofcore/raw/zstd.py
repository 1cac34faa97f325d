"""Zstandard files as streams that detect truncation."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import zstandard

from outofcore.raw.window import require_window

# A block of four bytes can expand to 128 KiB: this bounds the output of one read, even for hostile input.
READ_BYTES = 1 << 12
# The largest window that any level of the zstd program writes (--long=31); the allowed size is checked before.
WINDOW_BYTES = 2**31
_HEADER_BYTES = 18  # the longest header of a frame


class ZstdStream(io.RawIOBase):
    """Decompressed bytes of all frames of a file, starting at the source's position.

    The zstandard package's reader takes the end of the file for the end of its last frame, so that a truncated file
    gives partial content without an error. Reading raises RawInputError if a frame needs more memory than allowed,
    EOFError on truncation, zstandard.ZstdError on damage.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        self._source = source
        self._name = name
        self._frames = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        self._frame: Any = None
        self._ahead = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            self._ahead = self._ahead or self._source.read(READ_BYTES)
            if not self._ahead:
                if self._frame is not None:
                    message = "the zstd file ends inside a frame; it was cut short"
                    raise EOFError(message)
                return 0
            if self._frame is None:
                self._require_window()
                self._frame = self._frames.decompressobj()
            self._ready = memoryview(self._frame.decompress(self._ahead))
            self._ahead = b""
            if self._frame.eof:
                self._ahead, self._frame = self._frame.unused_data, None
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _require_window(self) -> None:
        """Check the window of the frame that begins here, before it is allocated."""
        while len(self._ahead) < _HEADER_BYTES and (more := self._source.read(READ_BYTES)):
            self._ahead += more
        try:
            window = zstandard.get_frame_parameters(self._ahead).window_size
        except zstandard.ZstdError:  # the decompressor will raise
            return
        require_window(window, self._name)
