"""Find where games begin and end in a stream of bytes with arbitrary text between them, and cut it into pieces.

A game ends with the parenthesis that closes its first one. Where none does, it ends before the next line that begins
like the root of a game; a line that does so inside of a value ends the game there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from outofcore.domains.go.sgf import encoding
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import raw_size

BLOCK_BYTES = 1 << 20
NAME_BYTES = 256  # longest name in a first line
WINDOW_BYTES = 1 << 16  # after a game, in which it is read by other encodings first
LOOK = 1024  # bytes in which the beginning of a game is recognisable
MOST_ROOTS = 256  # lines that begin like a root, in a game whose parentheses may still balance
OPEN = ord("(")
NEWLINE = ord("\n")

ROOT_NAMES = ("GM", "FF", "SZ", "CA", "AP", "PB", "PW", "EV", "GN", "DT", "KM", "RE", "RU", "HA", "BR", "WR", "PC")

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


class Ending(IntEnum):
    """How the bytes of a game end."""

    CLOSED = 0  # with its last parenthesis
    OPEN = 1  # without it: the file ends, or parentheses do not balance and another game begins
    IN_VALUE = 2  # inside an unclosed property value
    TOO_LONG = 3  # not within the size limit of a game


class Games(NamedTuple):
    """The games of some bytes of a stream."""

    spans: list[tuple[int, int, int]]  # start, end and Ending of each
    done: int  # bytes that need not be seen again
    stray: int  # non-blank bytes outside games among them
    skipping: bool  # whether the rest of a game that is too long follows


class Piece(NamedTuple):
    """Whole games and the bytes between them."""

    offset: int  # of ``payload`` in the file
    payload: bytes  # first byte of the first game to last byte of the last; empty without games
    starts: Ints  # in ``payload``, int64
    ends: Ints  # in ``payload``, int64
    endings: Bytes  # uint8, outofcore.domains.go.sgf.pieces.Ending
    stray: int  # non-blank bytes outside games since the previous piece
    name: bytes  # the stream's first line, if it is not SGF and precedes the first game alone
    codecs: Mapping[int, str] = {}  # of the games whose brackets plain bytes do not show
    path: str = ""  # of the file, archives counting as folders

    def part(self, first: int, last: int) -> Piece:
        """The games from ``first`` to before ``last``; bytes outside games are counted with the first of all."""
        starts, ends = self.starts[first:last], self.ends[first:last]
        begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        return self._replace(
            payload=self.payload[begin:end],
            starts=starts - begin,
            ends=ends - begin,
            endings=self.endings[first:last],
            stray=0 if first else self.stray,
            codecs={game - first: codec for game, codec in self.codecs.items() if first <= game < last},
        )


NOTHING = Piece(0, b"", np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8), 0, b"")


def cut(
    read: Callable[[int], bytes], longest: int, block: int = BLOCK_BYTES, *, offset: int = 0, of_file: str = ""
) -> Iterator[Piece]:
    """Cut a stream into pieces of whole games, about ``block`` bytes each.

    The games do not depend on ``block``. A piece without games comes last if bytes follow the last game or there is
    none. ``read(n)`` returns at most n bytes, none at the end. At most ``longest`` (bytes per game) plus a block are
    held. The stream begins at ``offset`` of the file, whose encoding is ``of_file``, "" for UTF-8.
    """
    buffer, before, stray, skipping = b"", NEWLINE, 0, False
    head: bytes | None = b""  # text before the first game
    more = True
    while more:
        fresh = read(block)
        buffer, more = buffer + fresh, bool(fresh)
        again = bool(buffer)
        while again:
            games, codecs, again = _find(buffer, before, longest, skipping=skipping, final=not more)
            stray, skipping = stray + games.stray, games.skipping
            if head is not None:
                head = (head + buffer[: games.spans[0][0] if games.spans else games.done])[: 4 * NAME_BYTES]
            if games.spans:
                first, last = games.spans[0][0], games.spans[-1][1]
                starts, ends, endings = np.array(games.spans, np.int64).T
                name = b"" if head is None else _name(head)
                begin, payload = offset + raw_size(buffer[:first], of_file), buffer[first:last]
                yield Piece(begin, payload, starts - first, ends - first, endings.astype(np.uint8), stray, name, codecs)
                head, stray = None, 0
            before = buffer[games.done - 1] if games.done else before
            offset += raw_size(buffer[: games.done], of_file)
            buffer = buffer[games.done :]
    if stray or head is not None:
        yield NOTHING._replace(offset=offset, stray=stray)


def _find(
    buffer: bytes, before: int, longest: int, *, skipping: bool, final: bool
) -> tuple[Games, dict[int, str], bool]:
    """The next games, the codecs of those that need one, and whether the rest of ``buffer`` has more games."""
    games = find_games(buffer, before, longest, skipping=skipping, final=final)
    codecs: dict[int, str] = {}
    spans = games.spans
    if not spans or encoding.is_certain(buffer[spans[0][0] : spans[-1][1]]):
        return games, codecs, False
    for number, (start, end, ending) in enumerate(spans):
        reading = _by_encoding(buffer, start, end, ending, longest, final=final)
        if reading is not None and reading[0]:
            codecs[number] = reading[0]
        if reading is not None and reading[1] == end:
            spans[number] = (start, *reading[1:])
            continue
        # The games from here on are not those of plain bytes: they are found again after this one.
        spans = spans[:number] + ([(start, *reading[1:])] if reading else [])
        done = reading[1] if reading else start
        between = zip([0, *(span[1] for span in spans)], [*(span[0] for span in spans), done], strict=True)
        stray = 0 if skipping else sum(count_stray(buffer[low:high]) for low, high in between)
        too_long = bool(reading) and spans[-1][2] == Ending.TOO_LONG
        return Games(spans, done, stray, too_long), codecs, reading is not None
    return games, codecs, False


def _by_encoding(
    buffer: bytes, start: int, end: int, ending: int, longest: int, *, final: bool
) -> tuple[str, int, int] | None:
    """Codec, end and ending of a game that begins at ``start``; None if more bytes are needed to know.

    ``end`` and ``ending`` are those of plain bytes.
    """
    plain = buffer[start:end]
    if encoding.is_certain(plain):
        return "", end, ending
    spans, masks = {"": (end, ending)}, {"": plain}
    for codec in encoding.candidates(plain):
        span = _span(buffer, start, end, codec, longest, final=final)
        if span is None:
            if encoding.decodes(buffer[start:], codec, final=False):
                return None
            continue
        game = buffer[start : span[0]]
        mask = encoding.masked(game, codec)
        if (mask != game or span != spans[""]) and encoding.decodes(game, codec):
            spans[codec], masks[codec] = span, mask
    if len(spans) == 1 and not encoding.may_swallow(plain):
        return "", end, ending
    layouts = {codec: encoding.layout(masks[codec], closed=spans[codec][1] == Ending.CLOSED) for codec in spans}
    codec = encoding.choose(layouts, plain)
    return codec, *spans.get(codec, spans[""])


def _span(buffer: bytes, start: int, end: int, codec: str, longest: int, *, final: bool) -> tuple[int, int] | None:
    """End and ending of the game at ``start`` in an encoding, mostly those of plain bytes; None if it continues."""
    first = [end] if encoding.is_by_character(buffer[start:end]) else []
    for stop in (*first, min(end + WINDOW_BYTES, len(buffer)), len(buffer)):
        text = encoding.masked(buffer[start:stop], codec)
        stop_of_game, ending = end_of(text, 0, longest, final=final and stop == len(buffer))
        if stop_of_game >= 0:
            return start + stop_of_game, ending
        if stop == len(buffer):
            break
    return None


def _name(head: bytes) -> bytes:
    lines = [line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").splitlines()]
    lines = [line for line in lines if line]
    return lines[0] if len(lines) == 1 and len(lines[0]) <= NAME_BYTES else b""


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
