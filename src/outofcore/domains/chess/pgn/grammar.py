"""The grammar of PGN in bytes: names of tags, their values, comments, moves and results, where each begins and ends.

Kernels take ``data`` (n,) uint8 and indices into it, and stop at its end.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes
from outofcore.system.compilation import inner_kernel

TAGS = (
    "Event",
    "White",
    "Black",
    "Date",
    "Result",
    "WhiteElo",
    "BlackElo",
    "UTCDate",
    "UTCTime",
    "TimeControl",
    "Termination",
    "Variant",
    "FEN",
    "SetUp",
    "WhiteTitle",
    "BlackTitle",
    "WhiteRatingDiff",
)
"""The tags that are read."""

LONGEST_TAG_NAME = 255


def table(names: Collection[str]) -> Bytes:
    """Texts, a row each, that end in a zero."""
    table = np.array([list(name.ljust(max(map(len, names)) + 1, "\0").encode()) for name in names], np.uint8)
    table.setflags(write=False)  # as constants are to the compiler, which would compile what reads both twice
    return table


def _among(characters: bytes) -> npt.NDArray[np.bool_]:
    """Which bytes are among the characters, (256,)."""
    return np.isin(np.arange(256), list(characters))


_EVENT = TAGS.index("Event")
_NAMES, MARKERS = table(TAGS), table(("1-0", "1/2-1/2", "0-1", "*"))
LINE_END, SPACE, BLANK = _among(b"\r\n"), _among(b" \t\v\f\r\n"), _among(b" \t\v\f\r\n\0\x1a")
_IN_NAME = _among(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_+#=:-./")
_ENDS_WORD = _among(b" \t\v\f\r\n{($)")


def _moves() -> tuple[Bytes, Bytes, npt.NDArray[np.bool_]]:
    """The grammar of a move: class of each byte, state after each state and class, whether a state is a whole move.

    P is a piece, f a file, r a rank, c a check, s a sign. State 1 is the beginning, state 0 no move.
    """
    letters = {"P": b"KQRBN", "f": b"abcdefgh", "r": b"12345678", "x": b"x", "=": b"=", "c": b"+#", "s": b"!?"}
    classes = np.zeros(256, np.uint8)
    for number, characters in enumerate(letters.values()):
        classes[list(characters)] = number + 1
    pieces = {f"P{start}{x}fr" for start, x in product(("", "f", "r", "fr"), ("", "x"))}
    pawns = {f"{way}{promotion}" for way, promotion in product(("fr", "fxfr", "frfr"), ("", "P", "=P"))}
    forms = {f"{move}{check}{signs}" for move, check, signs in product(pieces | pawns, ("", "c"), ("", "s", "ss"))}
    states = sorted({form[:length] for form in forms for length in range(len(form) + 1)})
    following = np.zeros((len(states) + 1, len(letters) + 1), np.uint8)
    for (row, state), (column, letter) in product(enumerate(states, 1), enumerate(letters, 1)):
        following[row, column] = states.index(state + letter) + 1 if state + letter in states else 0
    return classes, following, np.array([False, *(state in forms for state in states)])


_CLASS, _FOLLOWING, _IS_MOVE = _moves()


@inner_kernel
def same(data: Bytes, i: int, j: int, k: int, end: int) -> bool:
    """Whether ``data[i:j]`` equals ``data[k:end]``."""
    if j - i != end - k:
        return False
    for step in range(j - i):  # noqa: SIM110 - compiled code has no generators
        if data[i + step] != data[k + step]:
            return False
    return True


@inner_kernel
def row_of(data: Bytes, i: int, j: int, names: Bytes) -> int:
    """Row of ``data[i:j]`` in a table of names, or -1."""
    for row in range(names.shape[0]):
        if j - i >= names.shape[1] or names[row, j - i] != 0 or names[row, 0] != data[i]:
            continue
        k = 1
        while k < j - i and names[row, k] == data[i + k]:
            k += 1
        if k == j - i:
            return row
    return -1


@inner_kernel
def is_digit(c: int) -> bool:
    return ord("0") <= c <= ord("9")


@inner_kernel
def line_end(data: Bytes, i: int) -> int:
    while i < data.size and not LINE_END[data[i]]:
        i += 1
    return i


@inner_kernel
def begins_line(data: Bytes, i: int, first: int) -> bool:
    """Whether only blanks and a byte-order mark are before ``i`` on its line; ``first`` begins the file."""
    while i > first and not LINE_END[data[i - 1]] and (BLANK[data[i - 1]] or data[i - 1] in (0xEF, 0xBB, 0xBF)):
        i -= 1
    return bool(i == first or LINE_END[data[i - 1]])


@inner_kernel
def gap_end(data: Bytes, i: int) -> int:
    """Index of the next game or of the end, after blanks, byte-order marks, comments and what is escaped."""
    while i < data.size:
        c = data[i]
        if BLANK[c]:
            i += 1
        elif c == 0xEF and i + 2 < data.size and data[i + 1] == 0xBB and data[i + 2] == 0xBF:
            i += 3
        elif c == ord(";") or c == ord("%"):
            i = line_end(data, i)
        elif c == ord("{"):
            end = comment_end(data, i)
            if end < 0:
                return i
            i = end
        else:
            return i
    return data.size


@inner_kernel
def tag_name_end(data: Bytes, i: int) -> int:
    """Index after the name of the tag that opens at ``i`` and has a value in quotes; 0 if there is none."""
    j = i + 1
    while j < data.size and j - i <= LONGEST_TAG_NAME and _IN_NAME[data[j]]:
        j += 1
    k = j
    while k < data.size and BLANK[data[k]] and not LINE_END[data[k]]:
        k += 1
    return j if data[i] == ord("[") and j > i + 1 and k < data.size and data[k] == ord('"') else 0


@inner_kernel
def value(data: Bytes, i: int) -> tuple[int, int, int]:
    """Span of a tag's value after its name, up to the first quote that is not escaped, and the index after the tag.

    The value is on one line, whatever else is in it. The index is -1 if the tag does not close after the value.
    """
    while data[i] != ord('"'):
        i += 1
    begin = i + 1
    i = begin
    while i < data.size and data[i] != ord('"') and not LINE_END[data[i]]:
        i += 1 + (data[i] == ord("\\"))
    if i >= data.size or data[i] != ord('"'):
        return begin, i, -1
    j = i + 1
    while j < data.size and BLANK[data[j]] and not LINE_END[data[j]]:
        j += 1
    return begin, i, j + 1 if j < data.size and data[j] == ord("]") else -1


@inner_kernel
def comment_end(data: Bytes, i: int) -> int:
    """Index after the comment that opens at ``i``; -1 if it never closes, or not before a line with the tag Event."""
    i += 1
    while i < data.size and data[i] != ord("}"):
        if data[i] == ord("[") and LINE_END[data[i - 1]] and is_event(data, i, tag_name_end(data, i)):
            return -1
        i += 1
    return i + 1 if i < data.size else -1


@inner_kernel
def is_event(data: Bytes, i: int, name_end: int) -> bool:
    return name_end > 0 and row_of(data, i + 1, name_end, _NAMES) == _EVENT


@inner_kernel
def move_end(data: Bytes, i: int) -> int:
    """Index after the move at ``i``; ``i`` if there is none in standard notation."""
    if i + 2 < data.size and data[i] == ord("O") and data[i + 1] == ord("-") and data[i + 2] == ord("O"):
        j = i + (5 if i + 4 < data.size and data[i + 3] == ord("-") and data[i + 4] == ord("O") else 3)
        while j < data.size and _CLASS[data[j]] > 5 and j < i + 8:
            j += 1
        return j if j == data.size or _ENDS_WORD[data[j]] else i
    state, j = 1, i
    while j < data.size and state > 0 and not _ENDS_WORD[data[j]]:
        state = _FOLLOWING[state, _CLASS[data[j]]]
        j += 1
    return j if _IS_MOVE[state] else i


@inner_kernel
def is_move_one(data: Bytes, i: int) -> bool:
    """Whether ``1.``, not ``1...``, is at ``i``."""
    j = i + 2 if i + 2 < data.size and data[i] == ord("1") and data[i + 1] == ord(".") else data.size
    while j < data.size and BLANK[data[j]] and not LINE_END[data[j]]:
        j += 1
    return j < data.size and data[j] != ord(".")


@inner_kernel
def ends_in_result(data: Bytes, begin: int, end: int) -> bool:
    """Whether the last word of ``data[begin:end]`` is a result."""
    while end > begin and BLANK[data[end - 1]]:
        end -= 1
    word = end
    while word > begin and not BLANK[data[word - 1]]:
        word -= 1
    return word < end and row_of(data, word, end, MARKERS) >= 0
