"""Clocks and evaluations in comments: ``[%clk 0:09:58]``, ``[%emt 0:00:02]``, ``[%eval -1.25]``, ``[%eval #-3]``.

The grammar is that of python-chess, with numbers exactly as written: centiseconds and centipawns, further digits of a
second truncated. The first of several notes after a move counts, as in python-chess.

Engine matches have comments without brackets: ``+0.13/12 0.29s`` of cutechess and fastchess (older ones with a comma,
``+0.13/12, 0.29s``), where the evaluation is the mover's and a mate is in plies (``-M8/30 1.2s``), and ``d=26,
mt=94353, tl=1710647, wv=0.34`` of TCEC, where it is White's, and times are in milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.pgn.lexis import BLANK, KIND, LINE_END, Bytes, is_digit
from outofcore.domains.chess.schema import (
    LARGEST_CLOCK,
    LARGEST_EVALUATION,
    LARGEST_MATE,
    NO_CLOCK,
    NO_EVALUATION,
    NO_MATE,
)
from outofcore.system.compilation import inner_kernel

MOST_DIGITS = 10
NO_SPACES = (0x00, 0x1A)
"""Bytes that count as blanks between moves, but not in a note."""


class Notes(NamedTuple):
    """What comments note of each of m moves."""

    clock: npt.NDArray[np.int32]  # (m,) centiseconds left after the move; NO_CLOCK if missing
    evaluation: npt.NDArray[np.int16]  # (m,) centipawns; NO_EVALUATION if missing
    mate: npt.NDArray[np.int8]  # (m,) moves to mate; NO_MATE if missing
    searched: npt.NDArray[np.bool_]  # (m,) the evaluation is of the search that chose the move, not of its outcome
    spent: npt.NDArray[np.int32]  # (m,) centiseconds that the move took; NO_CLOCK if missing


def new_notes(count: int) -> Notes:
    """Uninitialised notes of ``count`` moves."""
    return Notes(
        clock=np.empty(count, np.int32),
        evaluation=np.empty(count, np.int16),
        mate=np.empty(count, np.int8),
        searched=np.empty(count, np.bool_),
        spent=np.empty(count, np.int32),
    )


@inner_kernel
def clear(notes: Notes, move: int) -> None:
    """Mark all notes of a move as missing."""
    notes.clock[move], notes.spent[move] = NO_CLOCK, NO_CLOCK
    notes.evaluation[move], notes.mate[move], notes.searched[move] = NO_EVALUATION, NO_MATE, False


@inner_kernel
def _is_evaluated(notes: Notes, move: int) -> bool:
    """Whether a move has an evaluation, as centipawns or as a mate."""
    return bool(notes.evaluation[move] != NO_EVALUATION or notes.mate[move] != NO_MATE)


@inner_kernel
def _digits(data: Bytes, i: int) -> tuple[int, int]:
    """The number at ``i``, capped below 10**15, and the index after it."""
    value = 0
    while i < data.size and is_digit(data[i]):
        value = min(value * 10 + data[i] - ord("0"), 10**15 - 1)
        i += 1
    return value, i


@inner_kernel
def _fraction(data: Bytes, i: int) -> tuple[int, int]:
    """Hundredths after a point at ``i - 1``, further digits truncated, and the index after them."""
    hundredths, weight = 0, 10
    while i < data.size and is_digit(data[i]):
        hundredths += (data[i] - ord("0")) * weight
        weight //= 10
        i += 1
    return hundredths, i


@inner_kernel
def _clock(data: Bytes, i: int) -> int:
    """Centiseconds of the ``h:mm:ss.ff]`` at ``i``, at most ``LARGEST_CLOCK``; ``NO_CLOCK`` if invalid."""
    total = 0
    for part in range(3):
        value, j = _digits(data, i)
        if j == i or j >= data.size:
            return NO_CLOCK
        total = min(total * 60 + value, 10**15)
        if part < 2 and data[j] != ord(":"):
            return NO_CLOCK
        i = j + 1 if part < 2 else j
    hundredths = 0
    if data[i] == ord("."):
        hundredths, i = _fraction(data, i + 1)
    if i >= data.size or data[i] != ord("]"):
        return NO_CLOCK
    return min(total * 100 + hundredths, LARGEST_CLOCK)


@inner_kernel
def _evaluation(data: Bytes, i: int) -> tuple[int, int]:
    """Centipawns and moves to mate of the ``-1.25]`` or ``#-3]`` at ``i``, with or without a depth."""
    nothing = (NO_EVALUATION, NO_MATE)
    is_mate = i < data.size and data[i] == ord("#")
    i += is_mate
    sign = 1
    if i < data.size and (data[i] == ord("-") or data[i] == ord("+")):
        sign = -1 if data[i] == ord("-") else 1
        i += 1
    value, j = _digits(data, i)
    whole = j - i
    hundredths, decimals = 0, 0
    if not is_mate:
        if whole > MOST_DIGITS:
            return nothing
        if j < data.size and data[j] == ord("."):
            hundredths, k = _fraction(data, j + 1)
            decimals = k - j - 1
            j = k
    if whole + decimals == 0 or decimals > 2:
        return nothing
    if j < data.size and data[j] == ord(","):
        _, k = _digits(data, j + 1)
        if k == j + 1:
            return nothing
        j = k
    if j >= data.size or data[j] != ord("]"):
        return nothing
    if is_mate:
        return NO_EVALUATION, sign * min(value, LARGEST_MATE)
    return sign * min(value * 100 + hundredths, LARGEST_EVALUATION), NO_MATE


