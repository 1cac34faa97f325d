"""Encode, or read, check and decode, many chunks in one compiled call that releases the GIL throughout.

Going through chunks from Python takes the GIL a dozen times for each, and threads wait for it longer than they work: a
conversion took 1.3 times the processor time. The C functions are those that the extension modules of numcodecs (zstd,
Blosc) and google-crc32c export, called by address. Where one is missing, and for any chunk with an error,
:func:`encode_chunk` and :meth:`outofcore.store.array.SealedArray.chunk` do the work and report the error.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import google_crc32c
import numba
import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # has no types
from numba.extending import intrinsic

from outofcore.ndarrays import Bytes, Ints
from outofcore.store.array import Array, SealedArray
from outofcore.store.codecs import BLOSC_HEADER, BLOSC_WORD, CODECS, CRC_BYTES, ChunkCodec
from outofcore.store.files import IN_MEMORY, Ranges
from outofcore.store.schema import Field
from outofcore.system.compilation import njit

Named = tuple[str | None, str]

CRC_32C: Named = (google_crc32c.value.__module__, "crc32c_value")  # of the extension; the pure Python variant has none

_NONE, _BLOSC, _ZSTD = range(3)
KINDS = {"": _NONE, "blosc": _BLOSC, "zstd": _ZSTD}
"""Which part of the kernel decodes a compressor, by Zarr's name for it, "" for none."""

_KEPT = threading.local()
# A pipe that nobody writes to is not waited for.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_LEVEL = 100  # ZSTD_c_compressionLevel


def _addresses(*named: Named) -> Ints | None:
    """Addresses of C functions, each of an extension module or, for None, of the process; None if one is missing."""
    try:
        functions = [
            getattr(ctypes.CDLL(module and import_module(module).__file__), function) for module, function in named
        ]
    except (ImportError, AttributeError, OSError, TypeError):  # TypeError: Windows, for None
        return None
    return np.array([ctypes.cast(function, ctypes.c_void_p).value for function in functions], np.int64)


