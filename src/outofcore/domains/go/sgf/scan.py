"""Find where games begin and end in bytes with arbitrary text between them.

A game ends with the parenthesis that closes its first one. Where none does, it ends before the next line that begins
like the root of a game; a line that does so inside of a value ends the game there.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

LOOK = 1024  # bytes in which the beginning of a game is recognisable
MOST_ROOTS = 256  # lines that begin like a root, in a game whose parentheses may still balance
OPEN = ord("(")
NEWLINE = ord("\n")

ROOT_NAMES = (
    "GM",
    "FF",
    "SZ",
    "CA",
    "AP",
    "PB",
    "PW",
    "EV",
    "GN",
    "DT",
    "KM",
    "RE",
    "RU",
    "HA",
    "BR",
    "WR",
    "PC",
)


class Ending(IntEnum):
    """How the bytes of a game end."""

    CLOSED = 0
    """With its last parenthesis."""
    OPEN = 1
    """Without it: the file ends, or parentheses do not balance and another game begins."""
    IN_VALUE = 2
    """Inside an unclosed property value."""
    TOO_LONG = 3
    """Not within the size limit of a game."""


_ = r"[\0- ]{0,200}"
_LETTERS = {name: "[a-z]{0,50}".join(("", *name, "")) for name in ROOT_NAMES}
_ROOT = f"(?:{'|'.join(_LETTERS.values())}){_}\\["
_TREE = rf"\({_};{_}(?:{'|'.join(letters for name, letters in _LETTERS.items() if name != 'GN')}){_}\["
_PROPERTY = rf"[a-z]{{0,100}}[A-Z][A-Za-z]{{0,100}}{_}\["
# A line that begins like a root ends a value, unless the value quotes it with its brackets escaped.
_VALUE = rf"\[(?:[^\\\]\r\n]++|\\(?:.|\Z)|[\r\n](?!{_TREE}[^\]]{{0,200}}+(?<!\\)\]))*+"


def _pattern(text: str) -> re.Pattern[bytes]:
    return re.compile(text.encode(), re.DOTALL)


_START = _pattern(rf"\((?={_}(?:;|{_PROPERTY}))|;(?={_}{_ROOT})|(?<=[\r\n])(?={_ROOT})")
_ROOT_LINE = _pattern(rf"(?<=[\r\n]){_TREE}")
_OUTSIDE = _pattern(rf"(?:[^()\[]++|{_VALUE}\])*+")
_PARENTHESIS = _pattern(rf"(?:[^()\[]++|{_VALUE}\])*+[()]")
_UNCLOSED = _pattern(_VALUE)
_BLANKS = bytes(range(33))
_NO_SYNTAX = bytes(set(range(256)) - set(rb"([\]"))


class Games(NamedTuple):
    """The games of some bytes of a stream."""

    spans: list[tuple[int, int, int]]  # start, end and Ending of each
    done: int  # bytes that need not be seen again
    stray: int  # non-blank bytes outside games among them
    skipping: bool  # whether the rest of a game that is too long follows


def find_games(data: bytes, before: int, longest: int, *, skipping: bool, final: bool) -> Games:
    """Find the games in ``data``.

    ``before`` is the preceding byte, a newline at the start of the stream; with ``skipping``, what comes before the
    next line that begins like a root belongs to a game that is too long. ``final``: nothing follows.
    """
    text, spans, at, stray = bytes((before,)) + data, list[tuple[int, int, int]](), 1, 0
    while True:
        start = (_ROOT_LINE if skipping else _START).search(text, at)
        begin = start.start() if start else len(text) if final else max(at, len(text) - LOOK)
        stray += 0 if skipping else count_stray(text[at:begin])
        end, ending = end_of(text, begin, longest, final=final) if start else (-1, Ending.OPEN)
        if end < 0:
            return Games(spans, begin - 1, stray, skipping and not start)
        spans.append((begin - 1, end - 1, ending))
        at, skipping = end, ending == Ending.TOO_LONG


def count_stray(text: bytes) -> int:
    """Non-blank bytes."""
    return len(text.translate(None, _BLANKS))


def end_of(text: bytes, begin: int, longest: int, *, final: bool) -> tuple[int, Ending]:
    """Where the game that begins at ``begin`` ends, and how; -1 if more bytes are needed."""
    limit = begin + longest
    close = text.find(b")", begin, limit)
    syntax = text[begin + 1 : close].translate(None, _NO_SYNTAX)
    if close >= 0 and syntax == b"[]" * (len(syntax) // 2):
        return close + 1, Ending.CLOSED  # nearly all: without variations, escapes and brackets in a text
    depth, at, root, roots = int(text[begin] != OPEN), begin, -1, 0
    while roots < MOST_ROOTS and (step := _PARENTHESIS.match(text, at)) and step.end() <= limit:
        at = step.end()
        if text[at - 1] != OPEN:
            depth -= 1
            if not depth:
                return at, Ending.CLOSED
        else:
            depth += 1
            if at - 1 > begin and _ROOT_LINE.match(text, at - 1):
                root, roots = at - 1 if root < 0 else root, roots + 1
    outside = _OUTSIDE.match(text, at)
    value = outside and _UNCLOSED.match(text, outside.end())
    whole = final or len(text) > limit + LOOK
    if root >= 0 and (whole or roots == MOST_ROOTS):
        return root, Ending.OPEN
    if value and value.end() < min(len(text), limit):
        return (root, Ending.OPEN) if root >= 0 else (value.end() + 1, Ending.IN_VALUE)
    if not whole:
        return -1, Ending.OPEN
    return (limit, Ending.TOO_LONG) if len(text) > limit else (len(text), Ending.IN_VALUE if value else Ending.OPEN)
