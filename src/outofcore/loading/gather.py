"""Copy rows from their chunks into a batch, without the GIL.

All residencies in host memory provide a table of addresses by field and chunk. A row is found by its chunk's address
and its place in the chunk, whether the chunk is in a buffer, in an array of the whole split or in a mapped file, where
chunks are at odd offsets with checksums between them. numpy has no gather over scattered buffers, hence the kernel; one
call gathers all fields of a batch.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # has no types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

from outofcore.ndarrays import Ints
from outofcore.system.compilation import inner_kernel, kernel, njit

cgutils: Any = untyped_cgutils

Addresses = npt.NDArray[np.uint64]

ABSENT = 0
"""The address of an unavailable chunk."""

SLAB = 256  # rows whose places are held at a time
AHEAD = 16  # rows; about the time of a cache miss
LONG = 512  # bytes per row from which calling memcpy is cheaper than pieces of constant size


def _emit_copy(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy ``count`` bytes between two unaligned addresses."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        byte = ir.IntType(8).as_pointer()
        pointers = [builder.inttoptr(address, byte) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)

    return numba.types.void(target, source, count), generate


def _emit_prefetch(typingctx: Any, address: Any) -> Any:
    """Prefetch the cache line at an address."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        to_read, keep, data = (ir.Constant(word, number) for number in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], byte), to_read, keep, data])

    return numba.types.void(address), generate


_copy: Any = intrinsic(_emit_copy)
_prefetch: Any = intrinsic(_emit_prefetch)


@inner_kernel
def _copy_row(target: np.uint64, source: np.uint64, count: int) -> None:
    """Copy a row in pieces of constant size: faster than calling memcpy for rows of a few cache lines."""
    while count >= 32:
        _copy(target, source, 32)
        target, source, count = target + np.uint64(32), source + np.uint64(32), count - 32
    if count & 16:
        _copy(target, source, 16)
        target, source = target + np.uint64(16), source + np.uint64(16)
    if count & 8:
        _copy(target, source, 8)
        target, source = target + np.uint64(8), source + np.uint64(8)
    if count & 4:
        _copy(target, source, 4)
        target, source = target + np.uint64(4), source + np.uint64(4)
    if count & 2:
        _copy(target, source, 2)
        target, source = target + np.uint64(2), source + np.uint64(2)
    if count & 1:
        _copy(target, source, 1)


@inner_kernel
def _copy_rows(sources: Addresses, count: int, row_bytes: int, target: np.uint64) -> None:
    step = np.uint64(row_bytes)
    if row_bytes == 1:  # a constant size becomes one load and one store
        for row in range(count):
            _copy(target + np.uint64(row), sources[row], 1)
    elif row_bytes == 2:
        for row in range(count):
            _copy(target + np.uint64(row) * step, sources[row], 2)
    elif row_bytes == 4:
        for row in range(count):
            _copy(target + np.uint64(row) * step, sources[row], 4)
    elif row_bytes == 8:
        for row in range(count):
            _copy(target + np.uint64(row) * step, sources[row], 8)
    elif row_bytes < LONG:
        for row in range(count):
            if row + AHEAD < count:
                _prefetch(sources[row + AHEAD])
                _prefetch(sources[row + AHEAD] + np.uint64(64))
            _copy_row(target + np.uint64(row) * step, sources[row], row_bytes)
    else:
        for row in range(count):
            _copy(target + np.uint64(row) * step, sources[row], row_bytes)


