"""Read, check and decode many chunks in one compiled call that releases the GIL throughout.

Decoding a chunk from Python takes the GIL a dozen times, and a thread that decodes in parallel waits for it longer than
it works. If a C function is missing (:mod:`outofcore.store.native`), and for any chunk with an error,
:meth:`outofcore.store.array.SealedArray.chunk` does the work and reports the error.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import numpy.typing as npt

from outofcore.store.array import Array, SealedArray
from outofcore.store.codecs import BLOSC_HEADER, BLOSC_WORD, CRC_BYTES
from outofcore.store.files import IN_MEMORY, Ranges
from outofcore.store.native import CRC_32C, Words, addresses, call
from outofcore.store.shards import EMPTY
from outofcore.system.compilation import njit

_NONE, _LZ4, _ZSTD, _OTHER = range(4)
_KINDS = {"none": _NONE, "lz4": _LZ4, "zstd": _ZSTD}  # of the codecs with a kernel here
_KEPT = threading.local()


@njit(nogil=True, cache=True)
def _decode(
    functions: Words, context: int, jobs: Words, scratch: npt.NDArray[np.uint8], done: npt.NDArray[np.bool_]
) -> None:
    pread, memmove, crc32c, zstd, blosc = functions[0], functions[1], functions[2], functions[3], functions[4]
    buffer = np.int64(scratch.ctypes.data)
    header = np.empty(BLOSC_HEADER // BLOSC_WORD, np.uint32)
    for number in range(len(jobs)):
        source, place, length = jobs[number, 0], jobs[number, 1], jobs[number, 2]
        kind, target, size, sealed = jobs[number, 3], jobs[number, 4], jobs[number, 5], jobs[number, 6]
        body = length - CRC_BYTES
        if kind == _NONE and source != IN_MEMORY:  # directly into its slot
            if body != size or call(pread, (source, target, body, place)) != body:
                continue
            if call(pread, (source, np.int64(header.ctypes.data), CRC_BYTES, place + body)) != CRC_BYTES:
                continue
            done[number] = header[0] == sealed == call(crc32c, (target, body)) & 0xFFFFFFFF
            continue
        encoded = place
        if source != IN_MEMORY:
            encoded = buffer
            if call(pread, (source, buffer, length, place)) != length:
                continue
        call(memmove, (np.int64(header.ctypes.data), encoded + body, CRC_BYTES))
        if header[0] != sealed or call(crc32c, (encoded, body)) & 0xFFFFFFFF != sealed:
            continue
        if kind == _ZSTD:
            done[number] = call(zstd, (context, target, size, encoded, body)) == size
        elif kind == _LZ4:
            if body < BLOSC_HEADER:
                continue
            call(memmove, (np.int64(header.ctypes.data), encoded, BLOSC_HEADER))
            if header[1] != size or header[3] != body:  # the decompressor trusts them
                continue
            done[number] = call(blosc, (encoded, target, size, 1)) & 0xFFFFFFFF == size
        elif kind == _NONE and body == size:
            call(memmove, (target, encoded, size))
            done[number] = True


@njit(nogil=True, cache=True)
def _check(
    functions: Words, places: npt.NDArray[np.uint64], lengths: Words, sealed: Words, sound: npt.NDArray[np.bool_]
) -> None:
    stored = np.empty(1, np.uint32)
    for number in range(len(places)):
        place, body = np.int64(places[number]), lengths[number] - CRC_BYTES
        if body >= 0:
            call(functions[1], (np.int64(stored.ctypes.data), place + body, CRC_BYTES))
            sound[number] = stored[0] == sealed[number] == call(functions[2], (place, body)) & 0xFFFFFFFF


def intact(places: npt.NDArray[np.uint64], lengths: Words, sealed: Words) -> npt.NDArray[np.bool_]:
    """Whether chunks in memory have the sealed checksums; False where they cannot be computed."""
    functions, sound = _functions(), np.zeros(len(places), np.bool_)
    if functions is not None:
        _check(functions, places, lengths, sealed, sound)
    return sound


@cache
def _functions() -> Words | None:
    return addresses(
        (None, "pread"),
        (None, "memmove"),
        CRC_32C,
        ("numcodecs.zstd", "ZSTD_decompressDCtx"),
        ("numcodecs.blosc", "blosc_decompress_ctx"),
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


class ChunkReader:
    """Decodes chunks of several fields, which have the same chunks, one after another."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = tuple(arrays)

    def read(self, chunks: Words, buffers: Sequence[npt.NDArray[Any]], slots: Words) -> int:
        """Decode chunks into slots of one buffer (slots, chunk_rows, ...) per field; returns the bytes read."""
        return sum(
            array.chunk(int(chunk), buffer[slot])
            for array, buffer in zip(self._arrays, buffers, strict=True)
            for chunk, slot in zip(chunks, slots, strict=True)
        )


