"""Many chunks in one call: read, checked and decoded by compiled code, the interpreter lock left alone throughout.

A chunk that is decoded from Python takes the lock a dozen times, and a thread that decodes beside others waits for it
longer than it works. The libraries that do the work (zstd and Blosc inside numcodecs, CRC-32C inside google-crc32c)
export their C functions, which compiled code can call by address. Where one of them is missing, and for each chunk with
which anything is wrong, :meth:`outofcore.store.reader.Array.chunk` does the work, and says what is wrong.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # has no types
from numba.extending import intrinsic

from outofcore.store.codecs import CRC_BYTES
from outofcore.store.reader import Array
from outofcore.store.shards import EMPTY

Words = npt.NDArray[np.int64]

_NONE, _LZ4, _ZSTD = range(3)
_KINDS = {"none": _NONE, "lz4": _LZ4, "zstd": _ZSTD}
_KEPT = threading.local()


def _call(signature_words: int) -> Any:
    """What calls a C function by its address, from compiled code; its arguments and its result are 64-bit words."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        del context, signature
        word = ir.IntType(64)
        function = ir.FunctionType(word, [word] * signature_words).as_pointer()
        return builder.call(builder.inttoptr(values[0], function), values[1:])

    return generate


@intrinsic
def _call_2(_: Any, function: Any, a: Any, b: Any) -> Any:
    return numba.types.int64(function, a, b), _call(2)


@intrinsic
def _call_4(_: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return numba.types.int64(function, a, b, c, d), _call(4)


@intrinsic
def _call_5(_: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    return numba.types.int64(function, a, b, c, d, e), _call(5)


call_2: Any = _call_2
call_4: Any = _call_4
call_5: Any = _call_5


@numba.njit(nogil=True, cache=True)
def _decode(
    functions: Words, context: int, jobs: Words, scratch: npt.NDArray[np.uint8], done: npt.NDArray[np.bool_]
) -> None:
    pread, crc32c, zstd, blosc = functions[0], functions[1], functions[2], functions[3]
    buffer = np.int64(scratch.ctypes.data)
    for number in range(len(jobs)):
        descriptor, offset, length = jobs[number, 0], jobs[number, 1], jobs[number, 2]
        kind, target, size = jobs[number, 3], jobs[number, 4], jobs[number, 5]
        body = length - CRC_BYTES
        if kind == _NONE:  # straight to its place
            if body != size or call_4(pread, descriptor, target, body, offset) != body:
                continue
            if call_4(pread, descriptor, buffer, CRC_BYTES, offset + body) != CRC_BYTES:
                continue
            checked, sum_at = target, 0
        else:
            if call_4(pread, descriptor, buffer, length, offset) != length:
                continue
            checked, sum_at = buffer, body
        found = call_2(crc32c, checked, body)
        same = True
        for place in range(CRC_BYTES):
            same &= (found >> (8 * place)) & 0xFF == scratch[sum_at + place]
        if not same:
            continue
        if kind == _ZSTD:
            done[number] = call_5(zstd, context, target, size, buffer, body) == size
        elif kind == _LZ4:
            done[number] = call_4(blosc, buffer, target, size, 1) & 0xFFFFFFFF == size
        else:
            done[number] = True


@cache
def _functions() -> Words | None:
    """Addresses of the C functions; None if one is missing."""
    try:
        from google_crc32c import _crc32c  # google-crc32c has a version without it

        found = [
            ctypes.CDLL(None).pread,
            ctypes.CDLL(_crc32c.__file__).crc32c_value,
            ctypes.CDLL(numcodecs.zstd.__file__).ZSTD_decompressDCtx,
            ctypes.CDLL(numcodecs.blosc.__file__).blosc_decompress_ctx,
        ]
    except (ImportError, AttributeError, OSError):
        return None
    return np.array([ctypes.cast(function, ctypes.c_void_p).value for function in found], np.int64)


class _Context:
    """A zstd context and room for an encoded chunk; each thread keeps its own."""

    def __init__(self) -> None:
        library = ctypes.CDLL(numcodecs.zstd.__file__)
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        self._free = library.ZSTD_freeDCtx
        self._free.argtypes = [ctypes.c_void_p]
        self.address: int = library.ZSTD_createDCtx()
        self.scratch = np.empty(0, np.uint8)

    def __del__(self) -> None:
        self._free(self.address)


class BulkReader:
    """Decodes chunks of several fields.

    Parameters
    ----------
    arrays
        The fields; all have the same chunks and shards.
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = tuple(arrays)
        some = self._arrays[0]
        self._shard_chunks = some.shard_rows // some.chunk_rows
        # Offset and length of each chunk of each field; -1 while the shard's index is not read, 0 for an empty chunk.
        self._places = np.full((len(self._arrays), some.chunks, 2), -1, np.int64)

    def read(self, chunks: Words, buffers: Sequence[npt.NDArray[Any]], slots: Words) -> int:
        """Decode chunks into slots of a buffer a field.

        Parameters
        ----------
        chunks
            Which chunks.
        buffers
            One a field, C-contiguous, (slots, chunk_rows, ...).
        slots
            Where each chunk goes.

        Returns
        -------
        Bytes read from the store.

        Raises
        ------
        DamagedStore
            If a bit of a chunk has changed; names store, field and shard.
        """
        functions = _functions()
        if functions is None:
            return sum(
                array.chunk(int(chunk), buffer[slot])
                for array, buffer in zip(self._arrays, buffers, strict=True)
                for chunk, slot in zip(chunks, slots, strict=True)
            )
        shards = chunks // self._shard_chunks
        jobs = np.empty((len(self._arrays), len(chunks), 6), np.int64)
        held = []  # open files, until all is read
        for number, (array, buffer) in enumerate(zip(self._arrays, buffers, strict=True)):
            for shard in set(shards.tolist()):
                where = shards == shard
                if self._places[number, shard * self._shard_chunks, 0] < 0:
                    self._locate(number, shard)
                if array.index(shard) is not None:
                    file = array.open_shard(shard)
                    held.append(file)
                    jobs[number, where, 0] = file.number
            jobs[number, :, 1:3] = self._places[number, chunks]
            jobs[number, :, 3] = _KINDS[array.codec.name]
            jobs[number, :, 4] = buffer.ctypes.data + slots * buffer.strides[0]
            jobs[number, :, 5] = buffer.strides[0]
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

    def _locate(self, number: int, shard: int) -> None:
        first = shard * self._shard_chunks
        places = self._places[number, first : first + self._shard_chunks]
        index = self._arrays[number].index(shard)
        if index is None:
            places[:] = 0
        else:
            written = index[: len(places)]
            places[:] = np.where(written == EMPTY, 0, written)
