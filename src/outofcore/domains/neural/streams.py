"""The arrays and clocks of an open session, by role, as ``source`` names them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import listed_clock
from outofcore.domains.neural.params import RepeatSection, SourceSection, TimeUnit
from outofcore.domains.neural.recordings.arrays import Array, Ints, SessionError
from outofcore.domains.neural.recordings.recording import Recording, find_array, find_vector
from outofcore.domains.neural.spikes import Labels, Spikes, find_spikes

MOST_ENTRY_BYTES = 1 << 28
"""Bytes of a frame, or of the samples of all neurons at one time."""


@dataclass(frozen=True)
class Track:
    """Samples with their clock."""

    array: Array  # time first
    clock: Array | None  # nanoseconds; None if a sample is a bin
    count: int  # samples with both a value and a time


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The arrays of a session by role; None if not named."""

    frames: Array  # the pictures, time (or number) first
    frame_shape: tuple[int, ...]  # before any transform
    shown: Track  # what was on screen: pictures in order of time, or their numbers if ``indexed``
    indexed: bool
    samples: Track | None  # responses (samples, neurons) or (samples,); None if there are spikes
    spikes: Spikes | None
    behavior: Track | None  # (samples, variables) or (samples,)
    valid: Array | None  # response mask
    valid_like: Literal["samples", "shown"]  # stream whose clock the mask shares
    trial: Array | None
    repeat: Array | None
    trial_starts: Ints | None  # first bin of each trial and the end, if a name with ``*`` matched them
    time_unit: TimeUnit  # of all times but spikes

    @property
    def neurons(self) -> int:
        """Number of neurons."""
        if self.spikes is not None:
            return self.spikes.neurons
        assert self.samples is not None
        return self.samples.array.columns

    @property
    def behaviors(self) -> int:
        """Number of behaviour variables, or 0."""
        return self.behavior.array.columns if self.behavior is not None else 0


def find_streams(recording: Recording, source: SourceSection, labels: Labels | None = None) -> Streams:
    """Look up everything that ``source`` names in an open session; pass ``labels`` if already known.

    Raises SessionError if something is missing or inconsistent.
    """
    names, axes = source.names, source.time_axis
    frames = find_array(recording, "stimulus", names.stimulus, axes.stimulus)
    shape = _frame_shape(frames, source)
    shown: Array = frames
    indexed = names.frame is not None or source.repeats is not None
    if names.frame is not None:
        shown = find_vector(recording, "frame", names.frame)
    elif source.repeats is not None:
        shown = _repeated(frames.shape[0], source.repeats)
    screen = _track(recording, shown, names.frame or names.stimulus, names.frame_times, "frame_times", source)
    samples = spikes = behavior = None
    if names.responses is not None:
        array = _table(find_array(recording, "responses", names.responses, axes.responses), "responses")
        samples = _track(recording, array, names.responses, names.sample_times, "sample_times", source)
    else:
        spikes = find_spikes(recording, source, labels)
    if names.behavior is not None:
        array = _table(find_array(recording, "behavior", names.behavior, axes.behavior), "behavior")
        behavior = _track(recording, array, names.behavior, names.behavior_times, "behavior_times", source)
    valid = None
    if names.valid is not None:
        valid = _table(find_array(recording, "valid", names.valid, axes.valid), "valid")
        neurons = spikes.neurons if spikes is not None else samples.array.columns if samples is not None else 0
        if valid.columns not in (1, neurons):
            message = f"names.valid: expected a column for all or for each of {neurons} neurons, got {valid.columns}"
            raise SessionError(message, reason="wrong_shape")
    like: Literal["samples", "shown"] = "shown"
    if valid is not None and samples is not None and valid.shape[0] == samples.array.shape[0]:
        like = "samples"
    elif valid is not None and source.bin_width is not None and valid.shape[0] != shown.shape[0]:
        message = f"names.valid: expected one entry a sample or a frame ({shown.shape[0]}), got {valid.shape[0]}"
        raise SessionError(message, reason="unequal_length")
    trial = find_array(recording, "trial", names.trial) if names.trial is not None else None
    repeat = find_vector(recording, "repeat", names.repeat) if names.repeat is not None else None
    starts = shown.starts if shown.starts is not None or samples is None else samples.array.starts
    if starts is not None and source.bin_width is not None:
        message = (
            "a name with * makes each array a trial of its own, without a common clock: set source.bin_width: null"
        )
        raise SessionError(message, reason="wrong_shape")
    return Streams(
        frames=frames,
        frame_shape=shape,
        shown=screen,
        indexed=indexed,
        samples=samples,
        spikes=spikes,
        behavior=behavior,
        valid=valid,
        valid_like=like,
        trial=trial,
        repeat=repeat,
        trial_starts=starts,
        time_unit=recording.unit or source.time_unit,
    )


def _repeated(frames: int, repeats: RepeatSection) -> Array:
    """The frame of each response, derived from the order of the responses."""

    def read(start: int, stop: int) -> npt.NDArray[Any]:
        number = np.arange(start, stop)
        return number // repeats.count if repeats.order == "together" else number % frames

    return Array((frames * repeats.count,), np.dtype(np.int64), read)


def _bounded(array: Array, field: str) -> None:
    """Reject an array of which one entry would not fit into memory, as a damaged header may claim."""
    size = array.dtype.itemsize * math.prod(array.shape[1:])
    if size > MOST_ENTRY_BYTES:
        message = f"names.{field}: one entry of shape {array.shape[1:]} has {size} bytes, more than {MOST_ENTRY_BYTES}"
        raise SessionError(message, reason="too_large")


def _frame_shape(frames: Array, source: SourceSection) -> tuple[int, ...]:
    if frames.dtype.kind not in "biuf":
        message = f"names.stimulus: expected numbers, got {frames.dtype}"
        raise SessionError(message, reason="wrong_type")
    _bounded(frames, "stimulus")
    shape = frames.shape[1:]
    if source.frame_shape is None:
        # A scalar stimulus is treated as a picture of one pixel.
        return shape if len(shape) > 1 else (1, *(shape or (1,)))
    if np.prod(source.frame_shape, dtype=np.int64) != np.prod(shape, dtype=np.int64):
        message = f"source.frame_shape {source.frame_shape} does not fit frames of shape {shape}"
        raise SessionError(message, reason="wrong_shape")
    return source.frame_shape


def _table(array: Array, field: str) -> Array:
    if len(array.shape) > 2 or array.dtype.kind not in "biuf":
        message = f"names.{field}: expected numbers of shape (samples, columns), got {array.dtype} {array.shape}"
        raise SessionError(message, reason="wrong_shape")
    _bounded(array, field)
    return array


def _track(
    recording: Recording, array: Array, name: str, times: str | None, field: str, source: SourceSection
) -> Track:
    """An array with its clock: the one in params.yaml, or the format's own."""
    clock: Array | None = None
    if times is not None:
        clock = listed_clock(find_vector(recording, field, times), recording.unit or source.time_unit)
    elif "*" not in name:
        clock = recording.clock(name, array.shape[0])
    if clock is None and source.bin_width is not None:
        message = (
            f"names.{field} is needed: with source.bin_width set, {name!r} must have a clock; where an entry is a bin, "
            "set source.bin_width to null"
        )
        raise SessionError(message, reason="missing_field")
    return Track(array, clock, array.shape[0] if clock is None else min(array.shape[0], clock.shape[0]))
