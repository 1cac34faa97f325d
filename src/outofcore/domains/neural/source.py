"""Sessions to units and units to rows.

A unit is a range of bins; whoever converts it reads that range from the file by itself, so that no session is ever in
memory. A session that can only be read from its beginning on (compressed members, text) is read by whoever cuts it, in
smaller ranges. A trial that is longer than a unit goes on in the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.bins import BinReader
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.recordings.recording import SessionError
from outofcore.domains.neural.schema import row_bytes, session_schema
from outofcore.domains.neural.sessions import Session, find_sessions, opened
from outofcore.domains.neural.streams import Streams, find_streams
from outofcore.domains.neural.survey import Survey, survey
from outofcore.domains.neural.transforms import history
from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Reject, Unit
from outofcore.store.schema import Schema

UNIT_BYTES = 8 << 20
# What the cutting thread has read waits in memory until it is converted.
STREAMED_UNIT_BYTES = 2 << 20

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """The bins of a unit, and the trials that they belong to.

    Attributes
    ----------
    start, stop
        Range of bins.
    before, after
        Bins that are read on both sides, where a trial goes on there.
    trials
        Start, stop, label, repeat and condition of each trial, shape (trials, 5).
    """

    start: int
    stop: int
    before: int
    after: int
    trials: Ints


@contextmanager
def surveyed(session: Session, section: NeuralSection) -> Iterator[tuple[Streams, Survey, bool]]:
    """An open session, what is known of it, and whether it is streamed.

    Raises
    ------
    SessionError
        If it cannot be converted as a whole.
    """
    with opened(session) as recording:
        try:
            streams = find_streams(recording, section.source)
            known = survey(streams, section.source)
        except OSError as error:
            raise SessionError(str(error), reason="unreadable_file") from error
        yield streams, known, recording.streamed


def session_schemas(files: Sequence[RawFile], section: NeuralSection) -> dict[str, Schema]:
    """A part for each session that can be converted.

    Raises
    ------
    RawInputError
        If there is none; says what is wrong with the first.
    """
    schemas: dict[str, Schema] = {}
    wrong: list[str] = []
    for session in find_sessions(files, section.source.names):
        try:
            with surveyed(session, section) as (_, known, _):
                schemas[session.name] = session_schema(session, known, section.source)
        except SessionError as error:
            wrong.append(f"{session.file}: {error}")
    if not schemas:
        more = f" (and {len(wrong) - 1} more files)" if len(wrong) > 1 else ""
        message = f"neural.raw: no session can be converted: {wrong[0] if wrong else 'no files'}{more}"
        raise RawInputError(message)
    return schemas


def session_units(files: Sequence[RawFile], section: NeuralSection) -> Iterator[Unit]:
    """Cut all sessions into units, in order."""
    for session in find_sessions(files, section.source.names):
        yield from units_of(session, section)


def units_of(session: Session, section: NeuralSection) -> Iterator[Unit]:
    """Cut a session into units; one that cannot be converted, or is none, is a unit that says so."""
    if session.kind == "none":
        yield _unit(session, {"counts": {"files_unused": 1}}, session.bytes)
        return
    try:
        with surveyed(session, section) as (streams, known, streamed):
            yield from _cut(session, section, streams, known, streamed=streamed)
    except SessionError as error:
        reject = Reject(reason=error.reason, offset=0, detail=str(error))
        yield _unit(session, {"rejects": (reject,)}, session.bytes)


def _unit(session: Session, detail: dict[str, Any], raw_bytes: int, offset: int = 0) -> Unit:
    return Unit(source=session.source, name=session.file, offset=offset, detail=detail, raw_bytes=raw_bytes)


def _cut(
    session: Session, section: NeuralSection, streams: Streams, known: Survey, *, streamed: bool
) -> Iterator[Unit]:
    schema = session_schema(session, known, section.source)
    # Frames may be wider in the file than in the store, and the wider of both is what a worker holds.
    frame = streams.frames.dtype.itemsize * int(np.prod(streams.frames.shape[1:], dtype=np.int64))
    bins = max(1, (STREAMED_UNIT_BYTES if streamed else UNIT_BYTES) // max(row_bytes(schema), frame))
    pieces = cut_trials(known, bins, history(section.source.transforms) + 1)
    reader = BinReader(streams, known, section.source)
    starts = np.array([piece.start - piece.before for piece in pieces], np.int64)
    stops = np.array([piece.stop + piece.after for piece in pieces], np.int64)
    raw = session.bytes
    slim = known.slim()
    first: dict[str, Any] = {"rejects": known.rejects, "counts": dict(known.counts)}
    for number, (piece, ranges) in enumerate(zip(pieces, reader.locate(starts, stops), strict=True)):
        detail: dict[str, Any] = {"session": session, "survey": slim, "piece": piece, "ranges": ranges}
        detail["continues"] = bool(piece.trials[0, 0] < piece.start)
        if streamed:
            detail["slice"] = reader.read(int(starts[number]), int(stops[number]), ranges)
        share = session.bytes * (number + 1) // len(pieces) - session.bytes * number // len(pieces)
        raw -= share
        yield _unit(session, detail | first, share, piece.start)
        first = {}
    if first:
        yield _unit(session, first, raw)


def cut_trials(known: Survey, bins: int, halo: int) -> list[Piece]:
    """Cut a session into pieces of at most ``bins`` bins: whole trials, or a part of one that is longer."""
    trials = known.trials
    table = np.stack([trials.start, trials.stop, trials.label, trials.repeat, trials.condition], axis=1)
    pieces: list[Piece] = []
    number = 0
    while number < len(table):
        start, stop = int(table[number, 0]), int(table[number, 1])
        if stop - start > bins:
            for first in range(start, stop, bins):
                last = min(first + bins, stop)
                before, after = min(halo, first - start), min(1, stop - last)
                pieces.append(Piece(first, last, before, after, table[number : number + 1]))
            number += 1
            continue
        end = int(np.searchsorted(trials.stop, start + bins, side="right"))
        pieces.append(Piece(start, int(table[end - 1, 1]), 0, 0, table[number:end]))
        number = end
    return pieces
