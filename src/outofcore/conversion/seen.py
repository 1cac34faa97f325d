"""Exact set of seen keys, 16 bytes each, in a few sorted runs; and the keys of the entries before one."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes
from outofcore.raw.unit import KEY_BYTES

Keys = npt.NDArray[np.uint64]
"""The first and the second half of each key, (2, n)."""

# Below this many keys a run is merged into the previous one at once.
SMALL_RUN = 4096
_BLOCK = 1 << 20  # keys looked up at a time


class SeenKeys:
    """A set of content hashes that grows by whole units.

    A newer run is merged when it reaches half the size of the older, so n keys cost 16 n bytes, twice that during a
    merge, and a look-up costs a binary search in each of at most log2(n) runs.
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []
        self._lows: list[npt.NDArray[np.uint64]] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, keys: Bytes) -> npt.NDArray[np.bool_]:
        """Add keys (n, 16) uint8; returns which are new (n,), counting earlier ones in ``keys`` as seen."""
        if keys.shape[1:] != (KEY_BYTES,):
            raise ValueError(f"expected keys of shape (n, {KEY_BYTES}), got {keys.shape}")
        high, low = halves(keys)
        new = np.ones(len(keys), bool)
        order = np.lexsort((np.arange(len(keys)), low, high))
        sorted_high, sorted_low = high[order], low[order]
        repeated = (sorted_high[1:] == sorted_high[:-1]) & (sorted_low[1:] == sorted_low[:-1])
        new[order[1:][repeated]] = False
        for run_high, run_low in zip(self._runs, self._lows, strict=True):
            new &= ~contains(run_high, run_low, high, low)
        fresh = order[new[order]]
        if len(fresh):
            self._runs.append(high[fresh])
            self._lows.append(low[fresh])
            self._merge()
        return new

    def keys(self) -> Keys:
        """All keys, sorted."""
        while len(self._runs) > 1:
            self._merge_last()
        return np.stack([*self._runs, *self._lows]) if self._runs else np.zeros((2, 0), np.uint64)

    def _merge(self) -> None:
        while len(self._runs) > 1 and len(self._runs[-2]) < max(SMALL_RUN, 2 * len(self._runs[-1])):
            self._merge_last()

    def _merge_last(self) -> None:
        high = np.concatenate([self._runs.pop(-2), self._runs.pop()])
        low = np.concatenate([self._lows.pop(-2), self._lows.pop()])
        order = np.lexsort((low, high))
        self._runs.append(high[order])
        self._lows.append(low[order])


class Earlier:
    """The entries before one: their keys, and a digest of what they were made of."""

    def __init__(self) -> None:
        self.digest = ""
        self._runs: list[Keys] = []

    def add(self, name: str, made_of: str, keys: Keys | None) -> None:
        """Add the next entry, with the sorted keys of its raw files."""
        self.digest = hashlib.sha256(f"{self.digest} {made_of} {name}".encode()).hexdigest()
        self._runs += [] if keys is None else [keys]

    def has(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which keys (2, n) an earlier entry has."""
        has = np.zeros(keys.shape[1], bool)
        for start in range(0, keys.shape[1], _BLOCK):
            block = np.ascontiguousarray(keys[:, start : start + _BLOCK])
            for run in self._runs:
                has[start : start + _BLOCK] |= contains(*run, *block)
        return has


def halves(keys: Bytes) -> Keys:
    """Keys (n, 16) uint8 as numbers."""
    return np.ascontiguousarray(np.ascontiguousarray(keys).view(">u8").astype(np.uint64).T)


def contains(
    run_high: npt.NDArray[np.uint64],
    run_low: npt.NDArray[np.uint64],
    high: npt.NDArray[np.uint64],
    low: npt.NDArray[np.uint64],
) -> npt.NDArray[np.bool_]:
    """Which (high, low) are in a run sorted by both."""
    place, stop = np.searchsorted(run_high, high), np.searchsorted(run_high, high, "right")
    contained = np.zeros(len(high), bool)
    # Bisection by the second half among equal first halves, which may be many (short games).
    live = np.flatnonzero(place < stop)
    while len(live):
        middle = (place[live] + stop[live]) // 2
        contained[live] = run_low[middle] == low[live]
        below = run_low[middle] < low[live]
        place[live[below]] = middle[below] + 1
        stop[live[~below]] = middle[~below]
        live = live[~contained[live] & (place[live] < stop[live])]
    return contained
