"""Survey all sessions of an input at once, for schemas, splits and units."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from outofcore.console import visible
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.domains.neural.sessions import Session, find_sessions, opened
from outofcore.domains.neural.splits import settle
from outofcore.domains.neural.streams import find_streams
from outofcore.domains.neural.survey import Survey, survey
from outofcore.raw.files import RawFile


@dataclass(frozen=True)
class Looked:
    """A session with its survey, or with the reason why it cannot be converted."""

    session: Session
    survey: Survey | None
    detail: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Input:
    """All sessions of an input, and the keys reassigned to another split than that of their hash."""

    sessions: tuple[Looked, ...]
    moved: dict[bytes, str]


_LOCK = threading.Lock()
_last: tuple[object, Input] | None = None


def look_at(files: Sequence[RawFile], section: NeuralSection) -> Input:
    """Survey the sessions of an input; cached for the same files and settings."""
    global _last
    stats = [file.path.stat() for file in files]
    stamps = [(each.st_size, each.st_mtime_ns, each.st_ctime_ns, each.st_ino) for each in stats]
    key = (tuple(files), stamps, section.source, section.splits)
    with _LOCK:
        if _last is None or _last[0] != key:
            _last = key, _look(files, section)
        return _last[1]


def _look(files: Sequence[RawFile], section: NeuralSection) -> Input:
    found = tuple(_surveyed(session, section) for session in find_sessions(files, section.source.names))
    known = {each.session.file: each.survey for each in found if each.survey is not None}
    moved, notes = settle(known, section.splits)
    for line in notes:
        sys.stderr.write(f"note: {visible(line)}\n")
    return Input(found, moved)


def _surveyed(session: Session, section: NeuralSection) -> Looked:
    try:
        with opened(session) as recording:
            return Looked(session, survey(find_streams(recording, section.source), section.source))
    except SessionError as error:
        return Looked(session, None, str(error), error.reason)
    except OSError as error:
        return Looked(session, None, str(error), "unreadable_file")
