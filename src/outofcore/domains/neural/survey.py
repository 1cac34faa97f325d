"""Survey of all sessions of an input: splits of their trials, pictures that these show, notes to the user.

Sessions that are there twice are rejected.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from outofcore.display.console import visible
from outofcore.domains.neural.bins import BinReader
from outofcore.domains.neural.clocks import BLOCK
from outofcore.domains.neural.params import NeuralSection, SourceSection
from outofcore.domains.neural.recordings.arrays import RecordedArray, SessionError, identify, take
from outofcore.domains.neural.recordings.recording import first_names
from outofcore.domains.neural.session_survey import SessionSurvey, ShownPictures, survey
from outofcore.domains.neural.sessions import Session, find_sessions
from outofcore.domains.neural.splits import divide, split_notes
from outofcore.domains.neural.streams import Streams, open_session
from outofcore.domains.neural.transforms import apply, encode
from outofcore.domains.neural.trials import Trials, number_conditions
from outofcore.domains.sections import SplitSection
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.files import RawFile
from outofcore.raw.unit import KEY_BYTES, Reject
from outofcore.system.failures import raise_if_of_system

# Arrays that nothing reads: how many a note lists, and the settings that may be meant by a word in a name.
MOST_LISTED = 8
SUGGESTED = {"trial": "trial", "mask": "valid", "valid": "valid", "time": "frame_times", "repeat": "repeat"}
SAME_RECORDING = "one recording twice (as combined of suite2p has the neurons of all planes); choose by neural.match"

PASS_BYTES = 1 << 24
"""Bytes of pictures that are read at once."""

Sessions = tuple[tuple[Session, SessionSurvey | Reject], ...]
"""Sessions with their surveys, or why one cannot be converted."""


def survey_sessions(files: Sequence[RawFile], section: NeuralSection) -> Sessions:
    """Survey the sessions of an input; the last result is kept for the same files and settings."""
    stats = [file.path.stat() for file in files]
    stamps = tuple((stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino) for stat in stats)
    return _survey_all(tuple(files), stamps, section.source, section.splits, grows=section.grow)


@lru_cache(maxsize=1)
def _survey_all(
    files: tuple[RawFile, ...],
    stamps: tuple[tuple[int, ...], ...],
    source: SourceSection,
    splits: SplitSection,
    *,
    grows: bool,
) -> Sessions:
    del stamps
    sessions = [(session, _surveyed(session, files, source)) for session in find_sessions(files, source)]
    sessions = sessions if grows else _once(sessions)
    known = {session.file: surveyed for session, surveyed in sessions if isinstance(surveyed, SessionSurvey)}
    trials = divide(known, splits, grows=grows)
    notes = {name: surveyed.notes for name, surveyed in known.items()}
    if splits.by == "content":
        notes = {name: {**split_notes(trials[name], splits), **notes[name]} for name in known}
    for line in by_subject(notes):
        sys.stderr.write(f"note: {visible(line)}\n")
    return tuple(
        (session, replace(surveyed, trials=trials[session.file]) if isinstance(surveyed, SessionSurvey) else surveyed)
        for session, surveyed in sessions
    )


def by_subject(notes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each subject of the notes of sessions: what is said of the first of them, and how many more."""
    sessions: dict[str, list[str]] = {}
    for name, noted in notes.items():
        for subject in noted:
            sessions.setdefault(subject, []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more sessions' if len(names) > 1 else ''}: {notes[names[0]][subject]}"
        for subject, names in sessions.items()
    ]


def _once(sessions: list[tuple[Session, SessionSurvey | Reject]]) -> list[tuple[Session, SessionSurvey | Reject]]:
    """The sessions; those with neurons of an earlier one are rejected, as trials of one would be in two splits."""
    owners: dict[bytes, str] = {}
    once: list[tuple[Session, SessionSurvey | Reject]] = []
    for session, surveyed in sessions:
        if isinstance(surveyed, SessionSurvey):
            shared = Counter(owners[neuron] for neuron in surveyed.neuron_digests if neuron in owners)
            if shared:
                earlier, neurons = shared.most_common(1)[0]
                detail = f"{neurons} of its neurons are those of {earlier}, with equal responses: {SAME_RECORDING}"
                once.append((session, Reject(reason="same_recording", offset=0, detail=detail)))
                continue
            owners |= dict.fromkeys(surveyed.neuron_digests, session.file)
        once.append((session, surveyed))
    return once


def _notes(streams: Streams, surveyed: SessionSurvey, source: SourceSection) -> dict[str, str]:
    """What may be a mistake in the settings, by subject: of several sessions that of the first is printed."""
    notes, names, neurons, bins = dict[str, str](), source.names, surveyed.neurons, surveyed.alignment.bins
    if names.frame is not None and not source.first_frame and _lowest(streams.shown.array):
        notes["frame"] = "names.frame never holds 0; if it numbers the frames from 1, set source.first_frame: 1"
    if names.responses is not None and bins < neurons:
        notes["axis"] = (
            f"names.responses has more neurons ({neurons}) than bins ({bins}); if its axis 1 is time, set "
            "source.time_axis: {responses: 1}"
        )
    if silent := surveyed.counts.get("trials_outside_spikes"):
        notes["clock"] = (
            f"{silent} of {len(surveyed.trials)} trials end before the first spike of all neurons or begin after the "
            "last: are trials and spikes on one clock?"
        )
    if streams.unread:
        hints = []
        for word, setting in SUGGESTED.items():
            likely = next((array for array in streams.unread if word in PurePosixPath(array).name.lower()), None)
            framed = names.stimulus is not None or setting != "frame_times"
            if likely is not None and getattr(names, setting) is None and framed:
                hints.append(f"source.names.{setting}: {likely}")
        unread = f"not read: {first_names(streams.unread, MOST_LISTED)}" + (
            f"; perhaps {', '.join(hints)}" if hints else ""
        )
        notes[unread] = unread  # each list of arrays is a subject
    return notes


