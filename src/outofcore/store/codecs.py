"""Encode and decode the rows of a chunk, by the codec names of params.yaml.

Each chunk is a chain of standard Zarr v3 codecs: the array's bytes (little-endian, C order; text as ``vlen-utf8``), the
compressor (``zstd``, ``blosc`` with lz4, or none), and ``crc32c``, so that any reader detects a changed bit.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numcodecs.blosc
import numcodecs.vlen
import numcodecs.zstd
import numpy as np
import numpy.typing as npt
import zstandard

from outofcore.errors import DamagedStore
from outofcore.store.schema import CodecName

CRC_BYTES = 4
# The CRC-32C of any message followed by its own little-endian CRC-32C (RFC 3720, appendix B.4, as a final value).
CRC_RESIDUE = 0x48674BC7

# Where Blosc's header has the decoded and the encoded length, little-endian words of 32 bits.
BLOSC_HEADER, BLOSC_DECODED, BLOSC_ENCODED, BLOSC_WORD = 16, 4, 12, 4

# Otherwise Blosc starts its own threads, one set per calling thread.
numcodecs.blosc.use_threads = False

_KEPT = threading.local()
_TEXT = numcodecs.vlen.VLenUTF8()


@dataclass(frozen=True)
class ChunkCodec:
    """Encodes and decodes the chunks of one field."""

    name: CodecName  # none, lz4 or zstd
    level: int  # compression level
    dtype: str  # as in outofcore.store.schema.Field

    def encode(self, chunk: npt.NDArray[Any]) -> bytes:
        """Bytes of a whole chunk, with its checksum at the end."""
        if self.dtype == "string":
            plain = _TEXT.encode(chunk.astype(object))
        else:
            plain = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8)
        if self.name == "zstd":
            body = bytes(numcodecs.zstd.compress(plain, self.level))
        elif self.name == "lz4":
            item = 1 if self.dtype == "string" else np.dtype(self.dtype).itemsize
            blosc = numcodecs.blosc.Blosc(
                cname="lz4", clevel=self.level, shuffle=numcodecs.blosc.NOSHUFFLE, typesize=item
            )
            body = bytes(blosc.encode(plain))
        else:
            body = plain.tobytes() if isinstance(plain, np.ndarray) else bytes(plain)
        checksum: int = google_crc32c.value(body)
        return body + checksum.to_bytes(CRC_BYTES, "little")

    @staticmethod
    def check(encoded: bytes) -> None:
        """Verify the checksum at the end of a chunk's bytes; raises DamagedStore."""
        if len(encoded) < CRC_BYTES or google_crc32c.value(encoded) != CRC_RESIDUE:
            message = f"checksum of a chunk of {len(encoded)} bytes does not match"
            raise DamagedStore(message)

    def decode(self, encoded: bytes, out: npt.NDArray[Any]) -> None:
        """Check and decode a chunk into ``out``; raises DamagedStore."""
        self.check(encoded)
        body = memoryview(encoded)[:-CRC_BYTES]
        if self.dtype == "string":
            out[...] = _texts(self._plain(body), len(out))
        elif self.name == "none":
            flat = out.reshape(-1).view(np.uint8)
            if len(body) != flat.nbytes:
                message = f"expected a chunk of {flat.nbytes} bytes, got {len(body)}"
                raise DamagedStore(message)
            flat[:] = np.frombuffer(body, np.uint8)
        elif self.name == "zstd":
            _decompress_zstd(body, out.reshape(-1).view(np.uint8))
        else:
            _check_blosc(body, out.nbytes)
            numcodecs.blosc.decompress(body, out.reshape(-1).view(np.uint8))

    def _plain(self, body: memoryview) -> Any:
        if self.name == "zstd":
            return numcodecs.zstd.decompress(body)
        if self.name == "lz4":
            _check_blosc(body)
            return numcodecs.blosc.decompress(body)
        return body


def _texts(plain: Any, count: int) -> Any:
    """The texts of a chunk, one per row."""
    found = int.from_bytes(bytes(plain[:BLOSC_WORD]), "little")
    if found != count:
        message = f"expected {count} texts, got {found}"
        raise DamagedStore(message)
    return _TEXT.decode(plain)


def _check_blosc(body: memoryview, size: int | None = None) -> None:
    """Check the lengths in Blosc's header, which its decompressor trusts."""
    decoded, encoded = (int.from_bytes(body[at : at + BLOSC_WORD], "little") for at in (BLOSC_DECODED, BLOSC_ENCODED))
    if len(body) < BLOSC_HEADER or encoded != len(body) or (size is not None and decoded != size):
        message = f"Blosc's header states {decoded} bytes in {encoded}, expected {size} in {len(body)}"
        raise DamagedStore(message)


def _decompress_zstd(body: memoryview, out: npt.NDArray[np.uint8]) -> None:
    """Decompress a whole frame into ``out``, with a per-thread context.

    numcodecs makes a context for every call, which takes 20 microseconds: more than a small chunk itself.
    """
    context = getattr(_KEPT, "zstd", None)
    if context is None:
        context = _KEPT.zstd = zstandard.ZstdDecompressor()
    try:
        with context.stream_reader(body, read_size=len(body)) as reader:
            count = reader.readinto(out.data)
            rest = reader.read(1)
    except zstandard.ZstdError as error:
        message = f"zstd: {error}"
        raise DamagedStore(message) from error
    if count != len(out) or rest:
        message = f"expected a chunk of {len(out)} bytes, got {'more' if rest else count}"
        raise DamagedStore(message)
