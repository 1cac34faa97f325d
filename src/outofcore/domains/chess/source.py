"""Cut raw PGN files into units: pieces of about a megabyte that begin and end at game boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from outofcore.domains.chess.params import ChessSection
from outofcore.domains.chess.pgn.games import LOOKAHEAD, game_starts
from outofcore.raw.blocks import read_block
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.gather import gathered, halves, side_by_side
from outofcore.raw.streams import transcoded
from outofcore.raw.unit import Unit

SUFFIXES = (".pgn",)
UNIT_BYTES = 1 << 20
LONGEST_GAME = 1 << 22
"""Bytes of the longest game; it bounds what is held in memory."""
TOO_LONG = "too_long"
"""Reason of an oversized game; unreadable data has a reason of :mod:`outofcore.raw.damage`."""

_EVENT = b'\n[Event "'
_BLANKS = b" \t\v\f\0\x1a\r\n"
_LONGEST_LINE = 4096
# The last line of a game: a result, and before it no remark to the end of the line, and no bracket but those of notes.
_ENDS_GAME = re.compile(rb"(?!%)(?:[^;\[]|\[%)*?(?<![^ \t}])(?:1-0|0-1|1/2-1/2|\*)")


@dataclass(frozen=True)
class Piece:
    """Text of whole games, or a part of a file that cannot be read."""

    offset: int  # start in the decompressed file
    text: bytes = b""  # whole games; empty if ``reason`` is set
    reason: str = ""  # why one record is rejected in place of text
    detail: str = ""


def units(files: Sequence[RawFile], section: ChessSection) -> Iterator[Unit]:
    """Cut the files, in order, into units; small files share one.

    A game of more than :data:`LONGEST_GAME` bytes is skipped. A unit's ``detail`` holds the ``member`` of the raw
    file, and ``reason`` and ``detail`` of what cannot be read; that of a shared one its parts.
    """
    del section
    return gathered(_of_files(files), UNIT_BYTES, side_by_side)


def divided(unit: Unit, section: ChessSection) -> tuple[Unit, ...]:
    """The games of a unit in two units, none if it has one."""
    del section
    if parts := halves(unit, side_by_side):
        return parts
    starts = game_starts(np.frombuffer(unit.payload, np.uint8))
    if len(starts) < 2:
        return ()
    at = int(starts[len(starts) // 2])
    left, right = unit.payload[:at], unit.payload[at:]
    return replace(unit, payload=left), replace(unit, payload=right, offset=unit.offset + at)


def _of_files(files: Sequence[RawFile]) -> Iterator[Unit]:
    """Units of one file or a piece of it, with their raw bytes."""
    for source, file in enumerate(files):
        counted = 0
        name = file.name
        for index, member in enumerate(file.members(SUFFIXES)):
            name = member.name
            stream, *_ = transcoded(member.stream)
            for piece in pieces(stream):
                position = min(member.raw_position(), file.bytes)
                yield Unit(
                    source=source,
                    name=name,
                    offset=piece.offset,
                    payload=piece.text,
                    detail={"member": index}
                    | ({"reason": piece.reason, "detail": piece.detail} if piece.reason else {}),
                    raw_bytes=max(position - counted, 0),
                )
                counted = max(position, counted)
        if counted < file.bytes:  # text after the last game, and files without games
            yield Unit(source=source, name=name, offset=0, detail={"member": 0}, raw_bytes=file.bytes - counted)


def pieces(stream: BinaryIO, longest_game: int = LONGEST_GAME, size: int = UNIT_BYTES) -> Iterator[Piece]:
    """Cut a stream of PGN at game starts into pieces of about ``size`` bytes.

    The text of a game does not depend on the cuts. A stream that ends with an error yields the text before it and one
    record for the rest. ``longest_game`` is at least four times ``size``: no piece holds a longer one.
    """
    offset, text = 0, b""
    while True:
        block, problem = read_block(stream, size)
        text += block
        at_end = len(block) < size
        if len(text) > longest_game and _first_is_longer(text, longest_game):
            rest = text[longest_game:]
            skipped, text, problem = _skip(stream, rest, size, problem)
            detail = f"no second game begins within {longest_game} bytes"
            yield Piece(offset, reason=TOO_LONG, detail=detail)
            offset += longest_game + skipped
            at_end = at_end or not text or problem is not None
        cut = len(text) if at_end else last_start(text)
        if cut:
            yield Piece(offset, text[:cut])
            offset, text = offset + cut, text[cut:]
        if problem:
            yield Piece(offset, reason=problem.reason, detail=f"what follows cannot be read: {problem}")
        if at_end:
            return


def last_start(text: bytes) -> int:
    """The last certain game start, 0 if only the first byte is one; without a plain one the text is scanned."""
    found = text.rfind(_EVENT)
    while found > 0:
        before = text[max(found - _LONGEST_LINE, 0) : found].rstrip(_BLANKS)
        line_start = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
        if line_start and _ENDS_GAME.fullmatch(before, line_start):
            return found + 1
        found = text.rfind(_EVENT, 0, found)
    starts = game_starts(np.frombuffer(text, np.uint8))
    certain = starts[starts < len(text) - LOOKAHEAD]
    return int(certain[-1]) if len(certain) else 0


def _first_is_longer(text: bytes, longest_game: int) -> bool:
    starts = game_starts(np.frombuffer(text[: longest_game + LOOKAHEAD], np.uint8))
    return not np.any(starts[1:] <= longest_game)


def _skip(
    stream: BinaryIO, text: bytes, size: int, problem: DamagedInput | None
) -> tuple[int, bytes, DamagedInput | None]:
    """Skip to the next line that begins with ``[Event "``: bytes skipped, text from there on, problem."""
    skipped = 0
    while (found := text.find(_EVENT)) < 0 and not problem:
        block, problem = read_block(stream, size)
        if not block:
            return skipped + len(text), b"", problem
        kept = text[-len(_EVENT) :]
        skipped += len(text) - len(kept)
        text = kept + block
    if found < 0:
        return skipped + len(text), b"", problem
    return skipped + found + 1, text[found + 1 :], problem
