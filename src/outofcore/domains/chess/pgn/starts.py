"""Where games begin.

A game begins

* at a tag, once moves or a result have been read since the last tag;
* at a tag, if it repeats the first tag of the section, is a second ``Event``, or is an ``Event`` after a remark
  (games without moves);
* at a token after a result, or at a line that begins with ``1.`` after moves (games without tags);
* at a line that begins with ``[Event "``, even inside a comment that was never closed: one bad game costs one game.

Empty lines do not end games: some programs put them among the tags or into the moves. Nothing before a start affects
how the text after it is read, so a file may be cut at any start.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from outofcore.domains.chess.pgn.lexis import (
    BLANK,
    BYTE_ORDER_MARK,
    KIND,
    LINE_END,
    NO_RESULT,
    TOKEN,
    Bytes,
    has_letter,
    is_byte_order_mark,
    is_event,
    is_quoted_event,
    line_end,
    nag_end,
    result_code,
    tag_name_end,
    tag_value,
    token_end,
)

OUTSIDE, IN_TAGS, IN_MOVES, OVER = 0, 1, 2, 3

LOOKAHEAD = 1024
"""A start this far from the end of the data is certain, whatever follows."""


@njit(nogil=True, cache=True)
def _same(data: Bytes, i: int, j: int, k: int, end: int) -> bool:
    """Whether ``data[i:j]`` equals ``data[k:end]``."""
    if j - i != end - k:
        return False
    for step in range(j - i):  # noqa: SIM110 - compiled code has no generators
        if data[i + step] != data[k + step]:
            return False
    return True


@njit(nogil=True, cache=True)
def _is_word(data: Bytes, i: int, j: int) -> bool:
    """Whether a token can be a move, number or word: has a letter, a digit, or characters of null moves.

    Excludes what would be a tag or an escape at the beginning of a line.
    """
    if data[i] == ord("[") or data[i] == ord("%"):
        return False
    for k in range(i, j):
        c = data[k]
        if c >= ord("@") and not ord("[") <= c <= ord("`") and not ord("{") <= c < 0x80:
            return True
        if ord("0") <= c <= ord("9") or (c == ord("-") and k + 1 < j and data[k + 1] == ord("-")):
            return True
    return False


@njit(nogil=True, cache=True)
def _is_move_one(data: Bytes, i: int) -> bool:
    """Whether ``1.``, not ``1...``, is at ``i``, with or without a blank before the dots."""
    if i + 2 >= data.size or data[i] != ord("1") or data[i + 1] != ord("."):
        return False
    j = i + 2
    if KIND[data[j]] == BLANK:
        j += 1
    return j < data.size and data[j] != ord(".")


def game_starts(data: Bytes) -> npt.NDArray[np.int64]:
    """Offsets at which games begin, in PGN from the beginning of a file or of a game, (n,) uint8."""
    starts = np.empty(64 + data.size // 256, np.int64)
    count = _find_starts(data, starts)
    if count > starts.size:  # games shorter than any real one
        starts = np.empty(count, np.int64)
        _find_starts(data, starts)
    return starts[:count]


@njit(nogil=True, cache=True)
def _find_starts(data: Bytes, starts: npt.NDArray[np.int64]) -> int:
    """Write as many starts as there is room for, and return their number."""
    count = 0
    phase = OUTSIDE
    in_comment = False
    at_line_start = True
    depth = 0
    moved = False
    event_seen, remark_seen = False, False
    first_name, first_name_end = 0, 0
    i = 0
    while i < data.size:
        c = data[i]
        kind = KIND[c]
        if in_comment:
            if not (at_line_start and c == ord("[") and is_quoted_event(data, i)):
                in_comment = c != ord("}")
                at_line_start = kind == LINE_END
                i += 1
                continue
            in_comment = False
        if kind in (LINE_END, BLANK):
            at_line_start = at_line_start or kind == LINE_END
            i += 1
            continue
        plain = kind == TOKEN and c < 0x80 and c != ord("[") and c != ord("%")
        if plain and moved and phase == IN_MOVES and depth == 0:
            j = token_end(data, i)
            if c > ord("1") or not (at_line_start or j - i == 3 or j - i == 7):
                at_line_start = False  # most tokens neither begin nor end a game
                i = j
                continue
        if c == BYTE_ORDER_MARK[0] and is_byte_order_mark(data, i):
            i += 3
            continue
        if c == ord(";") or (at_line_start and c == ord("%")):
            remark_seen = True
            i = line_end(data, i)
            continue
        if c == ord("{"):
            in_comment = True
            remark_seen = True
            at_line_start = False
            i += 1
            continue

        is_tag, is_event_tag, name_end, following = False, False, 0, i + 1
        if at_line_start and c == ord("["):
            name_end = tag_name_end(data, i)
            if name_end:
                is_event_tag = is_event(data, i)
                value, _, tag_end = tag_value(data, name_end)
                if value >= 0 or is_event_tag or phase <= IN_TAGS:
                    is_tag = True
                    following = tag_end
        begins = phase == OUTSIDE
        letters = False
        if is_tag:
            if phase == IN_TAGS:
                repeated = _same(data, i + 1, name_end, first_name, first_name_end)
                begins = repeated or (is_event_tag and (event_seen or remark_seen))
            else:
                begins = True
            phase = IN_TAGS
        else:
            before = phase
            phase = max(phase, IN_MOVES)
            if c == ord("("):
                depth += moved  # before the first move there is nothing to vary
            elif c == ord(")"):
                depth -= depth > 0
            elif c == ord("$"):
                following = nag_end(data, i)
            elif c != ord("}"):
                following = token_end(data, i)
                if depth == 0:
                    result = result_code(data, i, following)
                    if before == OVER:
                        if result == NO_RESULT and _is_word(data, i, following):
                            begins = True
                            phase = IN_MOVES
                    elif result != NO_RESULT:
                        phase = OVER
                    elif at_line_start and moved and _is_move_one(data, i):
                        begins = True
                    letters = (moved and not begins) or has_letter(data, i, following)
        if begins:
            if count < starts.size:
                starts[count] = i
            count += 1
            moved = False
            event_seen, remark_seen = False, False
            if is_tag:
                depth = 0
                first_name, first_name_end = i + 1, name_end
        moved = moved or letters
        event_seen = event_seen or is_event_tag
        at_line_start = is_tag
        i = following
    return count
