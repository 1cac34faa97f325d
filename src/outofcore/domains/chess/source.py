"""Cut raw PGN files into units: pieces of about a megabyte that begin and end at game boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from outofcore.domains.chess.params import SUFFIXES, ChessSection
from outofcore.domains.chess.pgn.games import LOOKAHEAD, game_starts
from outofcore.domains.chess.pgn.records import holds_records, last_record
from outofcore.ndarrays import Ints
from outofcore.raw.cutting import UNIT_BYTES, MemberText, cut_by, halves, units_of_member
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit

LONGEST_GAME = 1 << 22
"""Bytes of the longest game; it bounds what is held in memory."""

_EVENT = b'\n[Event "'
_BLANKS = b" \t\v\f\0\x1a\r\n"
_LONGEST_LINE = 4096
# The last line of a game: a result, and before it no remark to the end of the line, and no bracket but those of notes.
_ENDS_GAME = re.compile(rb"(?!%)(?:[^;\[]|\[%)*?(?<![^ \t}])(?:1-0|0-1|1/2-1/2|\*)")


def units(files: Sequence[RawFile], section: ChessSection) -> Iterator[Unit]:
    """Cut the files, in order, into units; small files share one. A game beyond :data:`LONGEST_GAME` is rejected."""
    del section

    def cutter(member: MemberText) -> Iterator[Unit]:
        start = last_record if holds_records(member.name) else last_start
        return units_of_member(member, start, size=UNIT_BYTES, longest=LONGEST_GAME)

    def weigh(unit: Unit) -> int:
        return UNIT_BYTES + 1 if holds_records(unit.name) else len(unit.payload)

    return cut_by(cutter, files, SUFFIXES, UNIT_BYTES, weigh=weigh)


def divided(unit: Unit, section: ChessSection) -> tuple[Unit, ...]:
    """The games of a unit in two units, none if it has one."""
    del section
    if holds_records(unit.name):
        return halves(unit, last_record)
    return halves(unit, lambda text: _last_cut(unit.payload, len(text)))


def _last_cut(text: bytes, end: int) -> int:
    """The last game start below ``end`` at which a cut changes no other start, 0 if there is none."""
    starts = _starts(text)
    for at in reversed(starts[: np.searchsorted(starts, end)].tolist()):
        if at and np.array_equal(starts, np.append(_starts(text[:at]), at + _starts(text[at:]))):
            return int(at)
    return 0


def _starts(text: bytes) -> Ints:
    return game_starts(np.frombuffer(text, np.uint8))


def last_start(text: bytes) -> int:
    """The last certain game start, 0 if only the first byte is one; without a plain one the text is scanned."""
    start = text.rfind(_EVENT)
    while start > 0:
        before = text[max(start - _LONGEST_LINE, 0) : start].rstrip(_BLANKS)
        line_start = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
        if line_start and _ENDS_GAME.fullmatch(before, line_start):
            return start + 1
        start = text.rfind(_EVENT, 0, start)
    starts = _starts(text)
    certain = starts[starts < len(text) - LOOKAHEAD]
    return int(certain[-1]) if len(certain) else 0
