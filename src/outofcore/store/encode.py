"""Encode many chunks in one compiled call that releases the GIL throughout, with the bytes of :func:`encode_chunk`.

A thread that encodes chunk by chunk from Python hands the GIL over twice for each: conversion took 1.3 times the
processor time. A compressor that is used again could remember what it compressed before, so each chunk has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.native import CRC_32C, Words, addresses, call
from outofcore.store.schema import Field
from outofcore.system.compilation import njit

_LEVEL = 100  # ZSTD_c_compressionLevel


def encode_chunks(
    fields: Sequence[Field], codecs: Sequence[ChunkCodec], chunks: Sequence[Sequence[npt.NDArray[Any]]]
) -> list[list[bytes]]:
    """Bytes of whole chunks of all fields, empty for those with only the fill value."""
    functions = _functions()
    encoded = [[b""] * len(fields) for _ in chunks]
    jobs, cells, sources, room = [], [], [], 0
    for cell, arrays in zip(encoded, chunks, strict=True):
        for place, (field, codec, array) in enumerate(zip(fields, codecs, arrays, strict=True)):
            if functions is None or codec.name != "zstd" or field.dtype == "string":
                cell[place] = encode_chunk(field, codec, array)
            elif not is_empty(field, array):
                sources.append(np.ascontiguousarray(array))
                most = array.nbytes + (array.nbytes >> 8) + 64  # that zstd makes of so many: ZSTD_COMPRESSBOUND or more
                jobs.append((sources[-1].ctypes.data, array.nbytes, codec.level, most, room))
                cells.append((cell, place, codec, array))
                room += most + CRC_BYTES
    if jobs:
        out, lengths = np.empty(room, np.uint8), np.zeros(len(jobs), np.int64)
        _encode(functions, np.array(jobs, np.int64), out, lengths)
        for (cell, place, codec, array), (*_, start), length in zip(cells, jobs, lengths.tolist(), strict=True):
            cell[place] = out[start : start + length].tobytes() if length else codec.encode(array)
    return encoded


@cache
def _functions() -> Words | None:
    names = ("ZSTD_createCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compress2", "ZSTD_freeCCtx")
    return addresses(CRC_32C, *(("numcodecs.zstd", name) for name in names))


@njit(nogil=True, cache=True)
def _encode(functions: Any, jobs: Any, out: Any, lengths: Any) -> None:
    crc32c, create, set_parameter, compress, free = functions[0], functions[1], functions[2], functions[3], functions[4]
    for number in range(len(jobs)):
        source, size, level = jobs[number, 0], jobs[number, 1], jobs[number, 2]
        most, start = jobs[number, 3], jobs[number, 4]
        target = np.int64(out.ctypes.data) + start
        context = call(create, ())
        if context == 0:
            continue
        call(set_parameter, (context, np.int64(_LEVEL), level))
        length = call(compress, (context, target, most, source, size))
        call(free, (context,))
        if length <= 0:  # errors are small negative numbers
            continue
        checksum = call(crc32c, (target, length))
        for byte in range(CRC_BYTES):
            out[start + length + byte] = checksum >> 8 * byte & 0xFF
        lengths[number] = length + CRC_BYTES


def is_empty(field: Field, chunk: npt.NDArray[Any]) -> bool:
    """Whether a chunk holds only the fill value."""
    if (chunk.size and chunk.flat[0] != field.fill) or not np.all(chunk == field.fill):
        return False
    # -0.0 equals 0.0, but is another value to store.
    return not (chunk.dtype.kind == "f" and field.fill == 0 and np.signbit(chunk).any())


def encode_chunk(field: Field, codec: ChunkCodec, chunk: npt.NDArray[Any]) -> bytes:
    """Bytes of a whole chunk; empty if it holds only the fill value."""
    return b"" if is_empty(field, chunk) else codec.encode(chunk)
