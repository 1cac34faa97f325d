"""Split of a sequence as a function of its content, so that equal content is never in two splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.sections import SplitSection

SPLITS = ("train", "val", "test")


def assign(keys: npt.NDArray[np.uint8], section: SplitSection) -> npt.NDArray[Any]:
    """Split of each sequence by its key (n, 16) uint8: indices into :data:`SPLITS`, (n,) int8.

    The first half of the key, mixed with the seed by the finalizer of SplitMix64 (Steele, Lea, Flood 2014), is a number
    in [0, 2**64) that is compared with the shares.
    """
    share = shares(keys, section.seed)
    split = np.zeros(len(keys), np.int8)
    split[share < section.val + section.test] = SPLITS.index("test")
    split[share < section.val] = SPLITS.index("val")
    return split


def shares(keys: npt.NDArray[np.uint8], seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1] for each key, to compare with the shares of splits; parameters as for :func:`assign`."""
    value = np.ascontiguousarray(keys).view(">u8")[:, 0].astype(np.uint64)
    with np.errstate(over="ignore"):
        value ^= np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(31)
    return value.astype(np.float64) / 2.0**64
