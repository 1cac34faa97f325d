"""The arrays and clocks of an open session, by role, as ``source`` names them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import TIME, Times, listed_clock
from outofcore.domains.neural.params import (
    COVARIATES,
    FRAMES,
    RESPONSES,
    SPIKES,
    RepeatSection,
    Role,
    SourceSection,
    TimeUnit,
)
from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, columns_of
from outofcore.domains.neural.recordings.by_trial import TrialArrays, find_trial_arrays
from outofcore.domains.neural.recordings.recording import Recording, find_array, find_trial, find_vector, unread
from outofcore.domains.neural.sessions import Session, open_recording
from outofcore.domains.neural.spikes import SpikeOwners, Spikes, find_spikes
from outofcore.domains.neural.unit_table import Units, find_units

OWN_UNIT = "source.time_unit is not the unit of the file"
UNIT_OF_FORMAT = "the times of this format are in {}, and those of this file are not: correct them in the file"

NO_FRAMES = RecordedArray((0, 0), np.dtype(np.uint8), lambda start, stop: np.empty((stop - start, 0), np.uint8))
NO_CLOCK = RecordedArray((0,), TIME, lambda start, stop: np.empty(stop - start, TIME))

MOST_ENTRY_BYTES = 1 << 28
"""Bytes of a frame, or of the samples of all neurons at one time."""


@dataclass(frozen=True)
class Track:
    """Samples with their clock."""

    role: Role
    array: RecordedArray  # time first
    clock: RecordedArray | None  # nanoseconds; None if a sample is a bin
    count: int  # samples with both a value and a time

    @property
    def times(self) -> RecordedArray:
        """Its clock, which every track has if bins have a width."""
        assert self.clock is not None
        return self.clock


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The arrays of a session by role; None if not named."""

    session: Session
    frames: RecordedArray  # the pictures, time (or number) first; of no pixels where there is no stimulus
    frame_shape: tuple[int, ...]  # before any transform
    tracks: Mapping[str, Track]  # by stream, ``shown`` first; besides it (samples, columns) or (samples,)
    indexed: bool  # ``shown`` has numbers of pictures
    spikes: Spikes | None
    samples: RecordedArray | None  # responses of all neurons, chosen or not; None for spikes
    units: Units | None  # neurons that were chosen
    valid: RecordedArray | None  # response mask
    trial: RecordedArray | None
    repeat: RecordedArray | None
    tier: RecordedArray | None
    by_trial: TrialArrays | None  # if there is an array for each trial
    time_unit: TimeUnit  # of all times but spikes
    unit_advice: str  # what to correct where times are not in that unit
    invalid: Times  # when nothing counts: joined intervals
    one_reader: bool  # one thread reads its files
    unread: tuple[str, ...]  # arrays that no setting names
    close: Callable[[], None]  # closes its files

    @property
    def neurons(self) -> int:
        if self.spikes is not None:
            return self.spikes.neurons
        return self.tracks["samples"].array.columns

    @property
    def shown(self) -> Track:
        """What the bins follow: pictures in order of time, or their numbers; without a stimulus the first series.

        It is empty if there are spikes alone.
        """
        return self.tracks["shown"]

    @property
    def entry(self) -> str:
        """What an entry of ``shown`` is called."""
        return self.shown.role.entry

    @property
    def others(self) -> list[Track]:
        """The tracks but the stimulus; without one, ``shown`` is the first of these, if there is any."""
        return [track for stream, track in self.tracks.items() if stream != "shown"]

    @property
    def tables(self) -> dict[str, RecordedArray]:
        """Arrays with an entry per sample or bin, by field of ``names``."""
        arrays = {track.role.field: track.array for track in self.others}
        return arrays if self.valid is None else arrays | {"valid": self.valid}

    @property
    def valid_like(self) -> Literal["samples", "shown"]:
        """The stream whose clock the mask shares."""
        samples = self.tracks.get("samples")
        return "samples" if self.valid and samples and self.valid.shape[0] == samples.array.shape[0] else "shown"


def open_session(session: Session, source: SourceSection, labels: SpikeOwners | None = None) -> Streams:
    """Open a session and look up everything that ``source`` names; raises SessionError.

    Its files are closed when nothing refers to the result any more, and at once where a read fails: whoever opens an
    HDF5 file that is open in the process shares what the library keeps of it, also of a read that has failed.
    """
    recording = open_recording(session)
    try:
        streams = _find_streams(session, recording, source, labels)
    except BaseException:
        recording.close()
        raise
    weakref.finalize(streams, streams.close).atexit = False
    return streams


