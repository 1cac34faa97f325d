"""Find where games begin and end in bytes with arbitrary text between them.

A game ends with the parenthesis that closes its first one. What looks like a root inside is a variation, unless the
parentheses do not balance: only then does a new line that begins like a root start the next game.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.system.compilation import inner_kernel, njit, variable

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

LOOK = 1024  # bytes after a parenthesis within which a game must be recognisable

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
_GAME_NAME = (ord("G") << 8) | ord("N")  # used by programs to name variations
_DEPTHS = 1 << 14  # most parentheses tracked individually if unbalanced


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


_CLOSED, _OPEN, _IN_VALUE, _TOO_LONG = (int(ending) for ending in Ending)
_CUT_OFF = -1  # more bytes are needed


class Found(NamedTuple):
    """Room for the games of a piece, in order of their starts."""

    starts: Ints
    ends: Ints
    endings: Bytes  # Ending


class _Nesting(NamedTuple):
    """Where reading is, and the parentheses that are still open there."""

    state: Ints  # position, the unclosed parentheses before it, and 1 inside a value
    opened: Ints  # the unclosed parentheses, outermost first
    roots: Ints  # (parentheses, 2): first of the last trees in each that all look like roots (-1: none), their number


@inner_kernel
def past_space(data: Bytes, at: int, stop: int) -> int:
    """The first byte from ``at`` on that is no space."""
    while at < stop and data[at] <= 32:
        at += 1
    return at


@inner_kernel
def _property(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Code of the identifier's capitals (at most two) if a value follows, else 0; and the end of reading."""
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
    at = past_space(data, at, stop)
    if at < stop and data[at] == BEGIN_VALUE and capitals > 0:
        return (code if capitals <= 2 else -1), at
    return 0, at


@inner_kernel
def _is_root(code: int) -> bool:
    for root in _ROOTS:  # noqa: SIM110 - any() of a generator cannot be compiled
        if root == code:
            return True
    return False


@inner_kernel
def _begins(data: Bytes, at: int, final: bool) -> int:  # noqa: FBT001
    """Whether a top-level game begins here: 1 yes, 0 no, -1 more bytes are needed."""
    stop = min(len(data), at + LOOK)
    rest = past_space(data, at + 1, stop) if data[at] == OPEN else at
    node = rest < stop and data[rest] == NODE
    if node and data[at] == OPEN:
        return 1
    first = past_space(data, rest + 1, stop) if node else rest
    code, end = _property(data, first, stop)
    if end >= stop and stop == len(data) and not final:
        return _CUT_OFF
    return 1 if code and end < stop and (data[at] == OPEN or _is_root(code)) else 0


@inner_kernel
def _looks_like_root(data: Bytes, at: int, final: bool, in_value: bool) -> int:  # noqa: FBT001
    """Whether a tree begins here with a root property: 1 yes, 0 no, -1 more bytes are needed."""
    stop = min(len(data), at + LOOK)
    end = node = past_space(data, at + 1, stop)
    answer = 0
    if node < stop and data[node] == NODE:
        code, end = _property(data, past_space(data, node + 1, stop), stop)
        if end < stop and _is_root(code) and code != _GAME_NAME:
            answer = 1
            if in_value:  # the text of a value may quote SGF, its brackets escaped
                while end < stop and data[end] != END_VALUE:
                    end += 1
                answer = 1 if end < stop and data[end - 1] != ESCAPE else 0
    return _CUT_OFF if end >= stop and stop == len(data) and not final else answer


@inner_kernel
def _read_on(data: Bytes, before: int, final: bool, limit: int, floor: int, nesting: _Nesting) -> int:  # noqa: FBT001
    """Read until ``floor`` unclosed parentheses remain, or to ``limit``; returns how it ended."""
    state, opened, roots = nesting.state, nesting.opened, nesting.roots
    at, depth, value = state[0], state[1], state[2] == 1
    ending = _OPEN
    while at < limit:
        byte = data[at]
        root = 0
        if byte == OPEN and (data[at - 1] if at else before) in (NEWLINE, RETURN):
            root = _looks_like_root(data, at, final, value)
            if root < 0 or (root and value):
                ending = _IN_VALUE if root > 0 else _CUT_OFF
                break
        if value:
            if byte == ESCAPE:
                if at + 1 == len(data) and not final:
                    ending = _CUT_OFF
                    break
                at += 1
            elif byte == END_VALUE:
                value = False
        elif byte == BEGIN_VALUE:
            value = True
        elif byte == OPEN:
            if 0 < depth <= _DEPTHS:
                if root == 0 or roots[depth - 1, 1] == 0:
                    roots[depth - 1, 0] = at if root else -1
                    roots[depth - 1, 1] = 0
                roots[depth - 1, 1] += root
            if depth < _DEPTHS:
                opened[depth], roots[depth, 0], roots[depth, 1] = at, -1, 0
            depth += 1
        elif byte == CLOSE:
            depth -= 1
            if depth == floor:
                at += 1
                ending = _CLOSED
                break
        at += 1
    state[0], state[1], state[2] = min(at, len(data)), depth, 1 if value else 0
    return ending


@inner_kernel
def _closing(data: Bytes, at: int, stop: int) -> int:
    """End of a tree; -1 if it is not closed before ``stop``."""
    depth = 0
    value = False
    while at < stop:
        byte = data[at]
        if value:
            at += byte == ESCAPE
            value = byte != END_VALUE
        elif byte == BEGIN_VALUE:
            value = True
        elif byte == OPEN:
            depth += 1
        elif byte == CLOSE:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return -1