@inner_kernel
def _after_space(data: Bytes, i: int) -> int:
    """The index after the white space at ``i``, one blank or a line break with the blanks around it; else ``i``."""
    j, breaks = i, False
    while j < data.size and (KIND[data[j]] == BLANK or KIND[data[j]] == LINE_END):
        breaks = breaks or KIND[data[j]] == LINE_END
        j += 1
    return j if breaks or (j == i + 1 and data[i] not in NO_SPACES) else i


@inner_kernel
def read_note(data: Bytes, i: int, notes: Notes, move: int) -> None:
    """Read the ``[%`` note at ``i`` as one of a move, unless already set."""
    i += 2
    name_length = 0
    while i + name_length < data.size and ord("a") <= data[i + name_length] <= ord("z"):
        name_length += 1
    value = _after_space(data, i + name_length)
    if value == i + name_length:
        return
    if name_length == 3 and data[i] == ord("c") and data[i + 1] == ord("l") and data[i + 2] == ord("k"):
        if notes.clock[move] == NO_CLOCK:
            notes.clock[move] = _clock(data, value)
    elif name_length == 3 and data[i] == ord("e") and data[i + 1] == ord("m") and data[i + 2] == ord("t"):
        if notes.spent[move] == NO_CLOCK:
            notes.spent[move] = _clock(data, value)
    elif name_length == 4 and data[i] == ord("e") and data[i + 1] == ord("v"):
        is_first = not _is_evaluated(notes, move)
        if is_first and data[i + 2] == ord("a") and data[i + 3] == ord("l"):
            notes.evaluation[move], notes.mate[move] = _evaluation(data, value)


@inner_kernel
def _score(data: Bytes, i: int) -> tuple[int, int, int]:
    """Centipawns and moves to mate of the ``-1.25`` or ``-M8`` at ``i``, and the index after it; ``i`` if invalid."""
    j, sign = i, 1
    if j < data.size and (data[j] == ord("-") or data[j] == ord("+")):
        sign = -1 if data[j] == ord("-") else 1
        j += 1
    is_mate = j < data.size and data[j] == ord("M")
    j += is_mate
    value, k = _digits(data, j)
    if k == j:
        return NO_EVALUATION, NO_MATE, i
    if is_mate:
        return NO_EVALUATION, sign * min((value + 1) // 2, LARGEST_MATE), k
    hundredths = 0
    if k < data.size and data[k] == ord("."):
        hundredths, k = _fraction(data, k + 1)
    return sign * min(value * 100 + hundredths, LARGEST_EVALUATION), NO_MATE, k


@inner_kernel
def _spaces_end(data: Bytes, i: int) -> int:
    """Index after the white space at ``i``."""
    while i < data.size and (KIND[data[i]] == BLANK or KIND[data[i]] == LINE_END):
        i += 1
    return i


@inner_kernel
def _engine_time(data: Bytes, i: int) -> int:
    """Centiseconds of the ``12 0.29s`` or ``12, 0.29s`` (depth and time) at ``i``; ``NO_CLOCK`` if invalid."""
    _, depth_end = _digits(data, i)
    j = depth_end + (depth_end < data.size and data[depth_end] == ord(","))
    k = _spaces_end(data, j)
    seconds, end = _digits(data, k)
    if depth_end == i or k == j or end == k or end >= data.size:
        return NO_CLOCK
    hundredths = 0
    if data[end] == ord("."):
        hundredths, end = _fraction(data, end + 1)
    return min(seconds * 100 + hundredths, LARGEST_CLOCK) if end < data.size and data[end] == ord("s") else NO_CLOCK


@inner_kernel
def read_engine_comment(data: Bytes, i: int, mover_sign: int, notes: Notes, move: int) -> None:
    """Read the notes of a move in the comment after the brace at ``i``, unless already set or in brackets.

    ``mover_sign`` is 1 if White made the move, -1 if Black did.
    """
    stop = i + 1
    while stop < data.size and data[stop] != ord("}"):
        if data[stop] == ord("["):
            return
        stop += 1
    if stop == data.size:
        return
    i = _spaces_end(data, i + 1)
    centipawns, moves, j = _score(data, i)
    time = _engine_time(data, j + 1) if j > i and data[j] == ord("/") else NO_CLOCK
    if time != NO_CLOCK:
        if notes.spent[move] == NO_CLOCK:
            notes.spent[move] = time
        if not _is_evaluated(notes, move):
            notes.evaluation[move] = NO_EVALUATION if centipawns == NO_EVALUATION else mover_sign * centipawns
            notes.mate[move] = mover_sign * moves
            notes.searched[move] = True
        return
    while i + 3 < stop:
        if data[i + 2] == ord("="):
            first, second = data[i], data[i + 1]
            number, end = _digits(data, i + 3)
            if first == ord("m") and second == ord("t") and end > i + 3 and notes.spent[move] == NO_CLOCK:
                notes.spent[move] = min(number // 10, LARGEST_CLOCK)
            elif first == ord("t") and second == ord("l") and end > i + 3 and notes.clock[move] == NO_CLOCK:
                notes.clock[move] = min(number // 10, LARGEST_CLOCK)
            elif first == ord("w") and second == ord("v") and not _is_evaluated(notes, move):
                notes.evaluation[move], notes.mate[move], _ = _score(data, i + 3)
                notes.searched[move] = True
        while i < stop and data[i] != ord(","):
            i += 1
        i = _spaces_end(data, i + 1)
