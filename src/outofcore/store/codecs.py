"""Encode and decode the rows of a chunk, by the codec names of params.yaml: the rows of one table, :data:`CODECS`.

Each chunk is a chain of standard Zarr v3 codecs: the array's bytes (little-endian, C order; text as ``vlen-utf8``), the
compressor (``zstd``, ``blosc`` with lz4, or none), and ``crc32c``, so that any reader detects a changed bit. One more
codec is a row of the table; of a compressor that Zarr names otherwise, :mod:`outofcore.store.bulk` needs a kernel too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import google_crc32c
import numcodecs.blosc
import numcodecs.vlen
import numcodecs.zstd
import numpy as np
import numpy.typing as npt
import zstandard

from outofcore.errors import DamagedStore

CodecName = Literal["none", "lz4", "zstd"]
CRC_BYTES = 4
# The CRC-32C of any message followed by its own little-endian CRC-32C (RFC 3720, appendix B.4, as a final value).
CRC_RESIDUE = 0x48674BC7

# Where Blosc's header has the decoded and the encoded length, little-endian words of 32 bits.
BLOSC_HEADER, BLOSC_DECODED, BLOSC_ENCODED, BLOSC_WORD = 16, 4, 12, 4

# Otherwise Blosc starts its own threads, one set per calling thread.
numcodecs.blosc.use_threads = False

_KEPT = threading.local()
_TEXT = numcodecs.vlen.VLenUTF8()
Out = npt.NDArray[np.uint8] | None


@dataclass(frozen=True)
class ChunkCodec:
    """Encodes and decodes the chunks of one field."""

    name: CodecName
    level: int  # compression level
    dtype: str  # as in outofcore.store.schema.Field

    @property
    def item(self) -> int:
        """Bytes of one value, 1 of a text."""
        return 1 if self.dtype == "string" else np.dtype(self.dtype).itemsize

    def encode(self, chunk: npt.NDArray[Any]) -> bytes:
        """Bytes of a whole chunk, with its checksum at the end."""
        if self.dtype == "string":
            plain = _TEXT.encode(chunk.astype(object))
        else:
            plain = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8)
        body = CODECS[self.name].encode(plain, self.level, self.item)
        checksum: int = google_crc32c.value(body)
        return body + checksum.to_bytes(CRC_BYTES, "little")

    @staticmethod
    def check(encoded: bytes) -> None:
        """Verify the checksum at the end of a chunk's bytes; raises DamagedStore."""
        if len(encoded) < CRC_BYTES or google_crc32c.value(encoded) != CRC_RESIDUE:
            raise DamagedStore(f"checksum of a chunk of {len(encoded)} bytes does not match")

    def decode(self, encoded: bytes, out: npt.NDArray[Any]) -> None:
        """Check and decode a chunk into ``out``; raises DamagedStore."""
        self.check(encoded)
        body, codec = memoryview(encoded)[:-CRC_BYTES], CODECS[self.name]
        if self.dtype == "string":
            out[...] = _texts(codec.decode(body, None), len(out))
        else:
            codec.decode(body, out.reshape(-1).view(np.uint8))


class Codec(NamedTuple):
    """A compressor, as Zarr has it and as it works on bytes."""

    zarr: str  # name of Zarr's codec; "" for no compressor
    configuration: Callable[[int, int], Mapping[str, Any]]  # of that, by level and bytes of one value
    level: str  # which key of the configuration is the level
    encode: Callable[[Any, int, int], bytes]  # bytes, level, bytes of one value
    decode: Callable[[memoryview, Out], Any]  # fills the array or raises DamagedStore; None: returns bytes


def _texts(plain: Any, count: int) -> Any:
    """The texts of a chunk, one per row."""
    stated = int.from_bytes(bytes(plain[:BLOSC_WORD]), "little")
    if stated != count:
        raise DamagedStore(f"expected {count} texts, got {stated}")
    return _TEXT.decode(plain)


