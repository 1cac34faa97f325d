"""Which bins belong to which trial, and which trials repeat each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import (
    BLOCK,
    INVALID,
    BinClock,
    Times,
    blocks,
    joined_intervals,
    locate,
    nanoseconds,
)
from outofcore.domains.neural.params import SPIKES, SourceSection
from outofcore.domains.neural.recordings.arrays import DAMAGED, RecordedArray, SessionError, flat, identify, take
from outofcore.domains.neural.recordings.by_trial import MarkedTrials
from outofcore.domains.neural.recordings.folder import MISSING
from outofcore.domains.neural.streams import Streams, Track
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import KEY_BYTES, Reject

NEVER = np.iinfo(np.int64).max
UNLABELLED = np.iinfo(np.int64).max
"""Label of bins beyond the end of the labels, which are not stored."""


@dataclass(frozen=True)
class Trials:
    """Trials of a session, ascending and disjoint; all arrays have shape (trials,)."""

    start: Ints  # bins
    stop: Ints
    label: Ints  # as in the file, or the trial's number; words are hashed
    repeat: Ints  # what was shown; -1 if unknown
    condition: Ints  # number of the trial's first bin among repeated bins; -1 if no other trial shows the same
    conditions: int  # number of conditions
    key: Bytes  # (trials, 16): equal for trials that must be in one split
    split: npt.NDArray[np.int8]  # index into SPLITS
    tier: npt.NDArray[np.str_]  # as in the file; "" if names.tier is not set

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, chosen: slice | Ints) -> Trials:
        columns = ("start", "stop", "label", "repeat", "condition", "key", "split", "tier")
        return replace(self, **{name: getattr(self, name)[chosen] for name in columns})


def has_intervals(trial: RecordedArray) -> bool:
    """Whether ``names.trial`` has a start and a stop of each trial, not a label for each frame."""
    return len(trial.shape) == 2 and trial.shape[1] == 2


def trial_times(streams: Streams) -> Times:
    """Start and stop of the marked trials that have both, (trials, 2) nanoseconds; none where labels mark them."""
    if streams.trial is None or not has_intervals(streams.trial):
        return np.empty((0, 2), np.int64)
    return joined_intervals(nanoseconds(streams.trial.read(0, streams.trial.shape[0]), streams.time_unit))


def find_trials(
    streams: Streams, source: SourceSection, bins: int, clock: BinClock | None
) -> tuple[Trials, list[Reject]]:
    """Trials of a session that have a bin, and a reject for each that has none."""
    if streams.by_trial is not None:
        marked = streams.by_trial.trials
    elif streams.trial is None:
        marked = _blocks(source, bins)
    elif has_intervals(streams.trial):
        marked = _intervals(streams, streams.trial, bins, clock)
    else:
        marked = _labelled(streams, streams.trial, bins, clock)
    marked, tier = _tiers(streams, marked, clock)
    repeat = _repeats(streams, marked, clock)
    condition, conditions = number_conditions(marked.start, marked.stop, repeat)
    count = len(repeat)
    undivided = np.zeros((count, KEY_BYTES), np.uint8), np.zeros(count, np.int8)
    trials = Trials(marked.start, marked.stop, marked.label, repeat, condition, conditions, *undivided, tier)
    return trials, marked.rejects


def _blocks(source: SourceSection, bins: int) -> MarkedTrials:
    """Trials of a session without marks: stretches of equal length."""
    edges = np.append(np.arange(0, bins, source.trial_bins), bins)
    number = np.arange(len(edges) - 1)
    return MarkedTrials(edges[:-1], edges[1:], number, number, edges[:-1], len(number), [])


def _intervals(streams: Streams, table: RecordedArray, bins: int, clock: BinClock | None) -> MarkedTrials:
    """Trials by start and stop: bins whose centre is inside, or bin numbers if a bin is a frame."""
    values = table.read(0, table.shape[0])
    if clock is not None or streams.shown.clock is not None:
        times = nanoseconds(values, streams.time_unit)
        usable = (times != INVALID).all(1) & (times[:, 1] > times[:, 0])
        first, end = (_bins_of(streams, column, clock) for column in np.where(usable[:, None], times, 0).T)
    else:
        if values.dtype.kind not in "iuf":
            raise SessionError("wrong_type", "names.trial: expected the first bin of each trial and the end, got words")
        with np.errstate(invalid="ignore"):
            usable = np.isfinite(values).all(1) & (values[:, 1] > values[:, 0]) & (values[:, 0] >= 0)
        whole = np.where(usable[:, None], np.nan_to_num(values), 0).astype(np.int64)
        first, end = np.minimum(whole, bins).T
    kept: list[int] = []
    rejects: list[Reject] = []
    reached = 0
    for number in np.argsort(np.where(usable, first, bins), kind="stable").tolist():
        bounds = f"trial {number}, {values[number, 0]} to {values[number, 1]}"
        if not usable[number]:
            rejects.append(Reject(reason="no_time", offset=number, detail=f"{bounds}: no start before a stop"))
        elif end[number] <= first[number]:
            rejects.append(Reject(reason="no_bin", offset=number, detail=f"{bounds}: holds no bin of the recording"))
        elif first[number] < reached:
            detail = f"{bounds}: begins before the last one ends"
            rejects.append(Reject(reason="overlapping_trial", offset=number, detail=detail))
        else:
            kept.append(number)
            reached = int(end[number])
    chosen = np.array(kept, np.int64)
    return MarkedTrials(first[chosen], end[chosen], chosen, chosen, first[chosen], len(values), rejects)


def _bins_of(streams: Streams, times: Times, clock: BinClock | None) -> Ints:
    """First bin whose centre is at or after each time; on a clock of frames, the first frame."""
    if clock is not None:
        return clock.first_centred(times)
    return _first(streams.shown, times, streams.shown.count, by_time=True)


def _first(shown: Track, wanted: Ints, missing: int, *, by_time: bool) -> Ints:
    """First frame at or after each time, or time of the first frame with one at or after each frame."""
    places = np.full(len(wanted), missing)
    for columns in blocks(shown.times, shown.count):
        given, sought = columns[::-1] if by_time else columns
        at = np.searchsorted(given, wanted)
        first = (places == missing) & (at < len(given))
        places[first] = sought[at[first]]
    return places


def _labelled(streams: Streams, labels: RecordedArray, bins: int, clock: BinClock | None) -> MarkedTrials:
    """Trials by a label per frame: stretches of equal, non-negative labels."""
    if streams.shown.role == SPIKES:
        raise SessionError(
            "wrong_shape",
            f"names.trial: expected (trials, 2) start and stop times, as spikes have no frame, got {labels.shape}",
        )
    runs = list(_runs(flat(labels, "names.trial: expected a label for each frame, or (trials, 2) times")))
    if clock is None and runs[-1][1] < bins:
        runs.append((runs[-1][1], bins, UNLABELLED))
    entry, stop, label = np.array(runs, np.int64).T
    start = entry
    if clock is not None:
        start = clock.first_centred(
            _first(streams.shown, np.minimum(entry, streams.shown.count - 1), NEVER, by_time=False)
        )
        stop = np.append(start[1:], bins)
    inside = np.flatnonzero(label >= 0)
    filled = np.minimum(stop, bins)[inside] > start[inside]
    rejects = [
        Reject(reason="no_bin", offset=int(entry[run]), detail=f"trial {label[run]} from frame {entry[run]}: no bin")
        for run in inside[~filled].tolist()
    ]
    kept = inside[filled]
    return MarkedTrials(
        start[kept],
        np.minimum(stop[kept], bins),
        label[kept],
        np.flatnonzero(filled),
        entry[kept],
        len(inside),
        rejects,
    )


def _runs(labels: RecordedArray) -> Iterator[tuple[int, int, int]]:
    """Start, end and value of each stretch of equal labels; -1 for negative ones."""
    begun, value = 0, -2
    for start in range(0, labels.shape[0], BLOCK):
        numbers = np.maximum(identify(labels.read(start, min(start + BLOCK, labels.shape[0]))), -1)
        for place in (np.flatnonzero(np.diff(numbers, prepend=value)) + start).tolist():
            if value != -2:
                yield begun, place, value
            begun, value = place, int(numbers[place - start])
    yield begun, labels.shape[0], value


def _repeats(streams: Streams, marked: MarkedTrials, clock: BinClock | None) -> Ints:
    """What each trial shows."""
    if streams.repeat is None:
        return np.full(len(marked.start), -1, np.int64)
    return np.maximum(identify(_of_trials(streams, streams.repeat, "repeat", marked, clock)), -1)


def _tiers(streams: Streams, marked: MarkedTrials, clock: BinClock | None) -> tuple[MarkedTrials, npt.NDArray[np.str_]]:
    """The trials that have a tier, and the tier of each; "" if no array has any."""
    if streams.tier is None:
        return marked, np.full(len(marked.start), "")
    values = _of_trials(streams, streams.tier, "tier", marked, clock)
    tier = np.array([f"{value:g}" if isinstance(value, float) else str(value) for value in values.tolist()], str)
    missing = np.isin(np.char.lower(tier), MISSING)
    rejects = [
        Reject(reason="no_tier", offset=entry, detail=f"trial {label}: names.tier has {word!r} for it")
        for entry, label, word in zip(
            *(column[missing].tolist() for column in (marked.entry, marked.label, tier)), strict=True
        )
    ]
    columns = {name: getattr(marked, name)[~missing] for name in ("start", "stop", "label", "number", "entry")}
    return replace(marked, **columns, rejects=marked.rejects + rejects), tier[~missing]


def _of_trials(
    streams: Streams, array: RecordedArray, field: str, marked: MarkedTrials, clock: BinClock | None
) -> npt.NDArray[Any]:
    """The entry of each trial in an array with one for each trial or each frame."""
    count = array.shape[0]
    if count == marked.total:
        chosen = marked.number
    elif clock is None or (streams.trial is not None and len(streams.trial.shape) == 1):
        chosen = marked.entry
    else:
        centres = (clock.edges_of(marked.start) + clock.edges_of(marked.start + 1)) // 2
        # The last frame before the next nanosecond is the last at or before this one.
        chosen = locate(streams.shown.times, streams.shown.count, centres + 1, centres + 1)[0]
    if count <= int(chosen.max(initial=0)) or (streams.shown.role == SPIKES and count != marked.total):
        raise SessionError(
            "unequal_length",
            f"names.{field}: expected an entry for each of {marked.total} trials or for each frame, got {count}",
        )
    entries, read = take(array, chosen)
    if not read.all():
        raise SessionError("unreadable_file", f"names.{field}: {DAMAGED}")
    return entries


def number_conditions(start: Ints, stop: Ints, repeat: Ints) -> tuple[Ints, int]:
    """Number the bins shown by at least two trials; the same bin of each repeat has the same number."""
    shown, place, count = np.unique(repeat, return_inverse=True, return_counts=True)
    longest = np.zeros(len(shown), np.int64)
    np.maximum.at(longest, place, stop - start)
    repeated = (count > 1) & (shown >= 0)
    first = np.cumsum(np.where(repeated, longest, 0)) - np.where(repeated, longest, 0)
    return np.where(repeated[place], first[place], -1), int(np.where(repeated, longest, 0).sum())
