"""Cut a byte stream into pieces of whole games."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.sgf.scan import NEWLINE, find_games

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


def cut(read: Callable[[int], bytes], longest: int, block: int = BLOCK_BYTES) -> Iterator[Piece]:
    """Cut a stream into pieces of whole games, about ``block`` bytes each.

    The games do not depend on ``block``. A piece without games comes last if bytes follow the last game or there is
    none. ``read(n)`` returns at most n bytes, none at the end. At most ``longest`` (bytes per game) plus a block are
    held.
    """
    held, base, before, stray = b"", 0, NEWLINE, 0
    skipping = np.zeros(2, np.int64)
    head: bytes | None = b""  # text before the first game
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
                yield Piece(base + piece.offset, piece.payload, piece.starts, piece.ends, piece.endings, stray, name)
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
    starts, ends = np.empty(MOST_GAMES, np.int64), np.empty(MOST_GAMES, np.int64)
    endings = np.empty(MOST_GAMES, np.uint8)
    data: npt.NDArray[Any] = np.frombuffer(held, np.uint8)
    count, consumed, stray = find_games(data, before, final, longest, skipping, starts, ends, endings)
    if not count:
        return None, consumed, stray
    first, last = int(starts[0]), int(ends[count - 1])
    piece = Piece(
        first,
        held[first:last],
        starts[:count] - first,
        ends[:count] - first,
        endings[:count].copy(),
        stray,
        b"",
    )
    return piece, consumed, stray


def _name(head: bytes) -> bytes:
    lines = [line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").splitlines()]
    lines = [line for line in lines if line]
    return lines[0] if len(lines) == 1 and len(lines[0]) <= NAME_BYTES else b""
