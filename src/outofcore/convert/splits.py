"""Which split a sequence belongs to: a function of its content, so that equal content never stands in two splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.sections import SplitSection

SPLITS = ("train", "val", "test")


def assign(keys: npt.NDArray[np.uint8], section: SplitSection) -> npt.NDArray[Any]:
    """Name the split of each sequence.

    The first half of the key, mixed with the seed by the finalizer of SplitMix64 (Steele, Lea, Flood 2014), is a number
    in [0, 2**64) that is compared with the shares.

    Parameters
    ----------
    keys
        Content hashes, shape (n, 16) uint8.
    section
        Shares of ``val`` and ``test``, and the seed.

    Returns
    -------
    Indices into :data:`SPLITS`, shape (n,) int8.
    """
    value = np.ascontiguousarray(keys).view(">u8")[:, 0].astype(np.uint64)
    with np.errstate(over="ignore"):
        value ^= np.uint64(section.seed) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(31)
    share = value.astype(np.float64) / 2.0**64
    split = np.zeros(len(keys), np.int8)
    split[share < section.val + section.test] = SPLITS.index("test")
    split[share < section.val] = SPLITS.index("val")
    return split
