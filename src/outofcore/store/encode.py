"""Encode many chunks in one compiled call that releases the GIL throughout, with the bytes of :func:`encode_chunk`.

As in :mod:`outofcore.store.bulk`: encoding a chunk from Python takes the GIL a dozen times. A compressor that is used
again could remember what it compressed before, so each chunk has one of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.compilation import njit
from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.form import encode_chunk
from outofcore.store.native import addresses, call_0, call_1, call_2, call_3, call_5
from outofcore.store.schema import Field

Words = npt.NDArray[np.int64]

_LEVEL = 100  # ZSTD_c_compressionLevel
_INT = 0xFFFF_FFFF  # bits of the result of a C function that returns an int
_KEPT = threading.local()


def encode_chunks(
    fields: Sequence[Field], codecs: Sequence[ChunkCodec], chunks: Sequence[Sequence[npt.NDArray[Any]]]
) -> list[list[bytes]]:
    """Bytes of whole chunks of all fields, empty for those with only the fill value."""
    functions = _functions()
    jobs, sources, fills, encoded = [], [], [], {}
    room = 0
    for number, arrays in enumerate(chunks):
        for place, (field, codec, array) in enumerate(zip(fields, codecs, arrays, strict=True)):
            if functions is None or codec.name != "zstd" or field.dtype == "string" or not array.nbytes:
                encoded[number, place] = encode_chunk(field, codec, array)
                continue
            source = np.ascontiguousarray(array)
            sources.append(source)
            fill = np.array(field.fill, source.dtype)
            item = fill.itemsize if fill == fill else 0  # no value is equal to one that is not a number
            fills.append(int.from_bytes(fill.tobytes(), "little"))
            jobs.append((number, place, source.ctypes.data, source.nbytes, item, codec.level, room))
            room += _bound(source.nbytes)
    if jobs:
        table, lengths = np.array(jobs, np.int64), np.full(len(jobs), -1, np.int64)
        out = _scratch(room)
        _encode(functions, table, np.array(fills, "<u8"), out, lengths)
        for (number, place, *_, start), length in zip(jobs, lengths.tolist(), strict=True):
            if length >= 0:
                encoded[number, place] = out[start : start + length].tobytes()
            else:
                encoded[number, place] = codecs[place].encode(chunks[number][place])
    return [[encoded[number, place] for place in range(len(fields))] for number in range(len(chunks))]


def _bound(size: int) -> int:
    """Most bytes that a chunk of ``size`` takes, ZSTD_COMPRESSBOUND and the checksum."""
    return size + (size >> 8) + 64 + CRC_BYTES


def _scratch(size: int) -> npt.NDArray[np.uint8]:
    """A buffer of this thread; a fresh one would be cleared by the system, page by page."""
    kept = getattr(_KEPT, "out", None)
    if kept is None or len(kept) < size:
        kept = _KEPT.out = np.empty(size, np.uint8)
    found: npt.NDArray[np.uint8] = kept
    return found


@cache
def _functions() -> Words | None:
    """Addresses of the C functions; None if one is missing."""
    return addresses(
        (None, "memcmp"),
        ("google_crc32c._crc32c", "crc32c_value"),
        ("numcodecs.zstd", "ZSTD_createCCtx"),
        ("numcodecs.zstd", "ZSTD_CCtx_setParameter"),
        ("numcodecs.zstd", "ZSTD_compress2"),
        ("numcodecs.zstd", "ZSTD_freeCCtx"),
    )


@njit(nogil=True, cache=True)
def _encode(functions: Any, jobs: Any, fills: Any, out: Any, lengths: Any) -> None:
    memcmp, crc32c, create, set_parameter, compress, free = functions
    for number in range(len(jobs)):
        _, _, source, size, item, level, start = jobs[number]
        first = item > 0 and call_3(memcmp, source, np.int64(fills.ctypes.data) + 8 * number, item) & _INT == 0
        if first and call_3(memcmp, source, source + item, size - item) & _INT == 0:  # each value is the one before it
            lengths[number] = 0
            continue
        target, room = np.int64(out.ctypes.data) + start, size + (size >> 8) + 64
        context = call_0(create)
        if context == 0:
            continue
        call_3(set_parameter, context, np.int64(_LEVEL), level)
        length = call_5(compress, context, target, room, source, size)
        call_1(free, context)
        if length <= 0:  # errors are small negative numbers
            continue
        checksum = call_2(crc32c, target, length)
        for byte in range(CRC_BYTES):
            out[start + length + byte] = checksum >> 8 * byte & 0xFF
        lengths[number] = length + CRC_BYTES
