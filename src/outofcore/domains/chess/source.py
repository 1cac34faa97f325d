"""Cut raw files into units: pieces of PGN of about a megabyte that begin and end at game boundaries, or JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outofcore.domains.chess.params import RECORDS, ROWS, SUFFIXES, ChessSection
from outofcore.domains.chess.pgn.games import LOOKAHEAD, game_starts
from outofcore.domains.chess.pgn.grammar import TAGS
from outofcore.domains.chess.pgn.records import MOVES, last_record, shown
from outofcore.ndarrays import Ints
from outofcore.raw.cutting import LONGEST_BYTES, UNIT_BYTES, MemberText, cut_by, halves, units_of_member
from outofcore.raw.files import RawFile, open_parquet, plain_name, wanted
from outofcore.raw.streams import read_block
from outofcore.raw.unit import Reject, Unit
from outofcore.settings.yaml_text import parse_json
from outofcore.system.failures import raise_if_of_system

LONGEST_GAME = 1 << 22
"""Bytes of the longest game; it bounds what is held in memory."""

_EVENT = b'\n[Event "'
_BLANKS = b" \t\v\f\0\x1a\r\n"
_LONGEST_LINE = 4096
# The last line of a game: a result, and before it no remark to the end of the line, and no bracket but those of notes.
_ENDS_GAME = re.compile(rb"(?!%)(?:[^;\[]|\[%)*?(?<![^ \t}])(?:1-0|0-1|1/2-1/2|\*)")


def units(files: Sequence[RawFile], section: ChessSection) -> Iterator[Unit]:
    """Cut the files, in order, into units; small files share one. A game beyond :data:`LONGEST_GAME` is rejected."""

    def cutter(member: MemberText) -> Iterator[Unit]:
        if wanted(member.name, ROWS):
            return _units_of_rows(member, section)
        start = last_record if wanted(member.name, RECORDS) else last_start
        return units_of_member(member, start, size=UNIT_BYTES, longest=LONGEST_GAME)

    def weigh(unit: Unit) -> int:
        return UNIT_BYTES + 1 if wanted(unit.name, RECORDS) else len(unit.payload)

    return cut_by(cutter, files, SUFFIXES, UNIT_BYTES, weigh=weigh)


def divided(unit: Unit, section: ChessSection) -> tuple[Unit, ...]:
    """The games of a unit in two units, none if it has one."""
    del section
    if wanted(unit.name, ROWS):
        rows_before = unit.payload[: last_record(unit.payload)].count(b"\n")
        return _at_row(halves(unit, last_record), unit.offset + rows_before)
    if wanted(unit.name, RECORDS):
        return halves(unit, last_record)
    return halves(unit, lambda text: _last_cut(unit.payload, len(text)))


def _at_row(parts: tuple[Unit, ...], row: int) -> tuple[Unit, ...]:
    """Two units of rows, the second from ``row`` on; none for none."""
    if not parts:
        return ()
    (stretch,) = parts[1].stretches
    return parts[0], replace(parts[1], offset=row, stretches=(replace(stretch, offset=row),))


def _units_of_rows(member: MemberText, section: ChessSection) -> Iterator[Unit]:
    """The records of Parquet or of one JSON text as lines of JSON; offsets are their numbers."""
    row, table = 0, plain_name(member.name).lower().endswith(".parquet")
    try:
        for records in _batches(member, section) if table else _listed(member):
            lines = (json.dumps(record, default=shown, separators=(",", ":")) for record in records)
            yield member.unit(row, "".join(f"{line}\n" for line in lines).encode())
            row += len(records)
    except (ValueError, LookupError, AttributeError, OSError) as error:  # pyarrow's errors are some of these
        raise_if_of_system(error)
        detail = f"what follows cannot be read: {' '.join(str(error).split())}"
        yield member.unit(row, b"", Reject(reason="damaged", offset=row, detail=detail))


def _listed(member: MemberText) -> Iterator[Sequence[Any]]:
    """The games of one JSON text: of the list that it is, or that it names ``games``, as chess.com does."""
    text, damage = read_block(member.stream, LONGEST_BYTES)
    if damage is not None:
        raise ValueError(str(damage))
    if len(text) == LONGEST_BYTES:
        raise ValueError(f"JSON of {LONGEST_BYTES >> 20} MiB or more in one text; jq -c '.games[]' makes lines of it")
    parsed = parse_json(text)
    games = parsed.get("games", [parsed]) if isinstance(parsed, dict) else parsed
    for first in range(0, len(games), 256):
        yield games[first : first + 256]


def _batches(member: MemberText, section: ChessSection) -> Iterator[Sequence[Any]]:
    """The rows of Parquet by column, about a unit of them at a time: moves and the tags that are read."""
    file = open_parquet(member.opened)
    names = [*MOVES, *TAGS, *section.source.tags, *section.filters.tags]
    columns = [name for name in file.schema_arrow.names if name in names]
    if not set(columns) & set(MOVES):
        raise LookupError(f"expected a column {' or '.join(MOVES)}, got {', '.join(file.schema_arrow.names)}")
    for group in range(file.metadata.num_row_groups):
        facts = file.metadata.row_group(group)
        rows = int(max(1, min(4096, facts.num_rows * UNIT_BYTES // max(facts.total_byte_size, 1))))
        for batch in file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
            yield batch.to_pylist()


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