@njit(nogil=True, cache=True, error_model="numpy")
def _gather_rows(table: Addresses, first: Ints, chunk_rows: int, row_bytes: Ints, targets: Addresses, at: int) -> int:
    """Copy single rows of all fields; returns -1, or the number of a row without chunk."""
    most = min(len(first), SLAB)
    chunks, places = np.empty(most, np.int64), np.empty(most, np.int64)
    sources = np.empty(most, np.uint64)
    for start in range(0, len(first), SLAB):
        count = min(SLAB, len(first) - start)
        for row in range(count):
            chunks[row] = first[start + row] // chunk_rows
            if first[start + row] < 0 or chunks[row] >= table.shape[1]:
                return start + row
            places[row] = first[start + row] - chunks[row] * chunk_rows
        for number in range(len(row_bytes)):
            size = row_bytes[number]
            addresses = table[number]
            for row in range(count):
                base = addresses[chunks[row]]
                if base == ABSENT:
                    return start + row
                sources[row] = base + np.uint64(places[row] * size)
            _copy_rows(sources, count, size, targets[number] + np.uint64((at + start) * size))
    return -1


@kernel
def _gather_windows(
    table: Addresses,
    first: Ints,
    lengths: Ints,
    chunk_rows: int,
    origins: Ints,
    row_bytes: Ints,
    targets: Addresses,
    at: int,
) -> int:
    """Copy runs of rows of all fields, end to end from row ``at``; returns -1, or the number of a run without chunk.

    ``lengths`` is that of each run, or one for all; if negative, the row is repeated.
    """
    for number in range(len(row_bytes)):
        size = row_bytes[number]
        addresses = table[number]
        target = targets[number] + np.uint64(at * size)
        for sample in range(len(first)):
            row = first[sample]
            left = lengths[min(sample, len(lengths) - 1)]
            repeats, left = left < 0, abs(left)
            last = (row if repeats else row + left - 1) // chunk_rows
            if last < 0 or last >= len(addresses):
                return sample
            origin = origins[last]
            while left > 0:
                start = max(row, origin)
                chunk = start // chunk_rows
                place = start - chunk * chunk_rows
                run = 1 if repeats or row < origin else min(left, chunk_rows - place)
                if addresses[chunk] == ABSENT:
                    return sample
                _copy(target, addresses[chunk] + np.uint64(place * size), run * size)
                target += np.uint64(run * size)
                row += 0 if repeats else run
                left -= run
    return -1


class BatchBuffer:
    """Destination of the rows of a batch.

    ``arrays`` by field are C-contiguous, (samples, ...) or (samples, length, ...); ``targets`` are their addresses in
    the order of the table's fields, ``sizes`` their bytes.
    """

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        self.targets = np.array([array.ctypes.data for array in arrays.values()], np.uint64)
        self.sizes = np.array([array.nbytes for array in arrays.values()], np.int64)


def gather(
    table: Addresses,
    first: Ints,
    length: int,
    chunk_rows: int,
    origins: Ints,
    row_bytes: Ints,
    buffer: BatchBuffer,
    at: int,
    lengths: Ints | None = None,
) -> None:
    """Copy a window of ``length`` rows for each sample into ``buffer``, from sample ``at`` on.

    ``table`` (fields, chunks) has the address of each decoded chunk, ``ABSENT`` if unavailable. ``first`` is the first
    row of each window; ``origins`` (chunks,) is the first row of each chunk's store, repeated where a window reaches
    back before it; ``row_bytes`` are bytes per row of each field. With ``lengths``, ``first`` and ``lengths`` are of
    the runs that make up the windows, end to end; a negative length repeats the row. Raises LookupError if a chunk is
    unavailable, IndexError if the buffer is too small.
    """
    rows = len(first) * length if lengths is None else int(np.abs(lengths).sum())
    if at < 0 or ((at * length + rows) * row_bytes > buffer.sizes).any():
        raise IndexError(f"{rows} rows from sample {at} on do not fit into a buffer of {buffer.sizes.tolist()} bytes")
    if length == 1:
        missing = _gather_rows(table, first, chunk_rows, row_bytes, buffer.targets, at)
    else:
        runs = np.array([length]) if lengths is None else lengths
        missing = _gather_windows(table, first, runs, chunk_rows, origins, row_bytes, buffer.targets, at * length)
    if missing >= 0:
        raise LookupError(f"rows from {first[missing]} on are not in memory")
