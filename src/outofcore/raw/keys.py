"""Keys of many records in one compiled call that releases the GIL: a call of hashlib per record takes longer to make.

BLAKE2b as in RFC 7693, without a key; tests compare it with :func:`hashlib.blake2b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.raw.unit import KEY_BYTES
from outofcore.system.compilation import inlined_kernel, inner_kernel, kernel, njit, variable

Bytes = npt.NDArray[np.uint8]
Spans = npt.NDArray[np.int64]

_BLOCK_BYTES = 128
_START = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_PARAMETERS = np.uint64(0x01010000)  # no key, no tree; the length of the digest is added
# Words of the block by round and step; unsigned, since compiled code checks whether other indices are negative.
_ROUNDS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    np.uint64,
)


def keys_of(pieces: Sequence[tuple[npt.NDArray[Any], Spans]], size: int = KEY_BYTES) -> Bytes:
    """BLAKE2b digests of n records, (n, ``size``) uint8.

    Record i is bytes ``spans[i, 0]`` to ``spans[i, 1]`` of each piece, one after the other; ``pieces`` are pairs of a
    contiguous array and ``spans`` (n, 2).
    """
    lengths = sum(spans[:, 1] - spans[:, 0] for _, spans in pieces)
    bounds = np.zeros(len(pieces[0][1]) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    records, ends = np.empty(bounds[-1], np.uint8), bounds[:-1].copy()
    for content, spans in pieces:
        _append(content.reshape(-1).view(np.uint8), spans, records, ends)
    digests = np.empty((len(ends), size), np.uint8)
    _digest(records, bounds, digests)
    return digests


@kernel
def _append(content: Any, spans: Any, records: Any, ends: Any) -> None:
    for n in range(len(spans)):
        for place in range(spans[n, 0], spans[n, 1]):
            records[ends[n]] = content[place]
            ends[n] += 1


@njit(nogil=True, cache=True)
def _digest(records: Any, bounds: Any, digests: Any) -> None:
    block, state = np.empty(_BLOCK_BYTES // 8, np.uint64), np.empty(8, np.uint64)
    block_bytes, state_bytes = block.view(np.uint8), state.view(np.uint8)
    for n in range(len(digests)):
        for word in range(len(state)):
            state[word] = _START[word]
        state[0] ^= _PARAMETERS | np.uint64(digests.shape[1])
        first, last = bounds[n], bounds[n + 1]
        place = first
        while place == first or place < last:
            taken = min(_BLOCK_BYTES, last - place)
            for byte in range(_BLOCK_BYTES):  # to assign slices takes seconds to compile
                block_bytes[byte] = records[place + byte] if byte < taken else np.uint8(0)
            place += taken
            _compress(state, block, np.uint64(place - first), place == last)
            if place == last:
                break
        for byte in range(digests.shape[1]):
            digests[n, byte] = state_bytes[byte]


@inner_kernel
def _compress(state: Any, block: Any, count: Any, is_last: Any) -> None:
    a0, a1, a2, a3, b0, b1, b2, b3 = state
    c0, c1, c2, c3, d0, d1, d2, d3 = _START
    d0 ^= count
    if is_last:
        d2 = ~d2
    for s in _ROUNDS:
        a0, b0, c0, d0 = _mix(a0, b0, c0, d0, block[s[0]], block[s[1]])
        a1, b1, c1, d1 = _mix(a1, b1, c1, d1, block[s[2]], block[s[3]])
        a2, b2, c2, d2 = _mix(a2, b2, c2, d2, block[s[4]], block[s[5]])
        a3, b3, c3, d3 = _mix(a3, b3, c3, d3, block[s[6]], block[s[7]])
        a0, b1, c2, d3 = _mix(a0, b1, c2, d3, block[s[8]], block[s[9]])
        a1, b2, c3, d0 = _mix(a1, b2, c3, d0, block[s[10]], block[s[11]])
        a2, b3, c0, d1 = _mix(a2, b3, c0, d1, block[s[12]], block[s[13]])
        a3, b0, c1, d2 = _mix(a3, b0, c1, d2, block[s[14]], block[s[15]])
    state[0] ^= a0 ^ c0
    state[1] ^= a1 ^ c1
    state[2] ^= a2 ^ c2
    state[3] ^= a3 ^ c3
    state[4] ^= b0 ^ d0
    state[5] ^= b1 ^ d1
    state[6] ^= b2 ^ d2
    state[7] ^= b3 ^ d3


@inlined_kernel
def _mix(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    a = a + b + x
    d = _rotated(d ^ a, variable(32))
    c += d
    b = _rotated(b ^ c, variable(24))
    a = a + b + y
    d = _rotated(d ^ a, variable(16))
    c += d
    return a, _rotated(b ^ c, variable(63)), c, d


@inlined_kernel
def _rotated(word: Any, right: Any) -> Any:
    return word >> np.uint64(right) | word << np.uint64(64 - right)
