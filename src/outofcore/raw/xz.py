"""xz files as streams that detect truncation, in bounded memory."""

from __future__ import annotations

import io
import lzma
from typing import Any, BinaryIO

from outofcore.errors import RawInputError
from outofcore.raw.window import most_window
from outofcore.sizes import format_bytes

_READ_BYTES = 1 << 16


class XzStream(io.RawIOBase):
    """Decompressed bytes of all streams of a file, starting at the source's position.

    The standard library's reader allocates any dictionary that a file requests. Reading raises RawInputError if a
    stream needs more memory than allowed, EOFError on truncation, lzma.LZMAError on damage.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        self._source = source
        self._name = name
        self._most = most_window()
        self._stream: lzma.LZMADecompressor | None = None
        self._ahead = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while True:
            if self._stream is None and not self._begin():
                return 0
            stream = self._stream
            assert stream is not None
            if stream.needs_input:
                self._ahead = self._ahead or self._source.read(_READ_BYTES)
                if not self._ahead:
                    message = "the xz file ends inside a stream; it was cut short"
                    raise EOFError(message)
            data = self._decompressed(stream, len(target))
            if stream.eof:
                self._stream, self._ahead = None, stream.unused_data
            if data:
                target[: len(data)] = data
                return len(data)

    def _begin(self) -> bool:
        """Begin the next stream after padding zeros; False at the end of the file."""
        while not (ahead := self._ahead.lstrip(b"\0")):
            self._ahead = self._source.read(_READ_BYTES)
            if not self._ahead:
                return False
        self._ahead = ahead
        # The decoder itself takes some tens of kilobytes.
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=self._most + (1 << 20))
        return True

    def _decompressed(self, stream: lzma.LZMADecompressor, size: int) -> bytes:
        ahead, self._ahead = self._ahead, b""
        try:
            return stream.decompress(ahead, size)
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                raise
            message = (
                f"{self._name}: decompressing it takes a dictionary of more than the {format_bytes(self._most)} that "
                "this machine allows; allow more with decompression in machine.yaml (OUTOFCORE_DECOMPRESSION)"
            )
            raise RawInputError(message) from error