@inner_kernel
def _next_root(nesting: _Nesting, floor: int, least: int) -> int:
    """Start of the next game if the one at ``floor`` lacks a parenthesis; -1 if too few trees indicate it."""
    first, seen = -1, 0
    for level in range(floor, min(nesting.state[1], _DEPTHS)):
        if first < 0:
            first = nesting.roots[level, 0]
        seen += nesting.roots[level, 1]
    return first if seen >= least else -1


@njit(nogil=True, cache=True)
def find_games(
    data: Bytes,
    before: int,
    final: bool,  # noqa: FBT001
    longest: int,
    skipping: Ints,
    found: Found,
) -> tuple[int, int, int]:
    """Mark the games in ``data``, which starts outside a game or inside one being skipped as too long.

    ``before`` is the preceding byte (a newline at the start of the stream), ``final`` whether nothing follows. Only the
    first ``longest`` bytes of a longer game are marked. ``skipping`` (updated) is the parenthesis depth in a skipped
    game (0: none) and 1 inside a value. ``found`` is filled up to its length. Returns the number of games, the bytes
    that need not be seen again (all if ``final``), and the non-blank bytes outside games.
    """
    count = 0
    stray = 0
    at = floor = variable(0)
    state = np.array([0, skipping[0], skipping[1]])
    opened, roots = np.zeros(_DEPTHS, np.int64), np.zeros((_DEPTHS, 2), np.int64)
    nesting = _Nesting(state, opened, roots)
    starts, ends, endings = found.starts, found.ends, found.endings
    passing = skipping[0] > 0
    skipping[:] = 0
    while at < len(data):
        if passing:
            ending = _read_on(data, before, final, len(data), floor, nesting)
            at = state[0]
            passing = ending in (_OPEN, _CUT_OFF)
            if passing:
                skipping[0], skipping[1] = state[1] - floor, state[2]
                break
            continue
        start = at
        byte = data[at]
        line = (data[at - 1] if at else before) in (NEWLINE, RETURN)
        answer = 0
        if byte in (OPEN, NODE) or (line and 65 <= byte <= 90):
            answer = _begins(data, at, final)
        if answer < 0 or (answer and count == len(starts)):
            break
        if not answer:
            stray += byte > 32
            at += 1
            continue
        end, ending, floor = -1, _CLOSED, -1
        if byte == OPEN and start < state[0]:  # read before, in a game that is not balanced
            known = min(state[1], _DEPTHS)
            level = int(np.searchsorted(opened[:known], start))
            if level < known and opened[level] == start:
                floor = level if state[1] <= _DEPTHS or level < _DEPTHS // 2 else -1
            else:
                end = _closing(data, start, state[0])
        if end < 0:
            if floor < 0:
                floor = 0
                state[0], state[1], state[2] = start, 0, 0
                if byte != OPEN:
                    opened[0], roots[0, 0], roots[0, 1] = start, -1, 0
                    state[1] = 1
            ending = _read_on(data, before, final, min(len(data), start + longest), floor, nesting)
            end = state[0]
        too_long = ending == _OPEN and start + longest < len(data)
        if ending == _CUT_OFF or (ending == _OPEN and not too_long and not final):
            break
        if ending != _CLOSED:
            following = _next_root(nesting, floor, 2 if too_long else 1)
            if following >= 0:
                end, ending = following, _OPEN
            elif too_long:
                end, ending, passing = start + longest, _TOO_LONG, True
            elif state[2]:
                ending = _IN_VALUE
        starts[count], ends[count], endings[count] = start, end, ending
        count += 1
        at = end
    return count, at, stray


@njit(nogil=True, cache=True)
def find_trees(data: Bytes, longest: int, starts: Ints, endings: Bytes, ends: Ints) -> None:
    """Mark where the parentheses of each unfinished game balance, whatever looks like a root inside.

    ``ends`` is filled with -1 for other games, and where they do not balance within ``longest`` bytes or before a value
    that is never closed. This checks :func:`find_games`, which marks no game as :attr:`Ending.OPEN` that balances: it
    must not use what that has noted, and counts the parentheses of every byte again.
    """
    ends[:] = -1
    around, depths = np.empty((2, len(starts)), np.int64)  # unfinished games around this byte, parentheses before each
    count, depth, number = 0, 0, 0
    value = False
    at, stop = len(data), 0
    for place in range(len(starts)):
        if endings[place] == _OPEN:
            at, stop = min(at, starts[place]), min(starts[place] + longest, len(data))
    while at < stop:
        while number < len(starts) and starts[number] < at:
            number += 1
        byte = data[at]
        begins = number < len(starts) and starts[number] == at
        root = byte == OPEN and value and at > 0 and data[at - 1] in (NEWLINE, RETURN)
        if value and (begins or (root and _looks_like_root(data, at, final=True, in_value=True) > 0)):
            count, value = 0, False
        if begins and endings[number] == _OPEN:
            around[count], depths[count] = number, depth
            count += 1
            depth += byte != OPEN
        if value:
            at += byte == ESCAPE
            value = byte != END_VALUE
        elif byte == BEGIN_VALUE:
            value = True
        elif byte == OPEN:
            depth += 1
        elif byte == CLOSE:
            depth -= 1
            while count and depths[count - 1] >= depth:
                count -= 1
                if at + 1 - starts[around[count]] <= longest:
                    ends[around[count]] = at + 1
        at += 1
