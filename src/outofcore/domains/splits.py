"""Split of a sequence as a function of its content, of what it has in common with others, of names, or of its date."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.sections import SplitSection
from outofcore.errors import ParamsError
from outofcore.ndarrays import Bytes, Doubles, Ints
from outofcore.raw.unit import KEY_BYTES, Unit, UnitResult

SPLITS = ("train", "val", "test")
# Numbers that another set of files changes.
_PLACES = {"length", "member", "offset", "source"}
UNDATED, MIXED = -1, -2
"""In place of a split: split by date and without one; a game of players who are in different splits."""
PLAYERS = ("black", "white")
_UNNAMED = ("", "?")
_UNKNOWN = {"repeat": "-1"}
"""Value of a column that stands for none; "" of others."""


def splits_of(unit: Unit, result: UnitResult, section: SplitSection) -> npt.NDArray[np.int8]:
    """Split of each sequence of a unit: an index into :data:`SPLITS`, :data:`UNDATED` or :data:`MIXED`.

    Raises ParamsError if there is no such column, or val and test both name something.
    """
    by, columns = section.by, result.sequences
    if by == "place" and result.split is None and len(result.keys):
        raise ParamsError("splits.by: place is for text; expected content, file, or a column of the store")
    if by in ("content", "file", "place"):
        files = [name for _, name in unit.places]
        split = _drawn_by(files, section)[result.places] if by == "file" else _of_content(result, section)
        if not section.named:
            return split
        named = np.array([_named(file, section, fnmatchcase) for file in files], np.int8)[result.places]
        return np.where(named > 0, named, split).astype(np.int8)
    if by == "players" and columns.keys() >= set(PLAYERS):
        return _by_players(np.stack([columns[side].astype(str) for side in PLAYERS]), section)
    if by not in columns or by in _PLACES:
        known = ", ".join(sorted(columns.keys() - _PLACES))
        message = f"splits.by: expected content, file, or a column of the store ({known}), got {by}"
        if by == "players":
            message = "splits.by: players needs the columns black and white"
            message += ": set source.tags to [White, Black]" if "white_elo" in columns else f", there are {known}"
        raise ParamsError(message)
    if by == "date":
        return _by_date(columns[by].astype(np.int64), section)
    names, place = np.unique(columns[by].astype(str), return_inverse=True)
    split = _of_names(names.tolist(), section)[place]
    unknown = names[place] == _UNKNOWN.get(by, "")
    split[unknown] = _of_content(result, section)[unknown]  # what has no value in common belongs to no group
    return split


def _of_content(result: UnitResult, section: SplitSection) -> npt.NDArray[np.int8]:
    if result.split is not None:
        return np.array([SPLITS.index(name) for name in result.split], np.int8)
    return assign(result.keys, section)


def _of_names(names: list[str], section: SplitSection) -> npt.NDArray[np.int8]:
    """Split of each value of a column: as named, else drawn by a hash of the value."""
    named = np.array([_named(name, section, str.__eq__) for name in names], np.int8)
    return np.where(named > 0, named, _drawn_by(names, section)).astype(np.int8)


def _drawn_by(names: list[str], section: SplitSection) -> npt.NDArray[np.int8]:
    return assign(np.concatenate([np.zeros((0, KEY_BYTES), np.uint8), *map(_key, names)]), section)


def _named(name: str, section: SplitSection, same: Callable[[str, str], bool]) -> int:
    """The split that names this; 0 if none does."""
    matches = [split for split, named in section.named.items() if any(same(name, pattern) for pattern in named)]
    if len(matches) > 1:
        raise ParamsError(f"splits: expected val and test to name different things, both name {name!r}")
    return SPLITS.index(matches[0]) if matches else 0


def _by_players(players: npt.NDArray[Any], section: SplitSection) -> npt.NDArray[np.int8]:
    """Splits of games by the names of their players (2, games); one without a name is of train."""
    names, place = np.unique(players, return_inverse=True)
    split = _of_names(names.tolist(), section)
    split[np.isin(names, _UNNAMED)] = 0
    first, second = split[place.reshape(players.shape)]
    return np.where(first == second, first, MIXED).astype(np.int8)


def _key(value: str) -> Bytes:
    digest = hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()
    return np.frombuffer(digest, np.uint8)[None]


def _by_date(days: Ints, section: SplitSection) -> npt.NDArray[np.int8]:
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


def assign(keys: Bytes, section: SplitSection) -> npt.NDArray[Any]:
    """Split of each sequence by its key (n, 16) uint8: indices into :data:`SPLITS`, (n,) int8.

    The first half of the key, mixed with the seed by the finalizer of SplitMix64 (Steele, Lea, Flood 2014), is a number
    in [0, 2**64) that is compared with the shares.
    """
    share, (val, test) = shares(keys, section.seed), section.shares.values()
    split = np.zeros(len(keys), np.int8)
    split[share < val + test] = SPLITS.index("test")
    split[share < val] = SPLITS.index("val")
    return split


def shares(keys: Bytes, seed: int) -> Doubles:
    """A number in [0, 1) for each key, to compare with the shares of splits; parameters as for :func:`assign`."""
    value = np.ascontiguousarray(keys).view(">u8")[:, 0].astype(np.uint64)
    with np.errstate(over="ignore"):
        value ^= np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(31)
    return np.minimum(value.astype(np.float64) / 2.0**64, np.nextafter(1.0, 0.0))
