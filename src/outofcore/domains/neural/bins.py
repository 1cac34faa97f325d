"""Read and align a range of bins: frames, responses, masks, and the reason a bin does not count.

The value of a bin depends only on nearby samples, so a recording can be aligned in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import BLOCK, INVALID, inside, locate, touching, valid_times
from outofcore.domains.neural.params import COVARIATES, FRAMES, RESPONSES, SERIES, SourceSection
from outofcore.domains.neural.recordings.arrays import DAMAGED, Mask, RecordedArray, identify, readable, take
from outofcore.domains.neural.resampling import RESAMPLINGS, latest
from outofcore.domains.neural.session_survey import Alignment
from outofcore.domains.neural.streams import Streams, Track, open_session
from outofcore.domains.neural.transforms import apply, bins_before, encode
from outofcore.errors import RawInputError
from outofcore.ndarrays import Bytes, Ints

REASONS = (
    "",
    "unequal_length",
    *(f"no_{role.entry}" for role in SERIES),
    "unreadable",
    "masked",
    "not_finite",
    "stimulus_range",
)
"""Why a bin is not stored or none of its responses counts: the first that applies, 0 for none."""

WAYS_OUT = {
    "unreadable": f": {DAMAGED}",
    "stimulus_range": ": more than source.stimulus_dtype can hold; float32 holds all",
}
"""Remedies for reasons that come from the settings rather than the recording."""

Ranges = Mapping[str, Ints]
"""Entries to read for a range of bins, by stream: [first, end); (vectors, 2) for spikes."""


@dataclass(frozen=True)
class Slice:
    """Consecutive bins."""

    first: int  # bin number
    stim: npt.NDArray[Any]  # frames (bins, ...) as stored; 0 where ``reason`` is set
    robs: npt.NDArray[Any]  # responses (bins, neurons); 0 where ``dfs`` is 0
    dfs: Bytes  # response mask (bins, neurons)
    covariates: Mapping[str, npt.NDArray[np.float32]]  # (bins, columns) each, by name
    reason: Bytes  # (bins,) index into REASONS: why there is no frame
    silent: Bytes  # (bins,) index into REASONS: why no response counts in a bin that has a frame


class BinReader:
    """Reads ranges of bins of an open session.

    Open files are not pickled with it: a copy in another process opens the session at its first read.
    """

    def __init__(self, streams: Streams, alignment: Alignment, source: SourceSection) -> None:
        self._session, self._alignment, self._source = streams.session, alignment, source
        self._streams = streams

    @cached_property
    def _streams(self) -> Streams:
        return open_session(self._session, self._source, self._alignment.labels)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_streams"}

    def locate(self, starts: Ints, stops: Ints) -> list[Ranges]:
        """Entries to read for several ascending ranges of bins, in one pass over each clock."""
        clock = self._alignment.clock
        if clock is None:
            return [{} for _ in starts]
        lows, highs = clock.edges_of(starts), clock.edges_of(stops)
        entries: dict[str, Ints] = {}
        with self._closed_on_failure():
            for name, track in self._streams.tracks.items():
                entries[name] = np.stack(locate(track.times, track.count, lows, highs), axis=-1)
            if self._streams.spikes is not None:
                entries["spikes"] = self._streams.spikes.locate(lows, highs)
        return [{name: ranges[number] for name, ranges in entries.items()} for number in range(len(starts))]

    def read(self, start: int, stop: int, ranges: Ranges) -> Slice:
        """Bins ``start`` to ``stop``; ``ranges`` comes from :meth:`locate`.

        Raises RawInputError for a response that counts and that ``source.response_dtype`` cannot hold.
        """
        with self._closed_on_failure():
            return self._read(start, stop, ranges)

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        streams = self._streams
        try:
            yield
        except BaseException:
            streams.close()
            raise

    def _read(self, start: int, stop: int, ranges: Ranges) -> Slice:
        reason = np.zeros(stop - start, np.uint8)
        _mark(reason, np.arange(start, stop) < self._alignment.complete, "unequal_length")
        stim = self._frames(start, stop, ranges, reason)
        # A window needs the frames of all its bins but only the responses of the last.
        silent = np.zeros_like(reason)
        robs, dfs = self._responses(start, stop, ranges, silent)
        covariates = {
            role.field: self._covariate(self._streams.tracks[role.stream], start, stop, ranges, silent)
            for role in COVARIATES
            if role.stream in self._streams.tracks
        }
        usable = reason == 0
        if not usable.all():
            stim = np.where(usable.reshape(-1, *(1,) * (stim.ndim - 1)), stim, stim.dtype.type(0))
            silent[~usable] = 0
        dfs &= (usable & (silent == 0))[:, None]
        if not dfs.all():
            robs = np.where(dfs, robs, robs.dtype.type(0))
        return Slice(start, stim, robs, dfs.view(np.uint8), covariates, reason, silent)

    def pictures(self) -> Iterator[tuple[int, Ints]]:
        """Number of the picture in each bin, -1 where there is none, in blocks from their first bin on."""
        starts = np.arange(0, self._alignment.bins, BLOCK)
        stops = np.minimum(starts + BLOCK, self._alignment.bins)
        for start, stop, entries in zip(starts.tolist(), stops.tolist(), self.locate(starts, stops), strict=True):
            numbers, known = self._shown(start, stop, entries)
            yield start, np.where(known, numbers, -1)

    def _frames(self, start: int, stop: int, ranges: Ranges, reason: Bytes) -> npt.NDArray[Any]:
        streams, source = self._streams, self._source
        shape = streams.frame_shape
        if streams.shown.role != FRAMES:
            return streams.frames.read(start, stop)
        number, present = self._shown(start, stop, ranges)
        values, read = _taken(streams.frames, number, present)
        _mark(reason, present, f"no_{FRAMES.entry}")
        _mark(reason, read, "unreadable")
        frames = values.reshape(-1, *shape)
        if frames.dtype.kind == "f":
            finite = np.isfinite(frames).reshape(len(frames), -1).all(1)
            if not finite.all():
                _mark(reason, finite, "not_finite")
                frames = np.where(finite.reshape(-1, *(1,) * len(shape)), frames, 0)
        before = bins_before(source.transforms)
        if before:
            frames = np.concatenate([np.repeat(frames[:1], before, axis=0), frames])
        stored, fits = encode(apply(frames, source.transforms), source.stimulus_dtype)
        if fits is not None:
            _mark(reason, fits.reshape(len(fits), -1).all(1), "stimulus_range")
        return stored

    def _shown(self, start: int, stop: int, ranges: Ranges) -> tuple[Ints, Mask]:
        """Index of the frame on screen in each bin, and whether there is one."""
        streams = self._streams
        entry, present = self._entries("shown", streams.shown.count, start, stop, ranges)
        if not streams.indexed:
            return entry, present
        values, read = _taken(streams.shown.array, entry, present)
        numbers = identify(values) - (self._source.first_frame if self._source.names.frame is not None else 0)
        known = present & read & (numbers >= 0) & (numbers < streams.frames.shape[0])
        return np.where(known, numbers, 0), known

    def _entries(self, name: str, count: int, start: int, stop: int, ranges: Ranges) -> tuple[Ints, Mask]:
        """Entry of a stream (of ``count`` entries) that holds in each bin, and whether there is one."""
        clock = self._alignment.clock
        if clock is None:
            entry = np.arange(start, stop)
            return entry, entry < count
        first, times = _timed(self._streams.tracks[name], ranges[name])
        place, present = latest(times, clock.centres(start, stop), self._alignment.longest[name])
        return (first[place] if len(first) else place), present

    def _responses(self, start: int, stop: int, ranges: Ranges, silent: Bytes) -> tuple[npt.NDArray[Any], Mask]:
        streams, clock = self._streams, self._alignment.clock
        if streams.spikes is not None:
            assert clock is not None
            values: npt.NDArray[Any] = streams.spikes.count(ranges["spikes"], clock.edges(start, stop))
        else:
            values, present, read = self._sampled(streams.tracks["samples"], start, stop, ranges)
            _mark(silent, read, "unreadable")
            _mark(silent, present, f"no_{RESPONSES.entry}")
        finite = np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
        dtype = self._source.response_dtype
        stored, fits = encode(np.where(finite, values, 0) if not finite.all() else values, dtype)
        allowed = self._allowed(start, stop, ranges, values.shape)
        _mark(silent, allowed.any(1), "masked")
        _mark(silent, (allowed & finite).any(1), "not_finite")
        dfs = allowed & finite
        if fits is not None and (unfit := values[dfs & ~fits].tolist()):
            remedy = "set it to float32, or uint16 for counts" if dtype != "float32" else "correct it in the file"
            raise RawInputError(
                f"{self._session.file}: source.response_dtype {dtype} cannot hold a response of {unfit[0]:g}: {remedy}"
                "; to leave values out would bias the rest"
            )
        return stored, dfs

    def _allowed(self, start: int, stop: int, ranges: Ranges, shape: tuple[int, ...]) -> Mask:
        """The recording's own response mask, (bins, neurons)."""
        streams = self._streams
        observed = self._observed(start, stop, shape)
        if streams.valid is None:
            return observed
        entry, present = self._entries(streams.valid_like, streams.valid.shape[0], start, stop, ranges)
        values, read = _taken(streams.valid, entry, present)
        counts = _table(np.nan_to_num(values) != 0)
        return np.broadcast_to(counts & (present & read)[:, None], shape) & observed

    def _observed(self, start: int, stop: int, shape: tuple[int, ...]) -> Mask:
        """Which neurons were observed during all of each bin, (bins, neurons)."""
        observed, streams, clock = np.ones(shape, bool), self._streams, self._alignment.clock
        if clock is not None:
            edges = clock.edges(start, stop)
            lows, highs = edges[:-1], edges[1:]
        elif streams.shown.clock is not None and len(streams.invalid):
            lows = np.full(stop - start, INVALID)
            known = streams.shown.clock.read(start, min(stop, streams.shown.clock.shape[0]))
            lows[: len(known)] = known
            highs = lows + 1
        else:
            return observed
        observed &= ~touching(lows, highs, streams.invalid)[:, None]
        for neuron, intervals in enumerate(streams.spikes.observed if streams.spikes is not None else ()):
            if intervals is not None:
                observed[:, neuron] &= inside(lows, highs, intervals)
        return observed

    def _covariate(self, track: Track, start: int, stop: int, ranges: Ranges, silent: Bytes) -> npt.NDArray[np.float32]:
        values, present, read = self._sampled(track, start, stop, ranges)
        with np.errstate(over="ignore"):
            plain = values.astype(np.float32)
        known = present & read & np.isfinite(plain).all(1)
        _mark(silent, read, "unreadable")
        _mark(silent, known, f"no_{track.role.entry}")
        return np.where(known[:, None], plain, np.float32(0))

    def _sampled(self, track: Track, start: int, stop: int, ranges: Ranges) -> tuple[npt.NDArray[Any], Mask, Mask]:
        """Samples (bins, columns) at the bins; which bins have one; which depend only on undamaged entries."""
        clock, name = self._alignment.clock, track.role.stream
        if clock is None:
            entry, present = self._entries(name, track.count, start, stop, ranges)
            values, fine = _taken(track.array, entry, present)
            return _table(values), present, fine
        places, times = _timed(track, ranges[name])
        first, end = ranges[name].tolist()
        values, fine = (part[places - first] for part in readable(track.array, first, end))
        resample = RESAMPLINGS[getattr(self._source.resample, track.role.field)]
        edges, longest = clock.edges(start, stop), self._alignment.longest[name]
        result, present = resample(times, values, edges, longest)
        # Damage passes through the same arithmetic, so that only values that depend on a damaged entry are lost.
        damage, _ = resample(times, (~fine).astype(np.float64), edges, longest)
        return _table(result), present, (damage == 0) | ~present


def _timed(track: Track, span: Ints) -> tuple[Ints, Ints]:
    """Indices and times of the valid entries of a span."""
    return valid_times(track.times, int(span[0]), int(span[1]))


def _taken(array: RecordedArray, entry: Ints, present: Mask) -> tuple[npt.NDArray[Any], Mask]:
    """The entry of each bin, 0 in bins that have none; and where none is damaged."""
    taken, read = take(array, entry[present])
    if present.all():
        return taken, read
    values, fine = np.zeros((len(present), *taken.shape[1:]), taken.dtype), np.ones(len(present), bool)
    values[present], fine[present] = taken, read
    return values, fine


def _mark(reason: Bytes, fine: Mask | np.bool_, name: str) -> None:
    """Record a reason where none is set yet."""
    reason[(reason == 0) & ~fine] = REASONS.index(name)


def _table(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A vector as a table of one column."""
    return values if values.ndim == 2 else values[:, None]
