"""Split of a sequence as a function of its content, of what it has in common with others, or of its date."""

from __future__ import annotations

import hashlib
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.sections import SplitSection
from outofcore.errors import ParamsError
from outofcore.raw.unit import KEY_BYTES, Unit, UnitResult

SPLITS = ("train", "val", "test")
# Numbers that another set of files changes.
_PLACES = {"length", "member", "offset", "source"}
UNDATED = -1
"""In place of a split, where sequences are split by date and one has none."""


def splits_of(unit: Unit, result: UnitResult, section: SplitSection) -> npt.NDArray[np.int8]:
    """Split of each sequence of a unit: an index into :data:`SPLITS`, or :data:`UNDATED`; raises ParamsError."""
    if result.split is not None:
        return np.array([SPLITS.index(name) for name in result.split], np.int8)
    if section.by == "content":
        return assign(result.keys, section)
    if section.by == "file":
        return assign(np.concatenate([_key(name) for _, name in unit.places])[result.places], section)
    if section.by not in result.sequences or section.by in _PLACES:
        columns = ", ".join(sorted(result.sequences.keys() - _PLACES))
        message = f"splits.by: expected content, file, or a column of the store ({columns}), got {section.by}"
        raise ParamsError(message)
    values = result.sequences[section.by]
    if section.by == "date":
        return _by_date(values.astype(np.int64), section)
    found, place = np.unique(values.astype(str), return_inverse=True)
    split = assign(np.concatenate([_key(value) for value in found.tolist()])[place], section)
    unknown = found[place] == ""
    split[unknown] = assign(result.keys[unknown], section)  # what has no value in common belongs to no group
    return split


def _key(value: str) -> npt.NDArray[np.uint8]:
    digest = hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()
    return np.frombuffer(digest, np.uint8)[None]


def _by_date(days: npt.NDArray[np.int64], section: SplitSection) -> npt.NDArray[np.int8]:
    """Splits of days yyyymmdd; of a day that is partly unknown, that of all days which it could be."""
    year, month, day = days // 10_000, days // 100 % 100, days % 100
    month = np.where(month > 12, 0, month)
    day = np.where((month == 0) | (day > 31), 0, day)
    earliest = 10_000 * year + 100 * np.maximum(month, 1) + np.maximum(day, 1)
    latest = 10_000 * year + 100 * np.where(month, month, 12) + np.where(day, day, 31)
    split, last = np.zeros(len(days), np.int8), np.zeros(len(days), np.int8)
    for name, first in (("val", section.val_from), ("test", section.test_from)):
        if first is not None:
            split[earliest >= _number(first)] = last[latest >= _number(first)] = SPLITS.index(name)
    split[(year < 1) | (split != last)] = UNDATED
    return split


def _number(day: date) -> int:
    return day.year * 10_000 + day.month * 100 + day.day


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
