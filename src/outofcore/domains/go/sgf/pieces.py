"""Cut a byte stream into pieces of whole games."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.sgf.scan import NEWLINE, Ending, Found, find_games, find_trees

BLOCK_BYTES = 1 << 20
MOST_GAMES = 1 << 14  # of one piece
NAME_BYTES = 256  # longest name in a first line


@dataclass(frozen=True)
class Piece:
    """Whole games and the bytes between them."""

    offset: int  # of ``payload`` in the stream
    payload: bytes  # first byte of the first game to last byte of the last; empty without games
    starts: npt.NDArray[np.int64]  # in ``payload``, int64
    ends: npt.NDArray[np.int64]  # in ``payload``, int64
    endings: npt.NDArray[np.uint8]  # uint8, outofcore.domains.go.sgf.scan.Ending
    stray: int  # non-blank bytes outside games since the previous piece
    name: bytes  # the stream's first line, if it is not SGF and precedes the first game alone
    trees: Mapping[int, bytes] = field(default_factory=dict)  # the whole tree of each game that is only part of one


def cut(read: Callable[[int], bytes], longest: int, block: int = BLOCK_BYTES) -> Iterator[Piece]:
    """Cut a stream into pieces of whole games, about ``block`` bytes each.

    The games do not depend on ``block``. A piece without games comes last if bytes follow the last game or there is
    none. ``read(n)`` returns at most n bytes, none at the end. At most ``longest`` (bytes per game) plus a block are
    held.
    """
    held, base, before, stray = b"", 0, NEWLINE, 0
    skipping = np.zeros(2, np.int64)
    head: bytes | None = b""  # text before the first game
    tree = (0, b"")  # the last that was not taken for one game, and where it begins
    while True:
        more = read(block)
        held += more
        while held:
            piece, consumed, passed = _piece(held, before, longest, skipping, final=not more)
            stray += passed
            if head is not None:
                outside = consumed if piece is None else piece.offset
                head = (head + held[:outside])[: 4 * NAME_BYTES]
            if piece is not None:
                name = b"" if head is None else _name(head)
                trees, tree = _trees(held, base, piece, longest, tree)
                yield replace(piece, offset=base + piece.offset, stray=stray, name=name, trees=trees)
                head, stray = None, 0
            if consumed:
                before = held[consumed - 1]
            base, held = base + consumed, held[consumed:]
            if piece is None or len(piece.starts) < MOST_GAMES:
                break
        if not more:
            break
    if stray or head is not None:
        none = np.zeros(0, np.int64)
        yield Piece(base, b"", none, none, none.astype(np.uint8), stray, b"")


def _piece(
    held: bytes, before: int, longest: int, skipping: npt.NDArray[np.int64], *, final: bool
) -> tuple[Piece | None, int, int]:
    found = Found(np.empty(MOST_GAMES, np.int64), np.empty(MOST_GAMES, np.int64), np.empty(MOST_GAMES, np.uint8))
    data: npt.NDArray[Any] = np.frombuffer(held, np.uint8)
    count, consumed, stray = find_games(data, before, final, longest, skipping, found)
    starts, ends, endings = found.starts[:count], found.ends[:count], found.endings[:count]
    if not count:
        return None, consumed, stray
    first, last = int(starts[0]), int(ends[count - 1])
    piece = Piece(first, held[first:last], starts - first, ends - first, endings.copy(), stray, b"")
    return piece, consumed, stray


def _trees(
    held: bytes, base: int, piece: Piece, longest: int, last: tuple[int, bytes]
) -> tuple[dict[int, bytes], tuple[int, bytes]]:
    """The trees of games that are only part of one, and the last such tree with its offset in the stream."""
    trees: dict[int, bytes] = {}
    ends = np.full(len(piece.starts), -1, np.int64)
    if (piece.endings == Ending.OPEN).any():
        data = np.frombuffer(held, np.uint8)
        find_trees(data, longest, piece.starts + piece.offset, piece.endings, ends)
    elif base + piece.offset >= last[0] + len(last[1]):
        return trees, last
    for number, (start, end) in enumerate(zip((piece.starts + piece.offset).tolist(), ends.tolist(), strict=True)):
        if end >= 0 and base + start >= last[0] + len(last[1]):
            last = base + start, held[start:end]
        if base + start < last[0] + len(last[1]):
            trees[number] = last[1]
    return trees, last


def _name(head: bytes) -> bytes:
    lines = [line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").splitlines()]
    lines = [line for line in lines if line]
    return lines[0] if len(lines) == 1 and len(lines[0]) <= NAME_BYTES else b""
