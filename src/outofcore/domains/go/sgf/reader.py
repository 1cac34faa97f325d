"""Read the main line of SGF games, FF[1] to FF[4]: moves, setup stones, game properties, and how games open."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.columns import PROPERTIES
from outofcore.ndarrays import Bytes, Ints
from outofcore.system.compilation import inner_kernel, kernel, variable

OPEN, CLOSE, NODE, BEGIN_VALUE, ESCAPE, END_VALUE = b"();[\\]"
BLACK, WHITE, ADD_BLACK, ADD_WHITE, ADD_EMPTY = 0, 1, 2, 3, 4
_EVENT_CODES = np.array([66, 87, (65 << 8) | 66, (65 << 8) | 87, (65 << 8) | 69], np.int64)  # B, W, AB, AW, AE
NO_POINT = 255


OPENING = ("black_stones", "other_setup", "node", "leading_black", "first_colour")
"""Facts about the opening of a game.

Points of black setup before the first move; of other setup; node of the first setup (-1 if none); Black's moves before
White's first; colour of the first move (-1 if none).
"""


class ReadResult(IntEnum):
    """Result of reading a game."""

    READ = 0
    UNTERMINATED_VALUE = 1
    BAD_POINT = 2
    AMBIGUOUS_NODE = 3
    STRAY_TEXT = 4


class MainLines(NamedTuple):
    """Main lines of the games of a unit as written, not yet played."""

    spans: npt.NDArray[np.int32]  # (games, properties, 2): [first, end) of each property's first value, or -1
    first: Ints  # (games + 1,): first event
    kind: Bytes  # (events,): BLACK, WHITE (moves), ADD_BLACK, ADD_WHITE, ADD_EMPTY (setup)
    # (events, 4): column and row from the top left, opposite corner of a rectangle; 255: pass
    points: Bytes
    node: npt.NDArray[np.int32]  # (events,): node number in its game, the root is 0
    status: Bytes  # (games,): ReadResult
    trouble: Ints  # (games,): byte in the unit at which reading failed
    openings: Ints  # (games, 5): OPENING


def read_main_lines(payload: bytes | bytearray, starts: Ints, ends: Ints) -> MainLines:
    """Read the main line of every game: at each branch its first variation."""
    most = payload.count(b"[")
    games = MainLines(
        spans=np.full((len(starts), len(PROPERTIES), 2), -1, np.int32),
        first=np.zeros(len(starts) + 1, np.int64),
        kind=np.empty(most, np.uint8),
        points=np.empty((most, 4), np.uint8),
        node=np.empty(most, np.int32),
        status=np.zeros(len(starts), np.uint8),
        trouble=np.zeros(len(starts), np.int64),
        openings=np.zeros((len(starts), len(OPENING)), np.int64),
    )
    # An argument, not a constant of the compiled code, which is kept for as long as its own file does not change.
    codes = np.array([(ord(name[0]) << 8) | ord(name[1]) for name in PROPERTIES], np.int64)
    _read(np.frombuffer(payload, np.uint8), starts, ends, codes, games)
    _find_openings(games)
    return games


@inner_kernel
def _past_space(data: Bytes, at: int, stop: int) -> int:
    """The first byte from ``at`` on that is no space."""
    while at < stop and data[at] <= 32:
        at += 1
    return at


@inner_kernel
def _coordinate(letter: int) -> int:
    """0 to 51 for a letter, else -1."""
    if 97 <= letter <= 122:
        return letter - 97
    if 65 <= letter <= 90:
        return letter - 65 + 26
    return -1


@inner_kernel
def _point(data: Bytes, begin: int, end: int, kind: int, point: Bytes) -> bool:
    """Parse a point, a pass (of a move) or a rectangle (of setup); returns whether it is valid."""
    setup = kind >= ADD_BLACK
    begin = _past_space(data, begin, end)
    while begin < end and data[end - 1] <= 32:
        end -= 1
    size = end - begin
    if size == 0 and not setup:
        point[:] = NO_POINT
        return True
    if size != 2 and not (setup and size == 5 and data[begin + 2] == 58):
        return False
    for corner in range(2):
        at = begin + (3 * corner if size == 5 else 0)
        column, row = _coordinate(data[at]), _coordinate(data[at + 1])
        if column < 0 or row < 0:
            return False
        point[2 * corner], point[2 * corner + 1] = column, row
    return True


@kernel
def _read(data: Bytes, starts: Ints, ends: Ints, codes: Ints, games: MainLines) -> None:
    """Fill the arrays of ``games``.

    Unexpected text instead of an identifier is usually the rest of a comment with an unescaped bracket. It is skipped,
    but a move or setup after the comment in the same node may be part of it, so such a game is rejected.
    """
    spans, first, kinds, points, nodes = games.spans, games.first, games.kind, games.points, games.node
    status, trouble = games.status, games.trouble
    event = 0
    for game in range(len(starts)):
        at, end = starts[game], ends[game]
        node = -1
        black = white = stray = bracket = doubtful = False
        while at < end and status[game] == 0:
            byte = data[at]
            if byte == CLOSE:
                break
            if byte == NODE:
                node += 1
                black = white = stray = bracket = doubtful = False
                at += 1
            elif byte == OPEN or byte <= 32:
                at += 1
            elif byte == BEGIN_VALUE or 65 <= byte <= 90 or 97 <= byte <= 122:
                code = 0
                capitals = 0
                while at < end and (65 <= data[at] <= 90 or 97 <= data[at] <= 122):
                    if data[at] <= 90:
                        code = (code << 8) | data[at] if capitals < 2 else 0
                        capitals += 1
                    at += 1
                at = _past_space(data, at, end)
                if at == end or data[at] != BEGIN_VALUE:
                    stray = True
                    if doubtful:
                        status[game], trouble[game] = ReadResult.STRAY_TEXT, at
                    continue
                stray = stray or capitals == 0
                if capitals > 2:
                    code = 0
                kind = variable(-1)
                for known in range(len(_EVENT_CODES)):
                    if _EVENT_CODES[known] == code:
                        kind = known
                if kind >= 0 and stray:
                    status[game], trouble[game] = ReadResult.STRAY_TEXT, at
                doubtful = doubtful or (kind >= 0 and bracket)
                while at < end and data[at] == BEGIN_VALUE and status[game] == 0:
                    begin = at + 1
                    at = begin
                    while at < end and data[at] != END_VALUE:
                        bracket = bracket or data[at] == BEGIN_VALUE
                        at += 2 if data[at] == ESCAPE else 1
                    if at >= end:
                        status[game], trouble[game] = ReadResult.UNTERMINATED_VALUE, begin
                        break
                    if kind >= 0:
                        if (kind == BLACK and black) or (kind == WHITE and white) or (kind >= 2 and (black or white)):
                            status[game], trouble[game] = ReadResult.AMBIGUOUS_NODE, begin
                        elif kind >= ADD_BLACK and _past_space(data, begin, at) == at:
                            pass  # AB[] sets up nothing
                        elif _point(data, begin, at, kind, points[event]):
                            kinds[event], nodes[event] = kind, max(node, 0)
                            event += 1
                        else:
                            status[game], trouble[game] = ReadResult.BAD_POINT, begin
                        black = black or kind == BLACK
                        white = white or kind == WHITE
                    elif code:
                        for name in range(len(codes)):
                            if codes[name] == code and spans[game, name, 0] < 0:
                                spans[game, name, 0], spans[game, name, 1] = begin, at
                    at = _past_space(data, at + 1, end)
            else:
                stray = stray or byte == END_VALUE or byte > 126
                if stray and doubtful:
                    status[game], trouble[game] = ReadResult.STRAY_TEXT, at
                at += 1
        first[game + 1] = event


@kernel
def _find_openings(games: MainLines) -> None:
    first, kinds, points, nodes, facts = games.first, games.kind, games.points, games.node, games.openings
    for game in range(len(facts)):
        facts[game, 2] = facts[game, 4] = -1
        for event in range(first[game], first[game + 1]):
            kind = kinds[event]
            if kind == WHITE:
                if facts[game, 4] < 0:
                    facts[game, 4] = WHITE
                break
            if kind == BLACK:
                facts[game, 3] += 1
                facts[game, 4] = BLACK
            elif facts[game, 3] == 0:
                left, top, right, bottom = points[event]
                columns = abs(np.int64(right) - np.int64(left)) + 1  # uint8 would wrap around
                rows = abs(np.int64(bottom) - np.int64(top)) + 1
                facts[game, 0 if kind == ADD_BLACK else 1] += columns * rows
                if facts[game, 2] < 0:
                    facts[game, 2] = nodes[event]