def _emit_call(typingctx: Any, function: Any, words: Any) -> Any:
    """Call a C function by address, with 64-bit words as arguments and result."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        del context, signature
        word = ir.IntType(64)
        arguments = [builder.extract_value(values[1], number) for number in range(len(words))]
        kind = ir.FunctionType(word, [word] * len(arguments)).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), arguments)

    return numba.types.int64(function, words), generate


_call: Any = intrinsic(_emit_call)


def encode_chunks(
    fields: Sequence[Field], codecs: Sequence[ChunkCodec], chunks: Sequence[Sequence[npt.NDArray[Any]]]
) -> list[list[bytes]]:
    """Bytes of whole chunks of all fields, empty for those with only the fill value."""
    functions = _encoders()
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
def _encoders() -> Ints | None:
    names = ("ZSTD_createCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compress2", "ZSTD_freeCCtx")
    return _addresses(CRC_32C, *(("numcodecs.zstd", name) for name in names))


@njit(nogil=True, cache=True)
def _encode(functions: Any, jobs: Any, out: Any, lengths: Any) -> None:
    crc32c, create, set_parameter, compress, free = functions[0], functions[1], functions[2], functions[3], functions[4]
    for number in range(len(jobs)):
        source, size, level = jobs[number, 0], jobs[number, 1], jobs[number, 2]
        most, start = jobs[number, 3], jobs[number, 4]
        if start < 0 or most < 0 or start + most + CRC_BYTES > len(out):
            continue
        target = np.int64(out.ctypes.data) + start
        context = _call(create, ())  # one that is used again could remember what it compressed before
        if context == 0:
            continue
        _call(set_parameter, (context, np.int64(_LEVEL), level))
        length = _call(compress, (context, target, most, source, size))
        _call(free, (context,))
        if length <= 0:  # errors are small negative numbers
            continue
        checksum = _call(crc32c, (target, length))
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


@njit(nogil=True, cache=True)
def _decompress(functions: Ints, context: int, kind: int, encoded: Any, body: Any, target: Any, size: Any) -> bool:
    """Decompress so many bytes in memory; whether they give exactly ``size``."""
    if kind == _ZSTD:
        return bool(_call(functions[3], (context, target, size, encoded, body)) == size)
    if kind == _BLOSC and body >= BLOSC_HEADER:
        header = np.empty(BLOSC_HEADER // BLOSC_WORD, np.uint32)
        _call(functions[1], (np.int64(header.ctypes.data), encoded, BLOSC_HEADER))
        if header[1] != size or header[3] != body:  # the decompressor trusts them
            return False
        return bool(_call(functions[4], (encoded, target, size, 1)) & 0xFFFFFFFF == size)
    if kind == _NONE and body == size:
        _call(functions[1], (target, encoded, size))
        return True
    return False


@njit(nogil=True, cache=True)
def _decode(
    functions: Ints, context: int, jobs: Ints, rooms: Ints, scratch: Bytes, done: npt.NDArray[np.bool_]
) -> None:
    """Decode chunks, each into its slot of one of the ``rooms``: their address, slots, and bytes of a slot."""
    pread, memmove, crc32c = functions[0], functions[1], functions[2]
    buffer = np.int64(scratch.ctypes.data)
    header = np.empty(1, np.uint32)
    for number in range(len(jobs)):
        source, place, length = jobs[number, 0], jobs[number, 1], jobs[number, 2]
        sealed, kind, room, slot = jobs[number, 3], jobs[number, 4], rooms[jobs[number, 5]], jobs[number, 6]
        body, size = length - CRC_BYTES, room[2]
        if not 0 <= slot < room[1] or not CRC_BYTES <= length <= len(scratch):
            continue
        target = room[0] + slot * size
        if kind == _NONE and source != IN_MEMORY:  # directly into its slot
            if body != size or _call(pread, (source, target, body, place)) != body:
                continue
            if _call(pread, (source, np.int64(header.ctypes.data), CRC_BYTES, place + body)) != CRC_BYTES:
                continue
            done[number] = header[0] == sealed == _call(crc32c, (target, body)) & 0xFFFFFFFF
            continue
        encoded = place
        if source != IN_MEMORY:
            encoded = buffer
            if _call(pread, (source, buffer, length, place)) != length:
                continue
        _call(memmove, (np.int64(header.ctypes.data), encoded + body, CRC_BYTES))
        if header[0] != sealed or _call(crc32c, (encoded, body)) & 0xFFFFFFFF != sealed:
            continue
        done[number] = _decompress(functions, context, kind, encoded, body, target, size)


@njit(nogil=True, cache=True)
def _decode_plain(
    functions: Ints,
    context: int,
    kind: int,
    jobs: Ints,
    whole: int,
    room: Ints,  # address and bytes
    scratch: Bytes,
    done: npt.NDArray[np.bool_],
) -> None:
    memmove, buffer = functions[1], np.int64(scratch.ctypes.data)
    for number in range(len(jobs)):
        path, place, length, least = jobs[number, 0], jobs[number, 1], jobs[number, 2], jobs[number, 3]
        skip, offset, size = jobs[number, 4], jobs[number, 5], jobs[number, 6]
        if not 0 <= offset <= offset + size <= room[1] or not 0 <= skip <= skip + size <= whole:
            continue
        at_end = whole if size != whole else 0  # decoded bytes at the end of the scratch memory
        if length < 0 or (length if path else 0) + at_end > len(scratch):
            continue
        target = room[0] + offset
        encoded = place
        if path:
            file = _call(functions[5], (path, _FLAGS)) & 0xFFFFFFFF
            if file >> 31:  # negative
                continue
            read = _call(functions[0], (file, buffer, length, place))
            _call(functions[6], (file,))
            if not least <= read <= length:
                continue
            encoded, length = buffer, read
        if size == whole:
            done[number] = _decompress(functions, context, kind, encoded, length, target, size)
        elif _decompress(functions, context, kind, encoded, length, buffer + len(scratch) - whole, whole):
            _call(memmove, (target, buffer + len(scratch) - whole + skip, size))
            done[number] = True


@njit(nogil=True, cache=True)
def _check(
    functions: Ints, places: npt.NDArray[np.uint64], lengths: Ints, sealed: Ints, sound: npt.NDArray[np.bool_]
) -> None:
    stored = np.empty(1, np.uint32)
    for number in range(len(places)):
        place, body = np.int64(places[number]), lengths[number] - CRC_BYTES
        if body >= 0:
            _call(functions[1], (np.int64(stored.ctypes.data), place + body, CRC_BYTES))
            sound[number] = stored[0] == sealed[number] == _call(functions[2], (place, body)) & 0xFFFFFFFF


def intact(places: npt.NDArray[np.uint64], lengths: Ints, sealed: Ints) -> npt.NDArray[np.bool_]:
    """Whether chunks in memory have the sealed checksums; False where they cannot be computed."""
    functions, sound = _decoders(), np.zeros(len(places), np.bool_)
    if functions is not None:
        _check(functions, places, lengths, sealed, sound)
    return sound


@cache
def _decoders() -> Ints | None:
    return _addresses(
        (None, "pread"),
        (None, "memmove"),
        CRC_32C,
        ("numcodecs.zstd", "ZSTD_decompressDCtx"),
        ("numcodecs.blosc", "blosc_decompress_ctx"),
        (None, "open"),
        (None, "close"),
    )


class _Context:
    """A thread's zstd context and buffer for an encoded chunk."""

    def __init__(self) -> None:
        library = ctypes.CDLL(numcodecs.zstd.__file__)
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        self._free = library.ZSTD_freeDCtx
        self._free.argtypes = [ctypes.c_void_p]
        self.address: int = library.ZSTD_createDCtx()
        self.scratch = np.empty(0, np.uint8)

    def __del__(self) -> None:
        self._free(self.address)


