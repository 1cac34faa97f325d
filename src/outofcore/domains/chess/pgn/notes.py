"""Clocks, times and evaluations in comments.

:func:`read_note` reads ``[%clk 0:09:58]``, ``[%emt 0:00:02]``, ``[%emt 1.156]`` and ``[%eval -1.25]`` or
``[%eval #-3]`` with the grammar of python-chess, in compiled code: the Rust reader has no mates and no times, takes the
last of several notes, and rounds clocks to 24 bits. Numbers are exactly as written, in centiseconds and centipawns;
further digits are cut off. The first of several notes after a move counts.

:func:`add_engine_notes` reads the comments of engine matches, which have no brackets: ``+0.13/12 0.29s`` of cutechess
and fastchess, where the evaluation is the mover's and a mate is in plies (``-M8/30 1.2s``), and ``d=26, mt=94353,
tl=1710647, wv=0.34`` of TCEC, where it is White's, and times are in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.codes import (
    LARGEST_CLOCK,
    LARGEST_EVALUATION,
    LARGEST_MATE,
    NO_CLOCK,
    NO_EVALUATION,
    NO_MATE,
    WHITE_TO_MOVE,
)
from outofcore.domains.chess.pgn.grammar import is_digit, row_of, table
from outofcore.ndarrays import Bytes
from outofcore.system.compilation import inner_kernel

_NAMES = table(("clk", "emt", "eval"))
_SPENT, _EVALUATION = 1, 2
_MOST_DIGITS = 10


class Notes(NamedTuple):
    """What comments note of each of m moves."""

    clock: npt.NDArray[np.int32]  # (m,) centiseconds left after the move; NO_CLOCK if missing
    evaluation: npt.NDArray[np.int16]  # (m,) centipawns; NO_EVALUATION if missing
    mate: npt.NDArray[np.int8]  # (m,) moves to mate; NO_MATE if missing
    searched: npt.NDArray[np.bool_]  # (m,) the evaluation is of the search that chose the move, not of its outcome
    spent: npt.NDArray[np.int32]  # (m,) centiseconds that the move took; NO_CLOCK if missing

    def of(self, moves: slice) -> Notes:
        """Those of some moves, in the same memory."""
        return Notes._make(column[moves] for column in self)


NO_NOTES: tuple[Any, ...] = (
    np.int32(NO_CLOCK),
    np.int16(NO_EVALUATION),
    np.int8(NO_MATE),
    np.False_,
    np.int32(NO_CLOCK),
)
"""Of a move without any."""


def new_notes(count: int) -> Notes:
    """Uninitialised notes of ``count`` moves."""
    return Notes._make(np.empty(count, value.dtype) for value in NO_NOTES)


@inner_kernel
def clear(notes: Notes, move: int) -> None:
    """Mark all notes of a move as missing."""
    notes.clock[move], notes.spent[move] = NO_CLOCK, NO_CLOCK
    notes.evaluation[move], notes.mate[move], notes.searched[move] = NO_EVALUATION, NO_MATE, False


@inner_kernel
def read_note(data: Bytes, i: int, notes: Notes, move: int) -> int:
    """Read the note in brackets at ``i`` as one of a move, unless it has one; 1 if the value cannot be read, else 0."""
    name_end = i + 2
    while name_end < data.size and ord("a") <= data[name_end] | 0x20 <= ord("z"):
        name_end += 1
    kind, value = row_of(data, i + 2, name_end, _NAMES), _after_space(data, name_end)
    if kind < 0 or value == name_end:
        return int(kind >= 0)
    if kind == _EVALUATION:
        centipawns, moves, valid = _evaluation(data, value)
        if notes.evaluation[move] == NO_EVALUATION and notes.mate[move] == NO_MATE:
            notes.evaluation[move], notes.mate[move] = centipawns, moves
        return int(not valid)
    time = _time(data, value, kind == _SPENT)
    column = notes.spent if kind == _SPENT else notes.clock
    if column[move] == NO_CLOCK:
        column[move] = time
    return int(time == NO_CLOCK)


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
    """Hundredths after the point at ``i``, if there is one, and the index after them."""
    hundredths, weight = 0, 10
    if i < data.size and data[i] == ord("."):
        i += 1
        while i < data.size and is_digit(data[i]):
            hundredths += (data[i] - ord("0")) * weight
            weight //= 10
            i += 1
    return hundredths, i


@inner_kernel
def _after_space(data: Bytes, i: int) -> int:
    """Index after the white space at ``i``, one blank or a line break with the blanks around it; else ``i``."""
    j, breaks = i, False
    while j < data.size and (data[j] <= ord(" ")) and (9 <= data[j] <= 13 or data[j] in (0x00, 0x1A, 0x20)):
        breaks = breaks or data[j] == ord("\n") or data[j] == ord("\r")
        j += 1
    return j if breaks or (j == i + 1 and data[i] != 0x00 and data[i] != 0x1A) else i


@inner_kernel
def _time(data: Bytes, i: int, seconds_alone: Any) -> int:
    """Centiseconds of the ``h:mm:ss.ff]`` at ``i``, or of ``ss.ff]``; ``NO_CLOCK`` if invalid."""
    total, parts = 0, 0
    while parts < 3:
        value, j = _digits(data, i)
        if j == i:
            return NO_CLOCK
        total, i = min(total * 60 + value, 10**15), j
        parts += 1
        if parts == 3 or j == data.size or data[j] != ord(":"):
            break
        i = j + 1
    hundredths, i = _fraction(data, i)
    if not (parts == 3 or (parts == 1 and seconds_alone)) or i == data.size or data[i] != ord("]"):
        return NO_CLOCK
    return min(total * 100 + hundredths, LARGEST_CLOCK)


@inner_kernel
def _evaluation(data: Bytes, i: int) -> tuple[int, int, bool]:
    """Centipawns and moves to mate of the ``-1.25]`` or ``#-3]`` at ``i``, with or without a depth; whether valid."""
    nothing = (NO_EVALUATION, NO_MATE, False)
    is_mate = i < data.size and data[i] == ord("#")
    i += is_mate
    sign = -1 if i < data.size and data[i] == ord("-") else 1
    i += i < data.size and (data[i] == ord("-") or data[i] == ord("+"))
    value, j = _digits(data, i)
    hundredths, end = _fraction(data, j)
    figures = end - i - (end > j)
    if figures == 0 or (is_mate and end > j) or (not is_mate and (j - i > _MOST_DIGITS or end - j > 3)):
        return nothing
    if end < data.size and data[end] == ord(","):
        _, depth_end = _digits(data, end + 1)
        if depth_end == end + 1:
            return nothing
        end = depth_end
    if end == data.size or data[end] != ord("]"):
        return nothing
    if is_mate:
        return NO_EVALUATION, sign * min(value, LARGEST_MATE), True
    return sign * min(value * 100 + hundredths, LARGEST_EVALUATION), NO_MATE, True