def _decompress_zstd(body: memoryview, out: Out) -> Any:
    """Decompress a whole frame, into ``out`` with a per-thread context.

    numcodecs makes a context for every call, which takes 20 microseconds: more than a small chunk itself.
    """
    if out is None:
        return numcodecs.zstd.decompress(body)
    context = getattr(_KEPT, "zstd", None)
    if context is None:
        context = _KEPT.zstd = zstandard.ZstdDecompressor()
    try:
        with context.stream_reader(body, read_size=len(body)) as reader:
            count = reader.readinto(out.data)
            rest = reader.read(1)
    except zstandard.ZstdError as error:
        raise DamagedStore(f"zstd: {error}") from error
    if count != len(out) or rest:
        raise DamagedStore(f"expected a chunk of {len(out)} bytes, got {'more' if rest else count}")
    return out


def _copy(body: memoryview, out: Out) -> Any:
    if out is None:
        return body
    if len(body) != len(out):
        raise DamagedStore(f"expected a chunk of {len(out)} bytes, got {len(body)}")
    out[:] = np.frombuffer(body, np.uint8)
    return out


def _compress_blosc(plain: Any, level: int, item: int) -> bytes:
    blosc = numcodecs.blosc.Blosc(cname="lz4", clevel=level, shuffle=numcodecs.blosc.NOSHUFFLE, typesize=item)
    return bytes(blosc.encode(plain))


def check_blosc(body: memoryview) -> tuple[int, int]:
    """The decoded and encoded length in Blosc's header; raises DamagedStore if there are fewer bytes: it reads them."""
    decoded, encoded = (int.from_bytes(body[at : at + BLOSC_WORD], "little") for at in (BLOSC_DECODED, BLOSC_ENCODED))
    if len(body) < (least := max(BLOSC_HEADER, encoded)):
        raise DamagedStore(f"a chunk of Blosc was cut short: expected {least} bytes, got {len(body)}")
    return decoded, encoded


def _decompress_blosc(body: memoryview, out: Out) -> Any:
    decoded, encoded = check_blosc(body)
    size = decoded if out is None else len(out)
    if (decoded, encoded) != (size, len(body)):
        raise DamagedStore(f"Blosc's header states {decoded} bytes in {encoded}, expected {size} in {len(body)}")
    return numcodecs.blosc.decompress(body, out)


CODECS: Mapping[CodecName, Codec] = {
    "none": Codec("", lambda _, __: {}, "", lambda plain, _, __: bytes(plain), _copy),
    "lz4": Codec(
        "blosc",
        lambda level, item: {
            "typesize": item,
            "cname": "lz4",
            "clevel": level,
            "shuffle": "noshuffle",
            "blocksize": 0,
        },
        "clevel",
        _compress_blosc,
        _decompress_blosc,
    ),
    "zstd": Codec(
        "zstd",
        lambda level, _: {"level": level, "checksum": False},
        "level",
        lambda plain, level, _: bytes(numcodecs.zstd.compress(plain, level)),
        _decompress_zstd,
    ),
}


def zarr_codecs(codec: ChunkCodec) -> list[dict[str, Any]]:
    """The chain of Zarr's codecs of a chunk, as ``zarr.json`` names them."""
    own = CODECS[codec.name]
    plain: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    if codec.dtype == "string":
        plain = {"name": "vlen-utf8", "configuration": {}}
    elif codec.item == 1:
        plain = {"name": "bytes"}
    middle = [{"name": own.zarr, "configuration": dict(own.configuration(codec.level, codec.item))}] if own.zarr else []
    return [plain, *middle, {"name": "crc32c"}]


def codec_of(chain: list[dict[str, Any]], dtype: str) -> ChunkCodec:
    """The codec that writes this chain; if none does, one of the same compressor, or else without one."""
    compressor = chain[1]
    codecs = [
        ChunkCodec(name, compressor["configuration"][codec.level], dtype)
        for name, codec in CODECS.items()
        if codec.zarr == compressor["name"]
    ]
    codecs.append(ChunkCodec("none", 0, dtype))
    return next((codec for codec in codecs if zarr_codecs(codec) == chain), codecs[0])
