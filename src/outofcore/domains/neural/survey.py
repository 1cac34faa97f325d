"""Survey of all sessions of an input: splits of their trials, sessions that are there twice, notes to the user."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import PurePosixPath

from outofcore.display.console import visible
from outofcore.domains.neural.bins import BinReader
from outofcore.domains.neural.params import NameSection, NeuralSection, SourceSection
from outofcore.domains.neural.pictures import find_pictures, lowest_number
from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.domains.neural.session_survey import SessionSurvey, survey
from outofcore.domains.neural.sessions import Session, find_sessions
from outofcore.domains.neural.splits import divide, listed
from outofcore.domains.neural.streams import open_session
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Reject
from outofcore.system.failures import raise_if_of_system

# Arrays that nothing reads: how many a note lists, and the settings that may be meant by a word in a name.
MOST_LISTED = 8
SUGGESTED = {"trial": "trial", "mask": "valid", "valid": "valid", "time": "frame_times", "repeat": "repeat"}
SAME_RECORDING = "one recording twice (as combined of suite2p has the neurons of all planes); choose by neural.match"

Sessions = tuple[tuple[Session, SessionSurvey | Reject], ...]
"""Sessions with their surveys, or why one cannot be converted."""

_LOCK = threading.Lock()
_last: tuple[object, Sessions] | None = None


def survey_sessions(files: Sequence[RawFile], section: NeuralSection) -> Sessions:
    """Survey the sessions of an input; cached for the same files and settings."""
    global _last
    stats = [file.path.stat() for file in files]
    stamps = [(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino) for stat in stats]
    key = (tuple(files), stamps, section.source, section.splits, section.grow)
    with _LOCK:
        if _last is None or _last[0] != key:
            _last = key, _survey_all(files, section)
        return _last[1]


def _survey_all(files: Sequence[RawFile], section: NeuralSection) -> Sessions:
    sessions = [
        (session, _surveyed(session, files, section.source)) for session in find_sessions(files, section.source)
    ]
    sessions = sessions if section.grow else _once(sessions)
    known = {session.file: surveyed for session, surveyed in sessions if isinstance(surveyed, SessionSurvey)}
    trials, notes = divide(known, section.splits, grows=section.grow)
    if section.splits.by != "content":
        notes = []
    counted_from_1 = [name for name, surveyed in known.items() if surveyed.starts_at and not section.source.first_frame]
    if counted_from_1:
        notes.append(
            f"{listed(counted_from_1)}: names.frame never holds 0; if it numbers the frames from 1, set "
            "source.first_frame: 1"
        )
    sideways = [
        name
        for name, surveyed in known.items()
        if section.source.names.responses is not None and surveyed.bins < surveyed.neurons
    ]
    if sideways:
        notes.append(
            f"{listed(sideways)}: names.responses has more neurons ({known[sideways[0]].neurons}) than bins "
            f"({known[sideways[0]].bins}); if its axis 1 is time, set source.time_axis: {{responses: 1}}"
        )
    silent = {name: surveyed.counts.get("trials_outside_spikes", 0) for name, surveyed in known.items()}
    if any(silent.values()):
        notes.append(
            f"{listed([name for name in silent if silent[name]])}: {sum(silent.values())} of "
            f"{sum(len(known[name].trials) for name in silent if silent[name])} trials end before the first spike of "
            "all neurons or begin after the last: are trials and spikes on one clock?"
        )
    notes += _unread_notes(known, section.source.names)
    for line in notes:
        sys.stderr.write(f"note: {visible(line)}\n")
    return tuple(
        (session, replace(surveyed, trials=trials[session.file]) if isinstance(surveyed, SessionSurvey) else surveyed)
        for session, surveyed in sessions
    )


def _once(sessions: list[tuple[Session, SessionSurvey | Reject]]) -> list[tuple[Session, SessionSurvey | Reject]]:
    """The sessions; those with neurons of an earlier one are rejected, as trials of one would be in two splits."""
    owners: dict[bytes, str] = {}
    once: list[tuple[Session, SessionSurvey | Reject]] = []
    for session, surveyed in sessions:
        if isinstance(surveyed, SessionSurvey):
            shared = Counter(owners[neuron] for neuron in surveyed.neuron_digests if neuron in owners)
            if shared:
                earlier, neurons = shared.most_common(1)[0]
                detail = f"{neurons} of its neurons are those of {earlier}, with equal responses: "
                once.append((session, Reject(reason="same_recording", offset=0, detail=detail + SAME_RECORDING)))
                continue
            owners |= dict.fromkeys(surveyed.neuron_digests, session.file)
        once.append((session, surveyed))
    return once


def first_names(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"{', '.join(names[:MOST_LISTED])}{more}"


def _unread_notes(known: Mapping[str, SessionSurvey], names: NameSection) -> list[str]:
    """What no setting names, once for all sessions with the same arrays, and which setting may be missing."""
    sessions: dict[tuple[str, ...], list[str]] = {}
    for name, surveyed in known.items():
        sessions.setdefault(surveyed.unread, []).append(name)
    notes = []
    for unread, files in sessions.items():
        if unread:
            hints = []
            for word, setting in SUGGESTED.items():
                likely = next((array for array in unread if word in PurePosixPath(array).name.lower()), None)
                framed = names.stimulus is not None or setting != "frame_times"
                if likely is not None and getattr(names, setting) is None and framed:
                    hints.append(f"source.names.{setting}: {likely}")
            hint = f"; perhaps {', '.join(hints)}" if hints else ""
            notes.append(f"{listed(files)}: not read: {first_names(unread)}{hint}")
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
            surveyed = replace(survey(streams, source), unread=streams.unread)
            if streams.indexed and streams.repeat is None:
                trials, pictures = find_pictures(BinReader(streams, surveyed, source), streams, surveyed.trials, source)
                surveyed = replace(surveyed, trials=trials, pictures=pictures)
            numbers = streams.shown.array if source.names.frame is not None else None
            return surveyed if numbers is None else replace(surveyed, starts_at=lowest_number(numbers))
    except SessionError as error:
        return Reject(reason=error.reason, offset=0, detail=str(error))
    except OSError as error:
        raise_if_of_system(error)
        return Reject(reason="unreadable_file", offset=0, detail=str(error))
