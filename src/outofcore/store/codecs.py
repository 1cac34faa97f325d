"""From the rows of a chunk to bytes and back, by the names that params.yaml uses.

Each chunk is a chain of standard Zarr v3 codecs: the array's bytes (little-endian, C order; text as ``vlen-utf8``), the
compressor (``zstd``, ``blosc`` with lz4, or none), and ``crc32c``, so that any reader notices a changed bit.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, cast

import google_crc32c
import numcodecs.blosc
import numcodecs.vlen
import numcodecs.zstd
import numpy as np
import numpy.typing as npt
import zarr.codecs
import zstandard

from outofcore.errors import DamagedStore
from outofcore.store.schema import CodecName

CRC_BYTES = 4
# The CRC-32C of any message followed by its own little-endian CRC-32C (RFC 3720, appendix B.4, as a final value).
CRC_RESIDUE = 0x48674BC7

# Blosc starts threads of its own otherwise, one set for each calling thread.
numcodecs.blosc.use_threads = False

_KEPT = threading.local()
_TEXT = numcodecs.vlen.VLenUTF8()


@dataclass(frozen=True)
class ChunkCodec:
    """Encodes and decodes the chunks of one field.

    Attributes
    ----------
    name
        ``none``, ``lz4`` or ``zstd``.
    level
        Compression level.
    dtype
        Element type of the field as in :class:`outofcore.store.schema.Field`.
    """

    name: CodecName
    level: int
    dtype: str

    def encode(self, chunk: npt.NDArray[Any]) -> bytes:
        """Bytes of a whole chunk, its checksum at the end."""
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
        """Compare a chunk's bytes with the checksum at their end.

        Raises
        ------
        DamagedStore
            If they do not match.
        """
        if len(encoded) < CRC_BYTES or google_crc32c.value(encoded) != CRC_RESIDUE:
            message = f"checksum of a chunk of {len(encoded)} bytes does not match"
            raise DamagedStore(message)

    def decode(self, encoded: bytes, out: npt.NDArray[Any]) -> None:
        """Check and decode a chunk into ``out`` (the whole chunk, C-contiguous).

        Raises
        ------
        DamagedStore
            If the checksum or the length is not what was written.
        """
        self.check(encoded)
        body = memoryview(encoded)[:-CRC_BYTES]
        if self.dtype == "string":
            out[...] = _TEXT.decode(self._plain(body))
        elif self.name == "none":
            flat = out.reshape(-1).view(np.uint8)
            if len(body) != flat.nbytes:
                message = f"expected a chunk of {flat.nbytes} bytes, got {len(body)}"
                raise DamagedStore(message)
            flat[:] = np.frombuffer(body, np.uint8)
        elif self.name == "zstd":
            _decompress_zstd(body, out.reshape(-1).view(np.uint8))
        else:
            numcodecs.blosc.decompress(body, out.reshape(-1).view(np.uint8))

    def _plain(self, body: memoryview) -> Any:
        if self.name == "zstd":
            return numcodecs.zstd.decompress(body)
        return numcodecs.blosc.decompress(body) if self.name == "lz4" else body

    def zarr_codecs(self) -> list[Any]:
        """The bytes-to-bytes part of the chain as zarr-python's codec objects."""
        chain: list[Any] = []
        if self.name == "zstd":
            chain.append(zarr.codecs.ZstdCodec(level=self.level))
        elif self.name == "lz4":
            chain.append(zarr.codecs.BloscCodec(cname="lz4", clevel=self.level, shuffle="noshuffle"))
        return [*chain, zarr.codecs.Crc32cCodec()]


def _decompress_zstd(body: memoryview, out: npt.NDArray[np.uint8]) -> None:
    """Decompress a whole frame into ``out``, with a context that each thread keeps.

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


def codec_of(metadata: dict[str, Any], dtype: str) -> ChunkCodec:
    """The codec that an array's Zarr metadata names.

    Raises
    ------
    KeyError
        If the chain is not one that outofcore writes.
    """
    inner = metadata["codecs"][0]["configuration"]["codecs"]
    names = {codec["name"]: codec.get("configuration", {}) for codec in inner}
    if "zstd" in names:
        return ChunkCodec("zstd", int(names["zstd"]["level"]), dtype)
    if "blosc" in names:
        return ChunkCodec(cast("CodecName", names["blosc"]["cname"]), int(names["blosc"]["clevel"]), dtype)
    return ChunkCodec("none", 0, dtype)
