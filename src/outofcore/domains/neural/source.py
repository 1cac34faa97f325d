"""Sessions to units: ranges of bins.

The way of a recording: ``sessions`` groups files and opens them with a reader of ``recordings``, ``streams`` finds its
arrays by role, ``survey`` its bins and trials, and this module cuts it into units. ``convert`` turns a unit into rows
with ``bins``, which reads and aligns.

A unit is a range of bins; each worker reads its range from the file, so no session is ever in memory as a whole. In the
process that cuts a session, its units share the open files. A session with arrays that are decompressed whole
(compressed members, text) is read by that process, in smaller ranges. A trial longer than a unit continues in the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from outofcore.domains.neural.bins import BinReader
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.schema import row_bytes, session_schema
from outofcore.domains.neural.session_survey import SessionSurvey
from outofcore.domains.neural.sessions import Session
from outofcore.domains.neural.streams import Streams, open_session
from outofcore.domains.neural.survey import survey_sessions
from outofcore.domains.neural.transforms import bins_before
from outofcore.domains.neural.trials import Trials
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Reject, Unit

UNIT_BYTES = 8 << 20
# Data read by the cutting thread stays in memory until it is converted.
ONE_READER_UNIT_BYTES = 2 << 20


@dataclass(frozen=True)
class UnitBins:
    """The bins of a unit, and their trials."""

    start: int
    stop: int
    before: int  # extra bins read before ``start`` if a trial continues there
    after: int  # extra bins read after ``stop`` if a trial continues there
    trials: Trials


def units(files: Sequence[RawFile], section: NeuralSection) -> Iterator[Unit]:
    """Cut all sessions into units, in order."""
    for session, survey in survey_sessions(files, section):
        yield from units_of(session, survey, section)


def units_of(session: Session, survey: SessionSurvey | Reject, section: NeuralSection) -> Iterator[Unit]:
    """Cut a session into units; an unconvertible session or stray file becomes a unit that reports why."""
    if session.kind == "none":
        yield _unit(session, {"counts": {"files_unused": 1}}, session.bytes)
        return
    if isinstance(survey, Reject):
        yield _unit(session, {"rejects": (survey,)}, session.bytes)
        return
    yield from _cut(session, section, open_session(session, section.source, survey.alignment.labels), survey)


def _unit(session: Session, detail: dict[str, Any], raw_bytes: int, offset: int = 0) -> Unit:
    return Unit(
        source=session.source,
        name=session.file,
        offset=offset,
        detail=detail,
        raw_bytes=raw_bytes,
        others=session.others,
    )


def _cut(session: Session, section: NeuralSection, streams: Streams, survey: SessionSurvey) -> Iterator[Unit]:
    schema = session_schema(session, survey, section.source)
    # A worker holds frames in the file's type or the store's, whichever is wider.
    frame = streams.frames.dtype.itemsize * int(np.prod(streams.frames.shape[1:], dtype=np.int64))
    bins = max(1, (ONE_READER_UNIT_BYTES if streams.one_reader else UNIT_BYTES) // max(row_bytes(schema), frame))
    cuts = cut_trials(survey, bins, bins_before(section.source.transforms) + 1)
    reader = BinReader(streams, survey.alignment, section.source)
    starts = np.array([span.start - span.before for span in cuts], np.int64)
    stops = np.array([span.stop + span.after for span in cuts], np.int64)
    raw = session.bytes
    first: dict[str, Any] = {"rejects": survey.rejects, "counts": dict(survey.counts)}
    for number, (span, ranges) in enumerate(zip(cuts, reader.locate(starts, stops), strict=True)):
        read = partial(reader.read, int(starts[number]), int(stops[number]), ranges)
        detail = {"part": session.name, "bins": span, "slice": read() if streams.one_reader else read}
        share = session.bytes * (number + 1) // len(cuts) - session.bytes * number // len(cuts)
        raw -= share
        yield _unit(session, detail | first, share, span.start)
        first = {}
    if first:
        yield _unit(session, first, raw)


def cut_trials(survey: SessionSurvey, bins: int, halo: int) -> list[UnitBins]:
    """Cut a session into units of at most ``bins`` bins: whole trials, or parts of a longer one."""
    trials = survey.trials
    cuts: list[UnitBins] = []
    number = 0
    while number < len(trials):
        start, stop = int(trials.start[number]), int(trials.stop[number])
        if stop - start > bins:
            for first in range(start, stop, bins):
                last = min(first + bins, stop)
                before, after = min(halo, first - start), min(1, stop - last)
                cuts.append(UnitBins(first, last, before, after, trials[number : number + 1]))
            number += 1
            continue
        end = int(np.searchsorted(trials.stop, start + bins, side="right"))
        cuts.append(UnitBins(start, int(trials.stop[end - 1]), 0, 0, trials[number:end]))
        number = end
    return cuts
