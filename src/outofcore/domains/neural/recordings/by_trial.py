"""Sessions that keep an array for each trial: names with ``*``, MATLAB cells, ragged rows.

Arrays belong to one trial if ``*`` stands for the same in their names, or by the number of their cell. A trial that
lacks an array is rejected; one whose arrays differ in length is cut to the shortest. Too few cells are refused: which
of them is missing cannot be known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import COVARIATES, RESPONSES, SourceSection
from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, flat, identify, part
from outofcore.domains.neural.recordings.recording import Recording, checked, joined, matching, missing
from outofcore.ndarrays import Ints
from outofcore.raw.files import natural_order
from outofcore.raw.unit import Reject

Key = tuple[str, ...]
"""What each ``*`` of a name stands for, or the number of a cell from 1."""


@dataclass(frozen=True)
class MarkedTrials:
    """Trials as marked in the file; arrays have shape (trials,)."""

    start: Ints  # bins
    stop: Ints
    label: Ints
    number: Ints  # among all ``total`` trials that are marked
    entry: Ints  # first frame
    total: int
    rejects: list[Reject]  # trials, or ends of them, that are not stored


@dataclass(frozen=True)
class TrialArrays:
    """The arrays of all complete trials, end to end."""

    arrays: Mapping[str, RecordedArray]  # by field of names; of ``repeat`` the first entry of each trial
    trials: MarkedTrials


def find_trial_arrays(recording: Recording, source: SourceSection) -> TrialArrays | None:
    """The arrays by trial that ``names`` has, or None if it has none; raises SessionError."""
    names = source.names
    by_field: dict[str, dict[Key, RecordedArray | Reject]] = {}
    shown = "frame" if names.frame is not None else "stimulus" if source.repeats is None else "responses"
    for field in dict.fromkeys((shown, *(role.field for role in (RESPONSES, *COVARIATES)), "valid", "repeat")):
        name = getattr(names, field)
        by_key = None if name is None else _by_key(recording, field, name, source)
        if by_key is not None:
            by_field[field] = by_key
    if not by_field.keys() - {"repeat"}:
        return None
    _check_stars(source, by_field)
    keys = sorted({key for by_key in by_field.values() for key in by_key}, key=lambda key: [*map(natural_order, key)])
    kept: dict[Key, dict[str, RecordedArray]] = {}
    rejects: list[Reject] = []
    starts = [0]
    for number, key in enumerate(keys):
        trial = {field: by_key.get(key) or _lacking(names, field, key, number) for field, by_key in by_field.items()}
        wrong = [reject for reject in trial.values() if isinstance(reject, Reject)]
        arrays = {field: array for field, array in trial.items() if isinstance(array, RecordedArray)}
        lengths = {field: array.shape[0] for field, array in arrays.items() if field != "repeat"}
        least, most = min(lengths.values(), default=0), max(lengths.values(), default=0)
        if not wrong and not least:
            detail = f"trial {_named(key)}: names.{min(lengths, key=lengths.__getitem__)} is empty"
            wrong = [Reject(reason="no_bin", offset=number, detail=detail)]
        rejects += wrong[:1]
        if wrong:
            continue
        if least < most:
            sizes = ", ".join(f"names.{field} has {length}" for field, length in lengths.items())
            detail = f"trial {_named(key)}: of its entries only the first {least} are stored: {sizes}"
            rejects.append(Reject(reason="unequal_length", offset=starts[-1] + least, detail=detail))
        kept[key] = {field: part(array, 0, 1 if field == "repeat" else least) for field, array in arrays.items()}
        starts.append(starts[-1] + least)
    if not kept:
        raise SessionError(
            rejects[0].reason,
            f"no trial has all of {', '.join(f'names.{field}' for field in by_field)}: {rejects[0].detail}",
        )
    counted = [*kept] if "repeat" in by_field else keys
    numbers = np.flatnonzero([key in kept for key in counted])
    start, stop = np.array(starts[:-1]), np.array(starts[1:])
    return TrialArrays(
        {field: joined(field, getattr(names, field), [trial[field] for trial in kept.values()]) for field in by_field},
        MarkedTrials(start, stop, _labels([*kept]), numbers, start, len(counted), rejects),
    )


def _by_key(
    recording: Recording, field: str, name: str, source: SourceSection
) -> dict[Key, RecordedArray | Reject] | None:
    """The arrays of a field by trial, or None if its name is that of one array."""
    vector, axis = field in ("frame", "repeat"), source.axis_of(field)
    expected = f"names.{field} = {name!r}: expected a vector for each trial"
    if "*" not in name:
        try:
            cells = recording.cells(name, axis)
        except KeyError:  # a column of an array, or nothing
            cells = None
        if cells is None:
            return None
        return {(str(place + 1),): flat(cell, expected) if vector else cell for place, cell in enumerate(cells)}
    arrays: dict[Key, RecordedArray | Reject] = {}
    for key, path in matching(recording, name).items():
        try:
            array = checked(recording.array(path, axis), field, path)
            if source.time_axis is None and not vector:
                array = _single_bin(array, flat=field != "stimulus")
            arrays[key] = flat(array, expected) if vector else array
        except SessionError as error:  # of this trial alone
            arrays[key] = Reject(reason=error.reason, offset=len(arrays), detail=f"trial {_named(key)}: {error}")
    if not arrays:
        raise missing(recording, field, name)
    return arrays


def _single_bin(array: RecordedArray, *, flat: bool) -> RecordedArray:
    """The whole array as one entry along time; ``flat``: of one axis, such as neurons."""
    shape = (1, math.prod(array.shape)) if flat else (1, *array.shape)

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        return array.read(0, array.shape[0]).reshape(shape)[start:stop]

    return RecordedArray(shape, array.dtype, read)


def _check_stars(source: SourceSection, by_field: Mapping[str, Mapping[Key, object]]) -> None:
    """Reject what cannot be paired."""
    names = source.names
    if names.trial is not None or ("frame" in by_field and "*" in (names.stimulus or "")):
        named = "trial" if names.trial is not None else "frame"
        message = f"names.{named} and an array for each trial contradict each other: "
        message += "set it to null" if named == "trial" else "name one array of all frames as names.stimulus"
        raise SessionError("wrong_shape", message)
    if source.bin_width is not None:
        raise SessionError(
            "wrong_shape",
            "an array for each trial (a name with *, cells) has no common clock: set source.bin_width to null",
        )
    counts = {
        f"names.{field} = {getattr(names, field)!r}": len(next(iter(by_key))) for field, by_key in by_field.items()
    }
    if len(set(counts.values())) > 1:
        raise SessionError(
            "missing_field",
            f"names with * are paired by what it stands for: expected as many * in each, got {', '.join(counts)}",
        )
    numbered = any("*" not in getattr(names, field) for field in by_field)
    if numbered and len({frozenset(by_key) for by_key in by_field.values()}) > 1:
        sizes = ", ".join(f"names.{field} has {len(by_key)}" for field, by_key in by_field.items())
        message = "cells are paired by their numbers, from 1: expected one for each trial, empty where a trial lacks "
        message += f"it, got others: {sizes}"
        raise SessionError("missing_field", message)


def _lacking(names: object, field: str, key: Key, number: int) -> Reject:
    wanted = getattr(names, field)
    for word in key if "*" in wanted else ():
        wanted = wanted.replace("*", word, 1)
    detail = f"trial {_named(key)}: names.{field} has no array for it ({wanted})"
    return Reject(reason="missing_field", offset=number, detail=detail)


def _named(key: Key) -> str:
    return "/".join(key)


def _labels(keys: list[Key]) -> Ints:
    """The numbers that the names hold, or words by their hash."""
    words = [_named(key) for key in keys]
    if all(word.isdecimal() and len(word) < 19 for word in words):
        return np.array([int(word) for word in words])
    return identify(np.array(words))