def _find_streams(session: Session, recording: Recording, source: SourceSection, labels: SpikeOwners | None) -> Streams:
    names = source.names
    by_trial = find_trial_arrays(recording, source)
    arrays = by_trial.arrays if by_trial is not None else {}
    frames, shape, tracks = NO_FRAMES, NO_FRAMES.shape[1:], dict[str, Track]()
    if names.stimulus is not None:
        frames = arrays.get("stimulus") or find_array(recording, "stimulus", names.stimulus, source.axis_of("stimulus"))
        shape = _frame_shape(frames, source)
        array = frames
        if names.frame is not None:
            array = arrays.get("frame") or find_vector(recording, "frame", names.frame)
        elif source.repeats is not None:
            array = _repeated(frames.shape[0], source.repeats)
        tracks["shown"] = _track(recording, array, names.frame or names.stimulus, FRAMES, source)
    for role in (RESPONSES, *COVARIATES):
        table = _table(recording, role.field, source, arrays)
        if table is not None:
            tracks[role.stream] = _track(recording, table, getattr(names, role.field), role, source)
    valid, spikes, samples = _table(recording, "valid", source, arrays), None, tracks.get("samples")
    if names.responses is None or samples is None:
        spikes = find_spikes(recording, source, labels)
        units = spikes.units
    else:
        neurons, responses = samples.array.columns, names.responses
        units = find_units(source, neurons, lambda column: recording.column(responses, column))
        if units is not None:
            tracks["samples"] = replace(samples, array=columns_of(samples.array, units.rows))
            valid = valid if valid is None or valid.columns != neurons else columns_of(valid, units.rows)
    return Streams(
        session=session,
        frames=frames,
        frame_shape=shape,
        tracks={"shown": next(iter(tracks.values()), Track(SPIKES, NO_FRAMES, NO_CLOCK, 0))} | tracks,
        indexed=names.frame is not None or source.repeats is not None,
        spikes=spikes,
        samples=None if samples is None else samples.array,
        units=units,
        valid=valid,
        trial=find_trial(recording, names.trial) if names.trial is not None else None,
        repeat=arrays.get("repeat")
        or (find_vector(recording, "repeat", names.repeat) if names.repeat is not None else None),
        tier=find_vector(recording, "tier", names.tier) if names.tier is not None else None,
        by_trial=by_trial,
        time_unit=recording.unit or source.time_unit,
        unit_advice=OWN_UNIT if recording.unit is None else UNIT_OF_FORMAT.format(recording.unit),
        invalid=recording.invalid_times(),
        one_reader=recording.one_reader,
        unread=unread(recording, [*recording.always_read, *source.arrays]),
        close=recording.close,
    )


def check_streams(streams: Streams, *, clocked: bool) -> None:
    """Raise SessionError for arrays that do not fit together; ``clocked`` if bins have a width."""
    _check_mask(streams, clocked=clocked)
    if not clocked:
        _check_axes(streams)
    if streams.by_trial is not None:
        _check_whole(streams, streams.by_trial)


def _check_whole(streams: Streams, by_trial: TrialArrays) -> None:
    """Reject one array for all trials next to arrays by trial, unless each of its entries surely belongs to one."""
    shown = {"frame": streams.shown.array} if streams.shown.role == FRAMES else {}
    for field, array in (shown | streams.tables).items():
        if field in by_trial.arrays or (field == "frame" and "stimulus" in by_trial.arrays):
            continue
        trials = by_trial.trials
        cut = trials.rejects[0].detail if trials.rejects else ""
        if cut or array.shape[0] != trials.stop[-1]:
            message = f"names.{field} is one array of {array.shape[0]} entries for trials of {trials.stop[-1]}"
            message += f" in all ({cut})" * bool(cut) + ": which entry belongs to which trial is not known"
            raise SessionError("unequal_length", message)


def _check_axes(streams: Streams) -> None:
    """Reject a matrix of which another axis than the first has the length of the stimulus, where a bin is a frame."""
    frames = streams.shown.count
    for field, array in streams.tables.items():
        if array.shape[0] != frames and frames in array.shape[1:]:
            message = f"names.{field} has {array.shape[0]} entries along time, {streams.shown.role.noun} {frames}"
            raise SessionError("wrong_shape", _turned(message, array, frames, field))