def _context() -> _Context:
    context = getattr(_KEPT, "context", None)
    if context is None:
        context = _KEPT.context = _Context()
    return context


def decode_plain(kind: int, jobs: Ints, whole: int, buffer: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Decode chunks that have no checksum into ``buffer`` (slots, ...), each slot in C order; whether each could be.

    A row of ``jobs`` is a chunk: the address of the name of its file and its offset in that, or 0 and its address in
    memory; its most and least encoded bytes; the bytes to skip of the ``whole`` decoded ones; at which byte of the
    buffer they go, and how many.
    """
    functions, done = _decoders(), np.zeros(len(jobs), np.bool_)
    if functions is not None and len(jobs):
        encoded, parts = int(jobs[jobs[:, 0] > 0, 2].max(initial=0)), (jobs[:, 6] != whole).any()
        # Mapped, so that it goes back to the system: an allocator would keep as much for each thread.
        scratch = np.frombuffer(mmap.mmap(-1, max(encoded + whole * int(parts), 1)), np.uint8)
        room = np.array([buffer.ctypes.data, (len(buffer) - 1) * buffer.strides[0] + buffer[:1].nbytes])
        _decode_plain(functions, _context().address, kind, jobs, whole, room, scratch, done)
    return done


def read_chunks(arrays: Sequence[Array], chunks: Ints, buffers: Sequence[npt.NDArray[Any]], slots: Ints) -> int:
    """Decode chunks of several fields, which have the same chunks and shards; returns the bytes read.

    Each goes into its slot of one buffer (slots, chunk_rows, ...) per field. Raises DamagedStore if a bit has changed.
    """
    functions, sealed = _decoders(), [array for array in arrays if isinstance(array, SealedArray)]
    if functions is None or len(sealed) < len(arrays):
        return sum(array.chunks_into(chunks, buffer, slots) for array, buffer in zip(arrays, buffers, strict=True))
    files = sealed[0].files
    shards, inside = np.divmod(chunks, sealed[0].shard_chunks)
    touched = np.unique(shards).tolist()
    shards_at_once = max(1, files.at_once // len(sealed))
    if len(touched) > shards_at_once:
        groups = np.searchsorted(touched[::shards_at_once], shards, "right")
        some = [groups == group for group in range(1, int(groups.max()) + 1)]
        return sum(read_chunks(arrays, chunks[own], buffers, slots[own]) for own in some)
    pairs = [(array, shard) for array in sealed for shard in touched]
    if unread := [pair for pair in pairs if pair[1] not in pair[0].manifests]:
        _ = sealed[0].checksums  # of all arrays: read once, and not in each of the threads
        files.for_each(lambda pair: pair[0].manifest(pair[1]), unread)
    jobs = np.empty((len(sealed), len(chunks), 7), np.int64)
    jobs[:, :, 4] = [[KINDS[CODECS[array.codec.name].zarr]] for array in sealed]
    jobs[:, :, 5], jobs[:, :, 6] = np.arange(len(sealed))[:, np.newaxis], slots
    cells, wanted = [], []
    for shard in touched:
        own = np.flatnonzero(shards == shard) if len(touched) > 1 else slice(None)
        for number, array in enumerate(sealed):
            jobs[number, own, 1:4] = array.manifest(shard)[inside[own]]
            if files.exists(name := array.shard_file(shard)):
                cells.append((number, own))
                wanted.append(Ranges(name, jobs[number, own, 1], jobs[number, own, 2]))
    readers = files.open_ranges(wanted)  # which keep the bytes until all is read
    for cell, reader in zip(cells, readers, strict=True):
        jobs[*cell, 0] = reader.source
        jobs[*cell, 1] = reader.places
    return _run(functions, sealed, jobs, chunks, buffers, slots)


def _run(
    functions: Ints,
    arrays: Sequence[SealedArray],
    jobs: Ints,
    chunks: Ints,
    buffers: Sequence[npt.NDArray[Any]],
    slots: Ints,
) -> int:
    context = _context()
    lengths = jobs[:, :, 2]
    if len(context.scratch) < lengths.max():
        context.scratch = np.empty(int(lengths.max()), np.uint8)
    done = np.zeros(lengths.shape, np.bool_)
    some = np.zeros(np.count_nonzero(lengths), np.bool_)
    rooms = np.array([(buffer.ctypes.data, len(buffer), buffer.strides[0]) for buffer in buffers])
    _decode(functions, context.address, jobs[lengths > 0], rooms, context.scratch, some)
    done[lengths > 0] = some
    for field, place in np.argwhere(~done).tolist():  # empty, or damaged
        if not 0 <= slots[place] < len(buffers[field]):
            raise IndexError(
                f"expected one of {len(buffers[field])} slots for chunk {chunks[place]}, got {slots[place]}"
            )
        arrays[field].chunk(int(chunks[place]), buffers[field][slots[place]])
    return int(lengths.sum())