_SCORE = r"(?P<{0}>[+-]?(?:M\d+|\d+(?:\.\d*)?))"
_OF_ENGINE = re.compile(
    rf"\A\s*{_SCORE.format('mover')}/\d+,?\s+(?P<seconds>-?\d+(?:\.\d*)?)s"
    rf"|(?:\A|,)\s*(?:mt=(?P<spent>\d+)|tl=(?P<left>\d+)|wv={_SCORE.format('white')})",
    re.ASCII,
)
_LIKE_AN_ENGINE = re.compile(r"\A\s*[+-]?M?\d+(?:\.\d*)?/\d+,?\s+[+-]?\d|(?:\A|,)\s*(?:mt|tl|wv)=", re.ASCII)
_TRUNCATING = Context(rounding=ROUND_DOWN, traps=[])  # a million digits overflow


def add_engine_notes(notes: Notes, comments: Iterable[Sequence[str]], side_to_move: Bytes) -> int:
    """Add what engines wrote in the comments on each move, the first of each kind, where brackets do not have it.

    ``side_to_move`` (moves,) made the move. Returns how many of these notes cannot be read.
    """
    unread = 0
    by_move = zip(range(len(notes.clock)), comments, strict=False)
    for move, text in ((move, text) for move, texts in by_move for text in texts if "[" not in text):
        noted, of_text = _engine_note(text, 1 if side_to_move[move] == WHITE_TO_MOVE else -1)
        unread += of_text
        if "evaluation" in noted and (notes.evaluation[move], notes.mate[move]) == (NO_EVALUATION, NO_MATE):
            notes.evaluation[move], notes.mate[move] = noted["evaluation"], noted["mate"]
            notes.searched[move] = True
        for column in ("clock", "spent"):
            if column in noted and getattr(notes, column)[move] == NO_CLOCK:
                getattr(notes, column)[move] = noted[column]
    return unread


def _engine_note(comment: str, mover_sign: int) -> tuple[dict[str, int], int]:
    """Notes by their column in a comment of an engine match, and how many look like one and cannot be read.

    ``mover_sign`` is 1 if White made the move, -1 if Black did.
    """
    noted: dict[str, int] = {}
    count = 0
    for match in _OF_ENGINE.finditer(comment):
        count += 1
        if (score := match["mover"] or match["white"]) is not None:
            noted = _score(score, mover_sign if match["mover"] else 1) | noted
        if match["seconds"] is not None:
            if match["seconds"].startswith("-"):
                count -= 1
            else:
                noted["spent"] = _scaled(match["seconds"], 100, LARGEST_CLOCK)
            break
        for column in ("spent", "left"):
            if match[column] is not None:
                noted.setdefault("clock" if column == "left" else column, _scaled(match[column], 0.1, LARGEST_CLOCK))
    return noted, len(_LIKE_AN_ENGINE.findall(comment)) - count


def _score(score: str, sign: int) -> dict[str, int]:
    sign = -sign if score.startswith("-") else sign
    number = score.lstrip("+-")
    if number.startswith("M"):
        return {"evaluation": NO_EVALUATION, "mate": sign * ((_scaled(number[1:], 1, 2 * LARGEST_MATE) + 1) // 2)}
    return {"evaluation": sign * _scaled(number, 100, LARGEST_EVALUATION), "mate": NO_MATE}


def _scaled(number: str, factor: float, most: int) -> int:
    """A number of any length without sign times a factor, at most ``most``; further digits are cut off."""
    with localcontext(_TRUNCATING):
        return int(min(Decimal(number) * Decimal(str(factor)), Decimal(most)))
