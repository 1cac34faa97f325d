"""Rows from where their chunks lie to where a batch wants them, without the interpreter lock.

Every residency that lives in this machine's memory comes down to the same thing: a table of addresses, one a chunk. A
row is found by its chunk's address and its place in the chunk, whether the chunk lies in a buffer, in an array of the
whole split or in a mapped file, where chunks stand at odd offsets with checksums between them. numpy has no gather over
scattered buffers, hence the kernel.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # has no types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

cgutils: Any = untyped_cgutils

Ints = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]

ABSENT = 0
"""The address of a chunk that is not in reach."""

AHEAD = 16  # rows; about the time of a cache miss


def _emit_copy(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy ``count`` bytes between two addresses that need no alignment."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        byte = ir.IntType(8).as_pointer()
        pointers = [builder.inttoptr(address, byte) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)

    return numba.types.void(target, source, count), generate


def _emit_prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line at an address."""
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


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _gather_rows(
    addresses: Addresses, first: Ints, chunk_rows: int, row_bytes: int, sources: Addresses, target: np.uint64
) -> int:
    """Copy single rows to ``target``; -1, or the number of a row that is not in reach."""
    count = len(first)
    for row in range(count):
        chunk = first[row] // chunk_rows
        if addresses[chunk] == 0:
            return row
        sources[row] = addresses[chunk] + np.uint64((first[row] - chunk * chunk_rows) * row_bytes)
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
    else:
        for row in range(count):
            if row + AHEAD < count:
                _prefetch(sources[row + AHEAD])
                _prefetch(sources[row + AHEAD] + np.uint64(64))
            _copy_row(target + np.uint64(row) * step, sources[row], row_bytes)
    return -1


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _copy_row(target: np.uint64, source: np.uint64, count: int) -> None:
    """Copy a row in pieces of constant size: for rows of a few cache lines, faster than a call of memcpy."""
    if count > 512:
        _copy(target, source, count)
        return
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


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _gather_windows(
    addresses: Addresses, first: Ints, length: int, chunk_rows: int, row_bytes: int, target: np.uint64
) -> int:
    """Copy windows of ``length`` rows to ``target``; -1, or the number of a window that is not in reach."""
    for sample in range(len(first)):
        row = first[sample]
        left = length
        while left > 0:
            start = max(row, 0)
            chunk = start // chunk_rows
            place = start - chunk * chunk_rows
            run = 1 if row < 0 else min(left, chunk_rows - place)
            if addresses[chunk] == 0:
                return sample
            _copy(target, addresses[chunk] + np.uint64(place * row_bytes), run * row_bytes)
            target += np.uint64(run * row_bytes)
            row += run
            left -= run
    return -1


def gather(addresses: Addresses, first: Ints, length: int, chunk_rows: int, out: npt.NDArray[Any]) -> None:
    """Copy a window of rows for each sample into ``out``.

    Parameters
    ----------
    addresses
        Where each chunk lies, decoded; ``ABSENT`` where it is not in reach.
    first
        First row of each window; a negative row stands for row 0.
    length
        Rows of a window.
    chunk_rows
        Rows of a chunk.
    out
        C-contiguous, (samples, ...) or (samples, length, ...).

    Raises
    ------
    LookupError
        If a chunk is not in reach.
    """
    if len(first) == 0:
        return
    row_bytes = out.nbytes // (len(first) * length)
    target = np.uint64(out.ctypes.data)
    if length == 1:
        missing = _gather_rows(
            addresses, first, chunk_rows, row_bytes, np.empty(len(first), np.uint64), target
        )
    else:
        missing = _gather_windows(addresses, first, length, chunk_rows, row_bytes, target)
    if missing >= 0:
        message = f"rows from {first[missing]} on are not in memory"
        raise LookupError(message)