def _surveyed(session: Session, files: Sequence[RawFile], source: SourceSection) -> SessionSurvey | Reject:
    surveyed = _examined(session, source)
    if isinstance(surveyed, SessionSurvey) or session.kind == "none":
        return surveyed
    # Libraries may take a read that fails for an end or for nothing there: damage is what is there twice, in files that
    # can be read to their ends.
    if surveyed.reason == "unreadable_file":
        for number in (session.source, *session.others):
            files[number].digest()
    return _examined(session, source)


def _examined(session: Session, source: SourceSection) -> SessionSurvey | Reject:
    try:
        with closing(open_session(session, source)) as streams:
            surveyed = survey(streams, source)
            if streams.indexed and streams.repeat is None:
                reader = BinReader(streams, surveyed.alignment, source)
                trials, pictures = find_pictures(reader, streams, surveyed.trials, source)
                surveyed = replace(surveyed, trials=trials, pictures=pictures)
            return replace(surveyed, notes=_notes(streams, surveyed, source))
    except SessionError as error:
        return Reject(reason=error.reason, offset=0, detail=str(error))
    except OSError as error:
        raise_if_of_system(error)
        return Reject(reason="unreadable_file", offset=0, detail=str(error))


def find_pictures(
    reader: BinReader, streams: Streams, trials: Trials, source: SourceSection
) -> tuple[Trials, ShownPictures]:
    """The trials, as repeats of each other if they show the same pictures in the same order; and what each shows."""
    trial, number = _shown(reader, trials)
    known, place = np.unique(number, return_inverse=True)
    content, counts = _contents(streams.frames, known, streams.frame_shape, source)
    _, first, same = np.unique(content.view(">u8"), axis=0, return_index=True, return_inverse=True)
    picture = np.where(counts, known[first[same.reshape(-1)]], known)[place]
    change = np.append(True, (np.diff(trial) != 0) | (np.diff(picture) != 0))[: len(trial)]
    sequences = picture[change]
    bounds = np.searchsorted(trial[change], np.arange(len(trials) + 1)).tolist()
    repeat = np.full(len(trials), -1, np.int64)
    for row, (start, stop) in enumerate(pairwise(bounds)):
        if stop - start == 1:
            repeat[row] = sequences[start]
        elif stop > start:
            digest = hashlib.blake2b(sequences[start:stop].tobytes(), digest_size=8).digest()
            repeat[row] = int.from_bytes(digest, "little") >> 1
    condition, conditions = number_conditions(trials.start, trials.stop, repeat)
    trials = replace(trials, repeat=repeat, condition=condition, conditions=conditions)
    return trials, ShownPictures(trial[counts[place]], content[place[counts[place]]])


def _lowest(numbers: RecordedArray) -> int | None:
    """The lowest number of a picture that is 0 or more, if there is any."""
    lowest = []
    for start in range(0, numbers.shape[0], BLOCK):
        shown = identify(numbers.read(start, min(start + BLOCK, numbers.shape[0])))
        lowest += [int(shown[shown >= 0].min())] if (shown >= 0).any() else []
    return min(lowest, default=None)


def _shown(reader: BinReader, trials: Trials) -> tuple[Ints, Ints]:
    """Trial and number of each stretch of bins of a trial that show one picture, in order."""
    stretches = [np.empty((2, 0), np.int64)]
    for first, numbers in reader.pictures():
        bins = np.arange(first, first + len(numbers))
        trial = np.searchsorted(trials.start, bins, side="right") - 1
        inside = (trial >= 0) & (bins < trials.stop[trial]) & (numbers >= 0)
        pairs = np.stack([trial, numbers])[:, inside]
        stretches.append(pairs[:, np.append(True, (np.diff(pairs) != 0).any(0))[: pairs.shape[1]]])
    trial, number = np.concatenate(stretches, axis=1)
    return trial, number


def _contents(
    frames: RecordedArray, numbers: Ints, shape: tuple[int, ...], source: SourceSection
) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    """Digests (numbers, 16) of pictures as they are stored, and which of them distinguish trials.

    A damaged picture does not, nor one of a single grey level where most have several: it is shown between the others.
    """
    transforms = [step for step in source.transforms if step.name != "difference"]
    digests = np.zeros((len(numbers), KEY_BYTES), np.uint8)
    known, grey = np.zeros(len(numbers), bool), np.zeros(len(numbers), bool)
    step = max(1, PASS_BYTES // max(1, frames.dtype.itemsize * math.prod(frames.shape[1:])))
    for first in range(0, len(numbers), step):
        values, read = take(frames, numbers[first : first + step])
        stored, _ = encode(apply(values.reshape(-1, *shape), transforms), source.stimulus_dtype)
        known[first : first + step] = read
        grey[first : first + step] = (stored.reshape(len(stored), -1) == stored.reshape(len(stored), -1)[:, :1]).all(1)
        for place, picture in enumerate(stored, first):
            content = repr(picture.shape).encode() + picture.tobytes()
            digests[place] = np.frombuffer(hashlib.blake2b(content, digest_size=KEY_BYTES).digest(), np.uint8)
    return digests, known & ~grey if 2 * grey.sum() < len(grey) else known
