"""Where games begin and end in bytes, whatever stands between them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from numba import njit

LOOK = 1024  # bytes after a parenthesis in which a game must show itself as one

OPEN, CLOSE, NODE = 40, 41, 59  # ( ) ;
BEGIN_VALUE, ESCAPE, END_VALUE = 91, 92, 93  # [ \ ]
NEWLINE, RETURN = 10, 13

ROOT_IDENTIFIERS = (
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
_ROOTS = np.array(sorted((ord(name[0]) << 8) | ord(name[1]) for name in ROOT_IDENTIFIERS), np.int64)


class Ending(IntEnum):
    """How the bytes of a game end."""

    CLOSED = 0
    """With its last parenthesis."""
    OPEN = 1
    """Without it: the file ends, or another game begins."""
    IN_VALUE = 2
    """Inside a property value that nothing closes."""
    TOO_LONG = 3
    """Not within the bytes that a game may have."""


_CLOSED, _OPEN, _IN_VALUE, _TOO_LONG = (int(ending) for ending in Ending)


@njit(nogil=True, cache=True)
def _past_space(data: npt.NDArray[np.uint8], at: int, stop: int) -> int:
    while at < stop and data[at] <= 32:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _property(data: npt.NDArray[np.uint8], at: int, stop: int) -> tuple[int, int]:
    """Code of the identifier's capitals (two at most count) if a value follows; else 0. And where reading ended."""
    code = 0
    capitals = 0
    while at < stop:
        letter = data[at]
        if 65 <= letter <= 90:
            code = (code << 8) | letter
            capitals += 1
        elif not 97 <= letter <= 122:
            break
        at += 1
    at = _past_space(data, at, stop)
    if at < stop and data[at] == BEGIN_VALUE and capitals > 0:
        return (code if capitals <= 2 else -1), at
    return 0, at


@njit(nogil=True, cache=True)
def _is_root(code: int) -> bool:
    for root in _ROOTS:  # noqa: SIM110 - any() of a generator is nothing that can be compiled
        if root == code:
            return True
    return False


@njit(nogil=True, cache=True)
def _begins(data: npt.NDArray[np.uint8], at: int, final: bool, where: int) -> int:  # noqa: FBT001
    """Whether a game begins here: 1 yes, 0 no, -1 more bytes are needed.

    ``where`` is 0 outside games (any tree of nodes is a game, and what looks like the rest of a root is one as well),
    1 in a game and 2 in a value of one: there a new game must show a root property, as no variation does.
    """
    stop = min(len(data), at + LOOK)
    rest = _past_space(data, at + 1, stop) if data[at] == OPEN else at
    node = rest < stop and data[rest] == NODE
    if node and where == 0 and data[at] == OPEN:
        return 1
    first = _past_space(data, rest + 1, stop) if node else rest
    code, end = _property(data, first, stop)
    answer = 0
    if code and end < stop:
        if where == 0 and data[at] == OPEN:
            answer = 1
        elif _is_root(code) and (where == 0 or node):
            answer = 1
            if where == 2:  # the text of a value may quote SGF, its brackets escaped
                while end < stop and data[end] != END_VALUE:
                    end += 1
                answer = 1 if end < stop and data[end - 1] != ESCAPE else 0
    if end >= stop and stop == len(data) and not final:
        return -1
    return answer


@njit(nogil=True, cache=True)
def find_games(
    data: npt.NDArray[np.uint8],
    before: int,
    final: bool,  # noqa: FBT001
    longest: int,
    skipping: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    endings: npt.NDArray[np.uint8],
) -> tuple[int, int, int]:
    """Mark the games in ``data``, which begins outside of one, or inside one that was found too long.

    Parameters
    ----------
    data
        Bytes, uint8.
    before
        The byte before them; a newline where they begin the stream.
    final
        Whether nothing follows.
    longest
        Bytes that a game may have; of a longer one only the first so many are marked, the rest is passed over.
    skipping
        Depth of parentheses in the game that is being passed over (0: none), and 1 inside a value; updated.
    starts, ends, endings
        Filled with the games; their length bounds how many are marked.

    Returns
    -------
    Number of games, bytes that need not be seen again (all where ``final``), bytes outside games without spaces.
    """
    count = 0
    stray = 0
    at = 0
    while at < len(data):
        start = at
        depth, value = skipping[0], skipping[1] == 1
        skip = depth > 0
        if not skip:
            byte = data[at]
            line = (data[at - 1] if at else before) in (NEWLINE, RETURN)
            answer = 0
            if byte in (OPEN, NODE) or (line and 65 <= byte <= 90):
                answer = _begins(data, at, final, 0)
            if answer < 0 or (answer and count == len(starts)):
                return count, at, stray
            if not answer:
                stray += byte > 32
                at += 1
                continue
            depth = 0 if byte == OPEN else 1
        end = -1
        ending = _OPEN
        while at < len(data):
            if not skip and at - start >= longest:
                starts[count], ends[count], endings[count] = start, at, _TOO_LONG
                count += 1
                skip = True
            byte = data[at]
            line = (data[at - 1] if at else before) in (NEWLINE, RETURN)
            if byte == OPEN and (skip or at > start) and (line or not value):
                answer = _begins(data, at, final, 2 if value else 1)
                if answer > 0:
                    end, ending = at, _IN_VALUE if value else _OPEN
                    break
                if answer < 0:
                    end = -2
                    break
            if value:
                if byte == ESCAPE:
                    if at + 1 == len(data) and not final:
                        end = -2
                        break
                    at += 1
                elif byte == END_VALUE:
                    value = False
            elif byte == BEGIN_VALUE:
                value = True
            elif byte == OPEN:
                depth += 1
            elif byte == CLOSE:
                depth -= 1
                if depth == 0:
                    end, ending = at + 1, _CLOSED
                    break
            at += 1
        if end < 0 and not final:
            if not skip:
                return count, start, stray
            skipping[0], skipping[1] = depth, 1 if value else 0
            return count, at, stray
        if end < 0:
            end, ending = len(data), _IN_VALUE if value else _OPEN
        skipping[0] = skipping[1] = 0
        if not skip:
            starts[count], ends[count], endings[count] = start, end, ending
            count += 1
        at = end
    return count, len(data), stray
