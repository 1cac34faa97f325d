"""Stable keyed randomness: permutations from a few integers, the same on any machine and with any library version.

numpy guarantees the raw streams of its bit generators but not the results of ``Generator`` methods, and a saved order
must be continued by future versions. So the order uses its own primitives: a 64-bit mixing function (SplitMix64's
finalizer; Steele, Lea, Flood, 2014), Fisher-Yates with bounded draws by multiplication (Lemire, 2019), and a Feistel
network with cycle walking (Black, Rogaway, 2002) for permutations too long to hold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Ints
from outofcore.system.compilation import inner_kernel, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK_64 = 2**64 - 1
FEISTEL_ROUNDS = 8

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_LOW_32 = np.uint64(0xFFFFFFFF)
_1, _11, _27, _30, _31, _32 = (
    np.uint64(1),
    np.uint64(11),
    np.uint64(27),
    np.uint64(30),
    np.uint64(31),
    np.uint64(32),
)
_EXACT = 2**53  # float64 holds smaller integers
_COARSE = 2**31  # 32 random bits are enough below


@inner_kernel
def _mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _30)) * _MULTIPLIER_1
    word = (word ^ (word >> _27)) * _MULTIPLIER_2
    return word ^ (word >> _31)


@inner_kernel
def _below(word: np.uint64, bound: np.uint64) -> np.uint64:
    """The high 64 bits of word * bound: a uniform draw from 0..bound-1, for a bound under 2**32."""
    return ((word >> _32) * bound + (((word & _LOW_32) * bound) >> _32)) >> _32


@inner_kernel
def _high(word: np.uint64, bound: np.uint64) -> np.uint64:
    """The same for a bound of up to 64 bits, in halves whose products fit."""
    low, high = bound & _LOW_32, bound >> _32
    middle = (word >> _32) * low + (((word & _LOW_32) * low) >> _32)
    other = (word & _LOW_32) * high + (middle & _LOW_32)
    return (word >> _32) * high + (middle >> _32) + (other >> _32)


@kernel
def shuffle(values: Ints, key: np.uint64) -> None:
    """Permute in place; callable from compiled code."""
    state = key
    for last in range(len(values) - 1, 0, -1):
        state += GOLDEN
        other = np.int64(_below(_mix(state), np.uint64(last + 1)))
        values[last], values[other] = values[other], values[last]


@kernel
def _deal(values: Ints, starts: Ints, keys: npt.NDArray[np.uint64], out: Ints) -> None:
    lanes = len(keys)
    for lane in range(lanes):
        shuffle(values[starts[lane] : starts[lane + 1]], keys[lane])
    shortest = starts[lanes] - starts[lanes - 1]
    place = 0
    for element in range(shortest):
        for lane in range(lanes):
            out[place] = values[starts[lane] + element]
            place += 1
    for lane in range(len(values) - place):
        out[place + lane] = values[starts[lane] + shortest]


@kernel
def _feistel(
    positions: Ints,
    size: np.uint64,
    low_bits: np.uint64,
    high_bits: np.uint64,
    keys: npt.NDArray[np.uint64],
    out: Ints,
) -> None:
    low_mask, high_mask = (_1 << low_bits) - _1, (_1 << high_bits) - _1
    for place in range(len(positions)):
        word = np.uint64(positions[place])
        while True:
            low, high = word & low_mask, word >> low_bits
            for turn in range(0, len(keys), 2):
                low ^= _mix(high + keys[turn]) & low_mask
                high ^= _mix(low + keys[turn + 1]) & high_mask
            word = (high << low_bits) | low
            if word < size:
                break
        out[place] = np.int64(word)


@kernel
def shuffle_runs(values: Ints, run: int, key: np.uint64) -> None:
    """Permute every ``run`` values in place."""
    for first in range(0, len(values), run):
        shuffle(values[first : first + run], _mix(key + np.uint64(first)))


@kernel
def _strata(low: int, high: int, key: np.uint64, out: Ints) -> None:
    width, count, state = high - low, max(len(out), 1), key
    start, left = low, 0  # number * width == (start - low) * count + left; the product itself can pass 2**63
    for number in range(len(out)):
        state += GOLDEN
        word = _mix(state)
        if width < _EXACT:
            drawn = np.int64(np.float64(word >> _11) * 2.0**-53 * width)
        else:  # a float64 does not hold it
            drawn = np.int64(_high(word, np.uint64(width)))
        out[number] = start + (left + drawn) // count
        start, left = start + width // count, left + width % count
        if left >= count:
            start, left = start + 1, left - count


@kernel
def _scale(words: npt.NDArray[np.uint64], bounds: Ints, out: Ints) -> None:
    for place in range(len(words)):
        word, bound = words[place], np.uint64(bounds[place])
        if bounds[place] < _COARSE:
            out[place] = np.int64(((word >> _32) * bound) >> _32)
        else:
            out[place] = np.int64(_high(word, bound))


@kernel
def _words(first: np.uint64, step: np.uint64, key: np.uint64, out: npt.NDArray[np.uint64]) -> None:
    for number in range(len(out)):
        out[number] = _mix(key + GOLDEN * (first + step * np.uint64(number) + _1))


def key(*words: int) -> int:
    """A 64-bit key from a few non-negative integers, in their order."""
    mixed = 0
    for word in words:
        mixed = _mix_plain(_mix_plain((mixed + int(GOLDEN)) & MASK_64) ^ (word & MASK_64))
    return mixed


def draw(bound: int, *words: int) -> int:
    """A uniform draw from ``0..bound - 1`` that depends only on ``words``."""
    return (key(*words) * bound) >> 64


def random_words(first: int, step: int, count: int, key: int) -> npt.NDArray[np.uint64]:
    """Random words number ``first``, ``first + step``, ... of SplitMix64's sequence for a key, ``count`` of them."""
    out = np.empty(count, np.uint64)
    _words(np.uint64(first), np.uint64(step), np.uint64(key), out)
    return out


