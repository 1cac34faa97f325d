"""Raw PGN files cut into units: pieces of about a megabyte that begin and end where games do."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO
from zipfile import BadZipFile

import numpy as np
from zstandard import ZstdError

from outofcore.domains.chess.pgn.starts import LOOKAHEAD, game_starts
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit

SUFFIXES = (".pgn",)
UNIT_BYTES = 1 << 20
TOO_LONG, DAMAGED = "too_long", "damaged_file"
"""Reasons that a unit without text states in its detail: a game beyond all bounds, or the rest of a damaged file."""

_EVENT = b'\n[Event "'
_BLANKS = b" \t\v\f\0\x1a\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_LINE = 4096
_READ_BYTES = 1 << 16  # what a damaged file can lose of its readable part


@dataclass(frozen=True)
class Piece:
    """A piece of a file: text that begins with a game, or what cannot be read.

    Attributes
    ----------
    offset
        Where it begins in the decompressed file.
    text
        Whole games; empty where ``reason`` is given.
    reason, detail
        Why one record is rejected in place of text.
    """

    offset: int
    text: bytes = b""
    reason: str = ""
    detail: str = ""


def units(files: Sequence[RawFile], longest_game: int) -> Iterator[Unit]:
    """Cut the files, in order, into units; no more than a few units' text is held.

    Parameters
    ----------
    files
        Raw files, perhaps compressed or archives.
    longest_game
        Bytes; a longer game is passed over, up to the next line that begins with ``[Event "``.
    """
    for source, file in enumerate(files):
        counted = 0
        name = file.name
        for member in file.members(SUFFIXES):
            name = member.name
            for piece in pieces(member.stream, longest_game):
                position = min(member.raw_position(), file.bytes)
                yield Unit(
                    source=source,
                    name=name,
                    offset=piece.offset,
                    payload=piece.text,
                    detail={"reason": piece.reason, "detail": piece.detail} if piece.reason else {},
                    raw_bytes=max(position - counted, 0),
                )
                counted = max(position, counted)
        if counted < file.bytes:  # what follows the last game, and files without any
            yield Unit(source=source, name=name, offset=0, raw_bytes=file.bytes - counted)


def pieces(stream: BinaryIO, longest_game: int, size: int = UNIT_BYTES) -> Iterator[Piece]:
    """Cut a stream of PGN at game starts into pieces of about ``size`` bytes.

    A game's text is the same wherever the cuts fall. A stream that breaks off with an error gives what was read before
    it, and one record for the rest. ``longest_game`` is at least four times ``size``: no piece holds a longer one.
    """
    offset, text = 0, b""
    while True:
        block, problem = _read(stream, size)
        text += block
        at_end = len(block) < size
        if len(text) > longest_game and _first_is_longer(text, longest_game):
            rest = text[longest_game:]
            skipped, text, problem = _skip(stream, rest, size, problem)
            detail = f"no second game begins within {longest_game} bytes"
            yield Piece(offset, reason=TOO_LONG, detail=detail)
            offset += longest_game + skipped
            at_end = at_end or not text
        cut = len(text) if at_end else last_start(text)
        if cut:
            yield Piece(offset, text[:cut])
            offset, text = offset + cut, text[cut:]
        if problem:
            yield Piece(offset, reason=DAMAGED, detail=f"what follows cannot be read: {problem}")
        if at_end:
            return


def last_start(text: bytes) -> int:
    """The last place in ``text`` at which a game begins for certain, 0 if only the first byte is one.

    A line ``[Event "`` begins a game unless a tag stands on the line before it; where no such line is found, the text
    is read from its beginning.
    """
    found = text.rfind(_EVENT)
    while found > 0:
        before = text[max(found - _LONGEST_LINE, 0) : found].rstrip(_BLANKS)
        line_start = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
        line = before[line_start:].lstrip(_BLANKS + _BYTE_ORDER_MARK)
        if line_start and line and not line.startswith(b"["):
            return found + 1
        found = text.rfind(_EVENT, 0, found)
    starts = game_starts(np.frombuffer(text, np.uint8))
    certain = starts[starts < len(text) - LOOKAHEAD]
    return int(certain[-1]) if len(certain) else 0


def _first_is_longer(text: bytes, longest_game: int) -> bool:
    starts = game_starts(np.frombuffer(text[: longest_game + LOOKAHEAD], np.uint8))
    return not np.any(starts[1:] <= longest_game)


def _skip(stream: BinaryIO, text: bytes, size: int, problem: str) -> tuple[int, bytes, str]:
    """Read on to the next line that begins with ``[Event "``: bytes passed over, text from there on, problem."""
    skipped = 0
    while (found := text.find(_EVENT)) < 0 and not problem:
        block, problem = _read(stream, size)
        if not block:
            return skipped + len(text), b"", problem
        kept = text[-len(_EVENT) :]
        skipped += len(text) - len(kept)
        text = kept + block
    if found < 0:
        return skipped + len(text), b"", problem
    return skipped + found + 1, text[found + 1 :], problem


def _read(stream: BinaryIO, size: int) -> tuple[bytes, str]:
    """Read ``size`` bytes, fewer at the end; and what is wrong with the compressed data, if anything is."""
    blocks = []
    missing = size
    try:
        while missing and (block := stream.read(min(missing, _READ_BYTES))):
            blocks.append(block)
            missing -= len(block)
    except (EOFError, zlib.error, ZstdError, BadZipFile) as error:
        return b"".join(blocks), str(error)
    except OSError as error:
        if error.errno is not None:  # the disk's trouble, not the file's
            raise
        return b"".join(blocks), str(error)
    return b"".join(blocks), ""