class BulkReader(ChunkReader):
    """Decodes chunks of several fields of a sealed store, which have the same shards too, in compiled calls."""

    def __init__(self, arrays: Sequence[SealedArray]) -> None:
        self._arrays: tuple[SealedArray, ...] = tuple(arrays)
        some = self._arrays[0]
        self._shard_chunks = some.shard_rows // some.chunk_rows
        # Offset and length of each chunk of each field, 0 for an empty chunk; of the shards that are located.
        self._places = np.zeros((len(self._arrays), some.chunks, 2), np.int64)
        self._located: set[tuple[int, int]] = set()
        self._names: dict[tuple[int, int], str] = {}  # of those that have a file
        self._kinds = np.array([[_KINDS.get(array.codec.name, _OTHER)] for array in self._arrays])

    def read(self, chunks: Words, buffers: Sequence[npt.NDArray[Any]], slots: Words) -> int:
        functions = _functions()
        if functions is None:
            return super().read(chunks, buffers, slots)
        shards = chunks // self._shard_chunks
        touched = sorted(set(shards.tolist()))
        files = self._arrays[0].files
        together = max(1, files.at_once // len(self._arrays))
        if len(touched) > together:
            firsts = np.array(touched[::together])
            groups = np.searchsorted(firsts, shards, "right")
            return sum(
                self.read(chunks[groups == group], buffers, slots[groups == group])
                for group in range(1, len(firsts) + 1)
            )
        pairs = [(number, shard) for number in range(len(self._arrays)) for shard in touched]
        files.each(self._locate, [pair for pair in pairs if pair not in self._located])
        strides = np.array([[buffer.strides[0]] for buffer in buffers])
        jobs = np.empty((len(self._arrays), len(chunks), 7), np.int64)
        jobs[:, :, 1:3] = self._places[:, chunks]
        jobs[:, :, 3] = self._kinds
        jobs[:, :, 4] = np.array([[buffer.ctypes.data] for buffer in buffers]) + strides * slots
        jobs[:, :, 5] = strides
        for number, array in enumerate(self._arrays):
            jobs[number, :, 6] = array.checksums[chunks]
        whole = slice(None)
        where = {shard: np.flatnonzero(shards == shard) if len(touched) > 1 else whole for shard in touched}
        cells = [jobs[number, where[shard]] for number, shard in pairs]
        names = [self._names.get(pair) for pair in pairs]
        wanted = [Ranges(name, cell[:, 1], cell[:, 2]) for name, cell in zip(names, cells, strict=True) if name]
        reached = iter(files.open_ranges(wanted))
        held = []  # until all is read
        for (number, shard), name in zip(pairs, names, strict=True):
            if name:
                each = next(reached)
                held.append(each.held)
                jobs[number, where[shard], 0] = each.source
                jobs[number, where[shard], 1] = each.places
        return self._run(functions, jobs, chunks, buffers, slots)

    def _run(
        self, functions: Words, jobs: Words, chunks: Words, buffers: Sequence[npt.NDArray[Any]], slots: Words
    ) -> int:
        context = getattr(_KEPT, "context", None)
        if context is None:
            context = _KEPT.context = _Context()
        lengths = jobs[:, :, 2]
        if len(context.scratch) < lengths.max():
            context.scratch = np.empty(int(lengths.max()), np.uint8)
        done = np.zeros(lengths.shape, np.bool_)
        some = np.zeros(np.count_nonzero(lengths), np.bool_)
        _decode(functions, context.address, jobs[lengths > 0], context.scratch, some)
        done[lengths > 0] = some
        for field, place in np.argwhere(~done).tolist():  # empty, or damaged
            self._arrays[field].chunk(int(chunks[place]), buffers[field][slots[place]])
        return int(lengths.sum())

    def _locate(self, pair: tuple[int, int]) -> None:
        number, shard = pair
        first = shard * self._shard_chunks
        places = self._places[number, first : first + self._shard_chunks]
        index = self._arrays[number].index(shard)
        if index is not None:
            written = index[: len(places)]
            places[:] = np.where(written == EMPTY, 0, written)
            self._names[pair] = self._arrays[number].shard_file(shard)
        self._located.add(pair)  # last, as other threads check it


def reader_of(arrays: Sequence[Array]) -> ChunkReader:
    """The fastest reader of fields that are read together."""
    sealed = [array for array in arrays if isinstance(array, SealedArray)]
    return BulkReader(sealed) if len(sealed) == len(arrays) else ChunkReader(arrays)