def scaled(words: npt.NDArray[np.uint64], bounds: Ints) -> Ints:
    """A uniform draw from ``0..bound - 1`` for each random word and its bound, two arrays of one shape."""
    out = np.empty(words.size, np.int64)
    _scale(words.reshape(-1), bounds.reshape(-1), out)
    return out.reshape(words.shape)


def permutation(size: int, *words: int) -> Ints:
    """A permutation of ``0..size - 1`` that depends only on ``words``; ``size`` under 2**32."""
    values = np.arange(size, dtype=np.int64)
    shuffle(values, np.uint64(key(*words)))
    return values


def local_permutation(size: int, block: int, pool: int, *words: int) -> Ints:
    """A permutation that keeps neighbours close: permute blocks, then shuffle runs of ``pool`` places."""
    blocks = permutation(-(-size // block), *words)
    values = (blocks[:, None] * block + np.arange(block)).reshape(-1)
    values = values[values < size]
    shuffle_runs(values, pool, np.uint64(key(*words, 1)))
    return values


def strata(low: int, high: int, count: int, *words: int) -> Ints:
    """``count`` ascending numbers in ``low..high - 1``, one drawn uniformly from each of as many equal strata."""
    out = np.empty(count, np.int64)
    _strata(low, high, np.uint64(key(*words)), out)
    return out


def deal(values: Ints, starts: Ints, keys: list[int]) -> Ints:
    """Shuffle consecutive lanes of ``values`` in place, each by its key, and interleave them.

    ``starts`` are the beginnings of the lanes and their end; lengths are non-increasing and differ by at most one.
    Returns element 0 of each lane, element 1 of each lane, and so on.
    """
    out = np.empty(len(values), np.int64)
    _deal(values, starts, np.array(keys, np.uint64), out)
    return out


def scatter(positions: Ints, size: int, *words: int) -> Ints:
    """Images of ``positions`` under a permutation of ``0..size - 1``, without holding the permutation.

    A Feistel network over the smallest power of two that holds ``size``; results outside are mapped again until inside,
    less than twice on average.
    """
    out = np.empty(len(positions), np.int64)
    keys = np.array([key(*words, turn) for turn in range(FEISTEL_ROUNDS)], np.uint64)
    bits = max(size - 1, 1).bit_length()
    low_bits, high_bits = np.uint64(bits - bits // 2), np.uint64(bits // 2)
    _feistel(np.ascontiguousarray(positions), np.uint64(size), low_bits, high_bits, keys, out)
    return out


def _mix_plain(word: int) -> int:
    word = ((word ^ (word >> 30)) * int(_MULTIPLIER_1)) & MASK_64
    word = ((word ^ (word >> 27)) * int(_MULTIPLIER_2)) & MASK_64
    return word ^ (word >> 31)
