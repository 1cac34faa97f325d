"""Lexical elements of PGN, read from bytes by compiled code.

Cases that the standard (PGN Specification and Implementation Guide, 1994) leaves open are decided here for both cutting
and reading: a line ends with LF, CR LF or CR; NUL, Ctrl-Z and byte-order marks count as blanks; a tag is at the
beginning of a line or after another tag; ``%`` at the beginning of a line and ``;`` outside comments hide the rest of
the line.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outofcore.compilation import kernel

Bytes = npt.NDArray[np.uint8]

TOKEN, BLANK, LINE_END, MARK = 0, 1, 2, 3


def _kinds() -> Bytes:
    kinds = np.full(256, TOKEN, np.uint8)
    for character in b" \t\v\f\0\x1a":
        kinds[character] = BLANK
    for character in b"\r\n":
        kinds[character] = LINE_END
    for character in b"{}();$*":
        kinds[character] = MARK
    return kinds


KIND = _kinds()
"""Class of a byte outside comments: part of a token, a blank, the end of a line, or a mark of its own."""

NO_RESULT, WHITE_WINS, DRAW, BLACK_WINS, UNKNOWN_RESULT, CONFLICT = 0, 1, 2, 3, 4, 5
"""Termination markers: none, ``1-0``, ``1/2-1/2``, ``0-1``, ``*``, and conflicting."""

LONGEST_TAG_NAME = 255
BYTE_ORDER_MARK = (0xEF, 0xBB, 0xBF)


@kernel
def line_end(data: Bytes, i: int) -> int:
    """Index of the end of the line containing ``i``."""
    while i < data.size and KIND[data[i]] != LINE_END:
        i += 1
    return i


@kernel
def token_end(data: Bytes, i: int) -> int:
    """Index after the token that begins at ``i``; ``*`` is a token by itself."""
    if data[i] == ord("*"):
        return i + 1
    while i < data.size and KIND[data[i]] == TOKEN:
        i += 1
    return i


@kernel
def is_digit(c: int) -> bool:
    """Whether a byte is an ASCII digit."""
    return ord("0") <= c <= ord("9")


@kernel
def has_letter(data: Bytes, i: int, j: int) -> bool:
    """Whether a token contains a letter, as moves do and move numbers do not."""
    for k in range(i, j):  # noqa: SIM110 - compiled code has no generators
        if data[k] >= ord("A"):
            return True
    return False


@kernel
def nag_end(data: Bytes, i: int) -> int:
    """Index after the numeric annotation glyph (``$14``) that begins at ``i``."""
    i += 1
    while i < data.size and is_digit(data[i]):
        i += 1
    return i


@kernel
def is_byte_order_mark(data: Bytes, i: int) -> bool:
    """Whether there is a UTF-8 byte-order mark at ``i``."""
    return i + 2 < data.size and (
        data[i] == BYTE_ORDER_MARK[0] and data[i + 1] == BYTE_ORDER_MARK[1] and data[i + 2] == BYTE_ORDER_MARK[2]
    )


@kernel
def is_glued(data: Bytes, i: int) -> bool:
    """Whether the ``$`` at ``i`` begins a word (``$exd5``), which is not a move, rather than a glyph."""
    j = i + 1
    if j >= data.size or is_byte_order_mark(data, j):
        return False
    return bool(KIND[data[j]] == TOKEN and not is_digit(data[j]))


@kernel
def result_code(data: Bytes, i: int, j: int) -> int:
    """Which termination marker ``data[i:j]`` is."""
    length = j - i
    if length == 1:
        return UNKNOWN_RESULT if data[i] == ord("*") else NO_RESULT
    if length == 3 and data[i + 1] == ord("-"):
        if data[i] == ord("1") and data[i + 2] == ord("0"):
            return WHITE_WINS
        if data[i] == ord("0") and data[i + 2] == ord("1"):
            return BLACK_WINS
        return NO_RESULT
    if length != 7 or data[i + 3] != ord("-"):
        return NO_RESULT
    for k in (i, i + 4):
        if data[k] != ord("1") or data[k + 1] != ord("/") or data[k + 2] != ord("2"):
            return NO_RESULT
    return DRAW


@kernel
def tag_name_end(data: Bytes, i: int) -> int:
    """Index after the name of the tag whose bracket is at ``i``; 0 if it is not a tag."""
    j = i + 1
    while j < data.size and j - i <= LONGEST_TAG_NAME:
        c = data[j]
        letter = ord("a") <= (c | 32) <= ord("z") or is_digit(c) or c == ord("_")
        if not letter:
            break
        j += 1
    if j == i + 1 or j >= data.size:
        return 0
    c = data[j]
    return j if KIND[c] == BLANK or KIND[c] == LINE_END or c == ord('"') or c == ord("]") else 0


@kernel
def tag_value(data: Bytes, name_end: int) -> tuple[int, int, int]:
    """Span of a tag's value, to the first quote before a closing bracket, or -1; and the index after the tag."""
    i = name_end
    while i < data.size and KIND[data[i]] == BLANK:
        i += 1
    if i >= data.size or data[i] != ord('"'):
        return -1, -1, line_end(data, name_end)
    begin = i + 1
    i = begin
    while i < data.size and KIND[data[i]] != LINE_END:
        if data[i] == ord('"'):
            j = i + 1
            while j < data.size and KIND[data[j]] == BLANK:
                j += 1
            if j < data.size and data[j] == ord("]"):
                return begin, i, j + 1
        i += 1
    return begin, i, i
