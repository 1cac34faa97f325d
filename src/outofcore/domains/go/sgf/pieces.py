"""Cut a byte stream into pieces of whole games."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.sgf import encoding
from outofcore.domains.go.sgf.scan import NEWLINE, Ending, Found, find_games, find_trees
from outofcore.raw.unit import raw_size

BLOCK_BYTES = 1 << 20
MOST_GAMES = 1 << 14  # of one piece
NAME_BYTES = 256  # longest name in a first line
WINDOW_BYTES = 1 << 16  # after a game, in which it is read by other encodings first


@dataclass(frozen=True)
class Piece:
    """Whole games and the bytes between them."""

    offset: int  # of ``payload`` in the file
    payload: bytes  # first byte of the first game to last byte of the last; empty without games
    starts: npt.NDArray[np.int64]  # in ``payload``, int64
    ends: npt.NDArray[np.int64]  # in ``payload``, int64
    endings: npt.NDArray[np.uint8]  # uint8, outofcore.domains.go.sgf.scan.Ending
    stray: int  # non-blank bytes outside games since the previous piece
    name: bytes  # the stream's first line, if it is not SGF and precedes the first game alone
    trees: Mapping[int, bytes] = field(default_factory=dict)  # the whole tree of each game that is only part of one
    codecs: Mapping[int, str] = field(default_factory=dict)  # of the games whose brackets plain bytes do not show
    path: str = ""  # of the file, archives counting as folders

    def some(self, first: int, last: int) -> Piece:
        """The games from ``first`` to before ``last``; bytes outside games are counted with the first of all."""
        starts, ends = self.starts[first:last], self.ends[first:last]
        begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        return replace(
            self,
            payload=self.payload[begin:end],
            starts=starts - begin,
            ends=ends - begin,
            endings=self.endings[first:last],
            stray=0 if first else self.stray,
            trees={game - first: tree for game, tree in self.trees.items() if first <= game < last},
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
    buffer, base, before, stray = b"", 0, NEWLINE, 0
    skipping = np.zeros(2, np.int64)
    head: bytes | None = b""  # text before the first game
    tree = (0, b"")  # the last that was not taken for one game, and where it begins
    while True:
        more = read(block)
        buffer += more
        while buffer:
            piece, consumed, passed, again = _piece(buffer, before, longest, skipping, final=not more)
            stray += passed
            if head is not None:
                outside = consumed if piece is None else piece.offset
                head = (head + buffer[:outside])[: 4 * NAME_BYTES]
            if piece is not None:
                name = b"" if head is None else _name(head)
                trees, tree = _trees(buffer, base, piece, longest, tree)
                begin = offset + raw_size(buffer[: piece.offset], of_file)
                yield replace(piece, offset=begin, stray=stray, name=name, trees=trees)
                head, stray = None, 0
            if consumed:
                before = buffer[consumed - 1]
            offset += raw_size(buffer[:consumed], of_file)
            base, buffer = base + consumed, buffer[consumed:]
            if not again:
                break
        if not more:
            break
    if stray or head is not None:
        yield replace(NOTHING, offset=offset, stray=stray)


def _piece(
    buffer: bytes, before: int, longest: int, skipping: npt.NDArray[np.int64], *, final: bool
) -> tuple[Piece | None, int, int, bool]:
    """The next games, the bytes done, the stray ones among them, and whether the rest of ``held`` has more games."""
    found = Found(np.empty(MOST_GAMES, np.int64), np.empty(MOST_GAMES, np.int64), np.empty(MOST_GAMES, np.uint8))
    data: npt.NDArray[Any] = np.frombuffer(buffer, np.uint8)
    state = skipping.copy()
    count, consumed, stray = find_games(data, before, final, longest, skipping, found)
    again = count == MOST_GAMES
    codecs: dict[int, str] = {}
    if count and not encoding.is_certain(buffer[found.starts[0] : found.ends[count - 1]]):
        for number in range(count):
            start, end = int(found.starts[number]), int(found.ends[number])
            reading = _by_encoding(buffer, start, end, int(found.endings[number]), longest, final=final)
            if reading is not None and reading[1] == end:
                codecs[number], _, found.endings[number] = reading
                continue
            # The games from here on are not those of plain bytes: they are found again after this one.
            before_it = Found(*(np.empty_like(values[:number]) for values in found))  # type: ignore[arg-type]
            _, consumed, stray = find_games(data, before, final, longest, state, before_it)
            count, again = number, reading is not None
            skipping[:] = 0
            if reading is not None:
                codecs[number], found.ends[number], found.endings[number] = reading
                count, consumed = number + 1, reading[1]
            break
    if not count:
        return None, consumed, stray, again
    starts, ends, endings = found.starts[:count], found.ends[:count], found.endings[:count].copy()
    first, last = int(starts[0]), int(ends[-1])
    codecs = {number: codec for number, codec in codecs.items() if codec}
    return (
        Piece(first, buffer[first:last], starts - first, ends - first, endings, stray, b"", codecs=codecs),
        consumed,
        stray,
        again,
    )


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
            if encoding.begins_in(buffer[start:], codec):
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
    """End and ending of the game at ``start`` in an encoding; None if it continues after ``held``.

    It mostly ends where plain bytes do, at ``end``.
    """
    first = [end] if encoding.is_by_character(buffer[start:end]) else []
    for stop in (*first, min(end + WINDOW_BYTES, len(buffer)), len(buffer)):
        view = np.frombuffer(encoding.masked(buffer[start:stop], codec), np.uint8)
        room = Found(np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.uint8))
        whole = final and stop == len(buffer)
        count, _, _ = find_games(view, NEWLINE, whole, longest, np.zeros(2, np.int64), room)
        if count and room.starts[0] == 0:
            return start + int(room.ends[0]), int(room.endings[0])
        if stop == len(buffer):
            break
    return None


def _trees(
    buffer: bytes, base: int, piece: Piece, longest: int, last: tuple[int, bytes]
) -> tuple[dict[int, bytes], tuple[int, bytes]]:
    """The trees of games that are only part of one, and the last such tree with its offset in the stream."""
    trees: dict[int, bytes] = {}
    ends = np.full(len(piece.starts), -1, np.int64)
    if (piece.endings == Ending.OPEN).any():
        data = np.frombuffer(buffer, np.uint8)
        find_trees(data, longest, piece.starts + piece.offset, piece.endings, ends)
    elif base + piece.offset >= last[0] + len(last[1]):
        return trees, last
    for number, (start, end) in enumerate(zip((piece.starts + piece.offset).tolist(), ends.tolist(), strict=True)):
        if end >= 0 and base + start >= last[0] + len(last[1]):
            last = base + start, buffer[start:end]
        if base + start < last[0] + len(last[1]):
            trees[number] = last[1]
    return trees, last


def _name(head: bytes) -> bytes:
    lines = [line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").splitlines()]
    lines = [line for line in lines if line]
    return lines[0] if len(lines) == 1 and len(lines[0]) <= NAME_BYTES else b""
