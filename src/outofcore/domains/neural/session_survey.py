"""What is known of a session before any frame is read, from which units are cut: bins, shapes, clocks, trials.

A session that cannot be converted is refused here: arrays that are not of one recording, times in a wrong unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from outofcore.domains.neural.clocks import BinClock, ClockFacts, examine
from outofcore.domains.neural.params import COVARIATES, FRAMES, SPIKES, SourceSection
from outofcore.domains.neural.recordings.arrays import SessionError, readable
from outofcore.domains.neural.spikes import SpikeOwners
from outofcore.domains.neural.streams import OWN_UNIT, Streams, Track, check_streams
from outofcore.domains.neural.transforms import transformed_shape
from outofcore.domains.neural.trials import Trials, find_trials, has_intervals, trial_times
from outofcore.domains.neural.unit_table import Units
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import Reject

# Signs of times in a wrong unit: a frame or sample that usually lasts longer than this,
LONGEST_STEP = 10 * 10**9
# a recording of a month,
LONGEST_RECORDING = 30 * 86_400 * 10**9
# neurons that fire faster than any, or one vector of the spikes of many,
FASTEST_RATE, FASTEST_VECTOR = 1000.0, 100_000.0
# spikes that end this many times later or earlier than the frames (units differ by 1,000),
WIDEST_RATIO = 200.0
# or a clock of frames this many times finer than the bins, of which all but one would be lost.
MOST_FRAMES = 100
# Two sessions have a neuron in common if its first responses are equal, and change this often.
DIGESTED_ROWS, LEAST_CHANGES = 128, 16
# One array of a session that is longer than another by more than this.
MOST_UNEQUAL = 2
# Most empty bins that are processed in addition to those with data.
MOST_EMPTY_BINS, MOST_EMPTY_FOLD = 1_000_000, 1000


@dataclass(frozen=True)
class ShownPictures:
    """Pairs of a trial and a picture that it shows."""

    trial: Ints  # (pairs,)
    content: Bytes  # (pairs, 16) digest of the picture as stored


@dataclass(frozen=True)
class Alignment:
    """How the arrays of a session are brought to its bins: small enough to send with every unit."""

    bins: int
    clock: BinClock | None  # None if a bin is a frame
    complete: int  # bins that every array has, if a bin is a frame; else ``bins``
    longest: Mapping[str, int]  # nanoseconds for which an entry counts, by stream: shown, samples, behavior
    labels: SpikeOwners | None  # if one vector holds the spikes of all neurons


@dataclass(frozen=True)
class SessionSurvey:
    """A session before conversion."""

    alignment: Alignment
    frame_shape: tuple[int, ...]  # as stored
    neurons: int
    covariates: Mapping[str, int]  # number of columns, by name
    trials: Trials
    rejects: tuple[Reject, ...]  # trials without bins, and entries without times
    counts: Mapping[str, int]  # metrics known so far
    fingerprint: bytes  # equal for sessions of equal content
    neuron_digests: frozenset[bytes]  # of the responses of each neuron that vary
    units: Units | None  # that were chosen
    pictures: ShownPictures | None = None  # which trials show, if the stimulus holds each once and no repeats are named
    notes: Mapping[str, str] = field(default_factory=dict)  # what may be a mistake in the settings, by subject


def survey(streams: Streams, source: SourceSection) -> SessionSurvey:
    """Examine shapes, clocks and trials; raises SessionError if the session cannot be converted."""
    check_streams(streams, clocked=source.bin_width is not None)
    try:
        frame_shape = transformed_shape(streams.frame_shape, source.transforms)
    except ValueError as error:
        raise SessionError("wrong_shape", f"source.transforms: {error}") from error
    counts: dict[str, int] = {}
    untimed: list[Reject] = []
    longest: dict[str, int] = {}
    clock = None
    if source.bin_width is None:
        _same_clock(streams)
        lengths = [track.count for track in streams.tracks.values()]
        lengths += [streams.valid.shape[0]] if streams.valid is not None else []
        if streams.trial is not None and not has_intervals(streams.trial):
            lengths.append(int(np.prod(streams.trial.shape)))
        bins, complete = max(lengths), min(lengths)
        if bins > MOST_UNEQUAL * complete:
            raise SessionError(
                "unequal_length",
                f"one array has {complete} entries along time, another {bins}: they are not of one recording; check "
                "source.names and source.time_axis",
            )
    else:
        if streams.shown.role == SPIKES and streams.spikes is not None:
            facts = streams.spikes.span(source.bin_width * 1e9, trial_times(streams))
            _check_span(facts, "spike", streams.unit_advice)
        else:
            facts = _clock(streams.shown, counts, untimed, streams.unit_advice)
        clock = _bin_clock(facts, streams, source.bin_width)
        bins = complete = clock.bins
        longest = {"shown": _longest(facts, clock)}
        series = []
        for track in streams.others:
            other = facts if track is streams.shown else _clock(track, counts, untimed, streams.unit_advice)
            _overlap(facts, other.first, other.last, track.role.stream, streams)
            longest[track.role.stream] = _longest(other, clock)
            series.append((track, other))
        _check_turned(streams, series, source)
        _check_spikes(streams, facts, counts, untimed)
    if not bins:
        raise SessionError("empty", "holds no bin: the stimulus or the responses are empty")
    trials, rejects = find_trials(streams, source, bins, clock)
    if streams.spikes is not None and clock is not None:
        first, last = streams.spikes.reach
        edges = clock.edges_of(trials.start), clock.edges_of(trials.stop)
        if silent := int(((edges[0] > last) | (edges[1] <= first)).sum()):
            counts["trials_outside_spikes"] = silent
    counts["bins"] = bins
    counts["bins_outside_trials"] = bins - int((trials.stop - trials.start).sum())
    labels = streams.spikes.labels if streams.spikes is not None else None
    return SessionSurvey(
        Alignment(bins, clock, complete, longest, labels),
        frame_shape,
        streams.neurons,
        {role.field: streams.tracks[role.stream].array.columns for role in COVARIATES if role.stream in streams.tracks},
        trials,
        (*untimed, *rejects),
        counts,
        _fingerprint(streams, bins),
        _neuron_digests(streams),
        streams.units,
    )


def _check_turned(streams: Streams, series: Sequence[tuple[Track, ClockFacts]], source: SourceSection) -> None:
    """Reject a matrix on a regular clock of which the other axis is as long as the trials or another series."""
    trials = trial_times(streams)
    lasting = {track.role.noun: facts.count * facts.step for track, facts in series}
    lasting |= {"trials": int(trials[-1, 1] - trials[0, 0])} if len(trials) else {}
    noun = max(lasting, key=lasting.__getitem__, default="")
    for track, facts in series:
        field, lasts = track.role.field, facts.count * facts.step
        if 2 * lasts < lasting[noun] < 2 * facts.step * track.array.columns:
            axis = 1 - source.axis_of(field)
            raise SessionError(
                "wrong_shape",
                f"names.{field}: {facts.count} samples at {1e9 / facts.step:g} Hz last {lasts / 1e9:g} s, "
                f"{noun} {lasting[noun] / 1e9:g} s: if its axis {axis} is time, set source.time_axis: "
                f"{{{field}: {axis}}}",
            )


def _same_clock(streams: Streams) -> None:
    """If a bin is a frame, clocks kept by the format must agree."""
    if streams.shown.clock is None:
        return
    first = examine(streams.shown.clock)
    for track in streams.others:
        if track is streams.shown or track.clock is None:
            continue
        other = examine(track.clock)
        drift = abs(first.step - other.step) * first.count
        if abs(first.first - other.first) > first.step // 2 or drift > first.step:
            raise SessionError(
                "clocks_differ",
                f"{streams.shown.role.noun} and {track.role.field} are on clocks of their own (a {streams.entry} every "
                f"{first.step} ns from {first.first} ns, a sample every {other.step} ns from {other.first} ns): set "
                "source.bin_width",
            )


def _clock(track: Track, counts: dict[str, int], untimed: list[Reject], advice: str) -> ClockFacts:
    """Facts of a clock, which must be usable."""
    name, facts = track.role.entry, examine(track.times, track.count)
    entries, alone = track.array.shape[0], track.times.shape[0] - track.count
    without = facts.invalid + entries - track.count
    counts[f"{name}s_without_time"] = without
    counts[f"{name}_times_without_{name}"] = alone
    if not facts.valid:
        raise SessionError("no_time", f"the {track.count} {name} times hold no time: none is finite")
    if not facts.ascending:
        raise SessionError(
            "times_unsorted",
            f"the {name} times do not ascend: some time is before the one before it (missing times must be NaN)",
        )
    if without:
        first = facts.missing if facts.missing >= 0 else track.count
        detail = f"{without} of {entries} {name} entries have no time, the first is entry {first}"
        untimed.append(Reject(reason="no_time", offset=first, detail=detail))
    if alone:
        detail = f"{alone} of {track.times.shape[0]} {name} times have no {name}, from entry {track.count} on"
        untimed.append(Reject(reason="unequal_length", offset=track.count, detail=detail))
    _check_span(facts, name, advice)
    return facts


def _check_span(facts: ClockFacts, name: str, advice: str) -> None:
    if facts.step > LONGEST_STEP or facts.last - facts.first > LONGEST_RECORDING:
        raise SessionError(
            "time_unit",
            f"the {name} times are {facts.step / 1e9:g} s apart and span {(facts.last - facts.first) / 1e9:g} s: "
            f"{advice}",
        )


def _bin_clock(facts: ClockFacts, streams: Streams, bin_width: float) -> BinClock:
    width, entry, advice = bin_width * 1e9, streams.entry, streams.unit_advice
    if streams.shown.role == FRAMES and facts.step * MOST_FRAMES < width and facts.valid > MOST_FRAMES:
        raise SessionError(
            "time_unit",
            f"the frame times are {facts.step / 1e9:g} s apart, so that a bin of {bin_width:g} s would show one of "
            f"{int(width // max(facts.step, 1))} frames: {advice}, or "
            "source.bin_width is too wide for the stimulus",
        )
    end = facts.last + (facts.step or width)
    # All bins whose centre is before the end of the last frame.
    bins = int(np.floor((end - facts.first) / width + 0.5))
    if bins > MOST_EMPTY_BINS + MOST_EMPTY_FOLD * facts.valid:
        raise SessionError(
            "time_unit",
            f"the {facts.valid} {entry} times span {(facts.last - facts.first) / 1e9:g} s, {bins} bins of "
            f"{bin_width:g} s, nearly all without a {entry}: a time or source.bin_width is wrong, or {advice}",
        )
    return BinClock(facts.first, width, bins)


def _longest(facts: ClockFacts, clock: BinClock) -> int:
    return int(1.5 * facts.step) if facts.step else int(clock.width)


def _overlap(facts: ClockFacts, first: int, last: int, name: str, streams: Streams) -> None:
    if last < facts.first or first > facts.last:
        shown = f"{streams.entry}s"
        if streams.shown.role == SPIKES:
            shown = "trials" if streams.trial is not None else "obs_intervals"
        raise SessionError(
            "time_unit",
            f"{shown} run from {facts.first / 1e9:g} to {facts.last / 1e9:g} s, {name} from {first / 1e9:g} to "
            f"{last / 1e9:g} s: they never meet, as if {streams.unit_advice}",
        )


def _check_spikes(streams: Streams, frames: ClockFacts, counts: dict[str, int], untimed: list[Reject]) -> None:
    if streams.spikes is None:
        return
    facts = streams.spikes.facts
    total, invalid = sum(train.count for train in facts), sum(train.invalid for train in facts)
    labels = streams.spikes.labels
    unowned = labels.unowned if labels is not None else 0
    apart = unowned if labels is not None and labels.bounds is not None else 0
    counts["spikes"], counts["spikes_without_time"] = total + apart, invalid
    if not all(train.ascending for train in facts):
        raise SessionError(
            "times_unsorted", "the spike times of a neuron do not ascend: sort them by time (missing times must be NaN)"
        )
    timed = [train for train in facts if train.valid]
    if not timed:
        raise SessionError("no_spikes", "no spike has a time: none is finite, or there are none")
    if invalid:
        vector, entry = next((number, train.missing) for number, train in enumerate(facts) if train.missing >= 0)
        detail = f"{invalid} of {total} spikes have no time, the first is entry {entry}"
        detail += f" of neuron {vector}" * (len(facts) > 1)
        untimed.append(Reject(reason="no_time", offset=entry, detail=detail))
    if unowned:
        counts["spikes_without_neuron"] = unowned
        detail = f"{unowned} of {total + apart} spikes belong to no neuron (negative or fractional label)"
        untimed.append(Reject(reason="no_neuron", offset=0, detail=detail))
    first, last = min(train.first for train in timed), max(train.last for train in timed)
    if streams.shown.role == SPIKES:
        _overlap(frames, first, last, "spikes", streams)
    ratio = _reach(timed) / _reach([frames])
    rate = (total - invalid) / streams.spikes.neurons / max((last - first) / 1e9, 1e-9)
    few = total - invalid < streams.spikes.neurons * 10
    others = streams.units is not None and streams.spikes.owners is not None  # of which no spike is stored
    fastest = FASTEST_RATE if streams.spikes.neurons > 1 and not others else FASTEST_VECTOR
    if not few and (not 1 / WIDEST_RATIO < ratio < WIDEST_RATIO or rate > fastest):
        advice = streams.unit_advice
        if advice == OWN_UNIT:
            advice = "source.spike_unit or source.time_unit is not the unit of the file"
        raise SessionError(
            "time_unit",
            f"spikes end at {last / 1e9:g} s, {streams.entry}s at {frames.last / 1e9:g} s, with {rate:g} spikes a "
            f"second and neuron: {advice}",
        )


def _reach(facts: Sequence[ClockFacts]) -> int:
    """Largest distance of times from zero: times relative to a stimulus may be negative."""
    return max(1, *(max(-clock.first, clock.last) for clock in facts))


def _fingerprint(streams: Streams, bins: int) -> bytes:
    """Digest of what distinguishes sessions: size and the beginning of the responses."""
    digest = hashlib.blake2b(repr((bins, streams.neurons, streams.frame_shape)).encode(), digest_size=16)
    if "samples" in streams.tracks:
        array = streams.tracks["samples"].array
        rows = max(1, 65_536 // max(1, streams.neurons * array.dtype.itemsize))
        digest.update(np.ascontiguousarray(readable(array, 0, min(rows, array.shape[0]))[0]).tobytes())
    else:
        assert streams.spikes is not None
        digest.update(repr(streams.spikes.facts).encode())
    return digest.digest()


def _neuron_digests(streams: Streams) -> frozenset[bytes]:
    """Digests of the beginning of each neuron's responses, of those that vary, chosen or not."""
    if streams.spikes is not None:
        trains = [repr(train).encode() for train in streams.spikes.facts_of_all if train.valid >= LEAST_CHANGES]
    else:
        assert streams.samples is not None
        values = readable(streams.samples, 0, min(DIGESTED_ROWS, streams.samples.shape[0]))[0]
        values = values.reshape(len(values), -1)
        changes = np.count_nonzero(values[1:] != values[:-1], axis=0)
        trains = [column.tobytes() for column in values.T[changes >= LEAST_CHANGES]]
    return frozenset(hashlib.blake2b(train, digest_size=8).digest() for train in trains)