def _check_mask(streams: Streams, *, clocked: bool) -> None:
    """Reject a response mask that fits neither the neurons nor a stream."""
    valid, frames = streams.valid, streams.shown.array.shape[0]
    if valid is None:
        return
    if valid.columns not in (1, streams.neurons):
        message = f"names.valid: expected a column for all or for each of {streams.neurons} neurons, "
        message += f"got {valid.columns}"
        raise SessionError("wrong_shape", message)
    if clocked and streams.valid_like == "shown" and valid.shape[0] != frames:
        raise SessionError(
            "unequal_length",
            f"names.valid: expected one entry a sample or a {streams.entry} ({frames}), got {valid.shape[0]}",
        )


def _repeated(frames: int, repeats: RepeatSection) -> RecordedArray:
    """The frame of each response, derived from the order of the responses."""

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        number = np.arange(start, stop)
        return number // repeats.count if repeats.order == "together" else number % frames

    return RecordedArray((frames * repeats.count,), np.dtype(np.int64), read)


def _bounded(array: RecordedArray, field: str) -> None:
    """Reject an array of which one entry would not fit into memory, as a damaged header may claim."""
    size = array.dtype.itemsize * math.prod(array.shape[1:])
    if size > MOST_ENTRY_BYTES:
        raise SessionError(
            "too_large",
            f"names.{field}: one entry of shape {array.shape[1:]} has {size} bytes, more than {MOST_ENTRY_BYTES}",
        )


def _frame_shape(frames: RecordedArray, source: SourceSection) -> tuple[int, ...]:
    if frames.dtype.kind not in "biuf":
        raise SessionError("wrong_type", f"names.stimulus: expected numbers, got {frames.dtype}")
    _bounded(frames, "stimulus")
    shape = frames.shape[1:]
    if source.frame_shape is None:
        # A scalar stimulus is treated as a picture of one pixel.
        return shape if len(shape) > 1 else (1, *(shape or (1,)))
    if np.prod(source.frame_shape, dtype=np.int64) != np.prod(shape, dtype=np.int64):
        raise SessionError(
            "wrong_shape", f"source.frame_shape {source.frame_shape} does not fit frames of shape {shape}"
        )
    return source.frame_shape


def _table(
    recording: Recording, field: str, source: SourceSection, arrays: Mapping[str, RecordedArray]
) -> RecordedArray | None:
    """Numbers of shape (samples, columns) or (samples,), or None if ``names`` has none for the field."""
    name = getattr(source.names, field)
    if name is None:
        return None
    array = arrays.get(field) or find_array(recording, field, name, source.axis_of(field))
    if len(array.shape) > 2 or array.dtype.kind not in "biuf":
        raise SessionError(
            "wrong_shape",
            f"names.{field}: expected numbers of shape (samples, columns), got {array.dtype} {array.shape}",
        )
    _bounded(array, field)
    return array


def _track(recording: Recording, array: RecordedArray, name: str, role: Role, source: SourceSection) -> Track:
    """An array with its clock: the one that ``names`` has for its role, or the format's own."""
    clock, times = None, getattr(source.names, role.times)
    if times is not None:
        clock = listed_clock(find_vector(recording, role.times, times), recording.unit or source.time_unit)
    elif "*" not in name:
        clock = recording.clock(name, array.shape[0])
    if clock is None and source.bin_width is not None:
        raise SessionError(
            "missing_field",
            f"names.{role.times} is needed: with source.bin_width set, {name!r} must have a clock; where an entry is a "
            "bin, set source.bin_width to null",
        )
    if clock is not None and 2 * min(array.shape[0], clock.shape[0]) < max(array.shape[0], clock.shape[0]):
        message = f"{name!r} has {array.shape[0]} entries along time, its clock {clock.shape[0]}"
        raise SessionError("unequal_length", _turned(message, array, clock.shape[0], role.field))
    return Track(role, array, clock, array.shape[0] if clock is None else min(array.shape[0], clock.shape[0]))


def _turned(message: str, array: RecordedArray, expected: int, field: str) -> str:
    """A message about the length of an array, with the remedy if another axis has it."""
    if expected not in array.shape[1:]:
        return f"{message}: they are not of one recording"
    axis = array.shape.index(expected)
    remedy = f"if its axis {axis} is time, set source.time_axis: {{{field}: {axis}}}, or save it the other way"
    return f"{message}: names.{field} has shape {array.shape}; {remedy}"
