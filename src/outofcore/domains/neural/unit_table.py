"""The table of units: which of them are read or held out, and which of its columns are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import SourceSection, UnitCondition
from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.errors import ParamsError

LISTS = ("idx_components", "idx_components_bad")
"""Arrays of CaImAn that hold the numbers of units, in place of an entry for each unit."""


@dataclass(frozen=True)
class Units:
    """The units that were chosen."""

    rows: tuple[int, ...]  # of the table
    columns: Mapping[str, tuple[Any, ...]]  # that are kept, a number, word or None (not finite) for each


def find_units(source: SourceSection, count: int, column_of: Callable[[str], npt.NDArray[Any]]) -> Units | None:
    """The units that meet the conditions, None without any; raises SessionError."""
    if not source.units:
        return None
    met, kept = np.ones(count, bool), {}
    for condition in source.units:
        column = column_of(condition.column)
        if PurePosixPath(condition.column).name in LISTS:
            column = _listed(column, condition.column, count)
        if column.shape != (count,):
            raise SessionError(
                "unequal_length", f"source.units: {condition.column} has {len(column)} entries for {count} units"
            )
        if condition.kept:
            kept[condition.column] = column
        else:
            met &= _meeting(column, condition)
    if not met.any():
        raise SessionError("no_units", f"source.units: none of {count} units meets the conditions")
    columns = {name: tuple(map(_plain, column[met].tolist())) for name, column in kept.items()}
    return Units(tuple(np.flatnonzero(met).tolist()), columns)


def held_out(setting: UnitCondition | float | None, part: str, attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """The neurons of a stored session that are predicted from the others, () if all are predicted."""
    if setting is None:
        return ()
    neurons, columns = attributes["neurons"], attributes.get("unit_columns", {})
    if isinstance(setting, UnitCondition):
        if setting.column not in columns:
            raise ParamsError(
                f"neural.train.held_out: session {part} keeps {', '.join(columns) or 'no column'} of the units, not "
                f"{setting.column!r}: list {{column: {setting.column}}} in source.units and convert again"
            )
        values = [np.nan if value is None else value for value in columns[setting.column]]
        chosen = np.flatnonzero(_meeting(np.array(values), setting))
    else:
        chosen = np.flatnonzero(np.diff(np.floor(np.arange(neurons + 1) * setting)))
    if not 0 < len(chosen) < neurons:
        raise ParamsError(
            f"neural.train.held_out: session {part}: expected some of {neurons} neurons, got {len(chosen)}"
        )
    return tuple(chosen.tolist())


def _listed(numbers: npt.NDArray[Any], name: str, count: int) -> npt.NDArray[np.bool_]:
    """Which of the units a list has."""
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= count):
        raise SessionError(
            "wrong_type",
            f"source.units: {name}: expected numbers of units from 0 to {count - 1}, got {numbers.dtype} from "
            f"{numbers.min()} to {numbers.max()}",
        )
    return np.isin(np.arange(count), numbers)


def _plain(value: Any) -> Any:
    """A number or word that JSON has."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _meeting(column: npt.NDArray[Any], condition: UnitCondition) -> npt.NDArray[np.bool_]:
    if column.dtype.kind not in "biuf":
        if condition.values is None or condition.min is not None or condition.max is not None:
            raise SessionError(
                "wrong_type", f"source.units: {condition.column} holds words, which have no min or max; give values"
            )
        wanted = [str(value).replace("[", "[[]") for value in condition.values]  # * and ? are the only wildcards
        return np.array([any(fnmatchcase(str(word), value) for value in wanted) for word in column.tolist()], bool)
    words = [value for value in condition.values or () if isinstance(value, str)]
    if words:
        raise SessionError(
            "wrong_type",
            f"source.units: {condition.column} holds numbers, got the word {words[0]!r}; write numbers unquoted",
        )
    numbers = column.astype(np.float64)
    met = np.ones(len(numbers), bool)
    if condition.values is not None:
        met &= np.isin(numbers, list(condition.values))
    if condition.min is not None:
        met &= numbers >= condition.min
    if condition.max is not None:
        met &= numbers <= condition.max
    return met
