"""Lexical elements of PGN, read from bytes by compiled code.

Cases that the standard (PGN Specification and Implementation Guide, 1994) leaves open are decided here for both cutting
and reading: a line ends with LF, CR LF or CR; NUL, Ctrl-Z and byte-order marks count as blanks; a tag is at the
beginning of a line or after another tag; ``%`` at the beginning of a line and ``;`` outside comments hide the rest of
the line.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outofcore.system.compilation import inner_kernel, kernel

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
IN_TAG_NAME = np.zeros(256, np.bool_)
IN_TAG_NAME[list(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_+#=:-./")] = True
"""The standard has letters, digits and underscores; programs write ``BlackType:`` and ``Time-Control`` too."""

BYTE_ORDER_MARK = (0xEF, 0xBB, 0xBF)


def decoded(text: bytes) -> str:
    """Text of a PGN file: UTF-8, or Latin-1 as in the standard."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


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
def line_end(data: Bytes, i: int) -> int:
    """Index of the end of the line containing ``i``."""
    while i < data.size and KIND[data[i]] != LINE_END:
        i += 1
    return i


@inner_kernel
def token_end(data: Bytes, i: int) -> int:
    """Index after the token that begins at ``i``; ``*`` is a token by itself."""
    if data[i] == ord("*"):
        return i + 1
    while i < data.size and KIND[data[i]] == TOKEN:
        i += 1
    return i


@inner_kernel
def is_digit(c: int) -> bool:
    """Whether a byte is an ASCII digit."""
    return ord("0") <= c <= ord("9")


@inner_kernel
def has_letter(data: Bytes, i: int, j: int) -> bool:
    """Whether a token contains a letter, as moves do and move numbers do not."""
    for k in range(i, j):  # noqa: SIM110 - compiled code has no generators
        if data[k] >= ord("A"):
            return True
    return False


@inner_kernel
def nag_end(data: Bytes, i: int) -> int:
    """Index after the numeric annotation glyph (``$14``) that begins at ``i``."""
    i += 1
    while i < data.size and is_digit(data[i]):
        i += 1
    return i


@inner_kernel
def is_byte_order_mark(data: Bytes, i: int) -> bool:
    """Whether there is a UTF-8 byte-order mark at ``i``."""
    return i + 2 < data.size and (
        data[i] == BYTE_ORDER_MARK[0] and data[i + 1] == BYTE_ORDER_MARK[1] and data[i + 2] == BYTE_ORDER_MARK[2]
    )


@inner_kernel
def is_glued(data: Bytes, i: int) -> bool:
    """Whether the ``$`` at ``i`` begins a word (``$exd5``), which is not a move, rather than a glyph."""
    j = i + 1
    if j >= data.size or is_byte_order_mark(data, j):
        return False
    return bool(KIND[data[j]] == TOKEN and not is_digit(data[j]))


@inner_kernel
def _dash_end(data: Bytes, i: int, j: int) -> int:
    """Index after the hyphen or dash at ``i``, in UTF-8 or Latin-1 (as Windows has it), before ``j``; else ``i``."""
    if i < j and (data[i] == ord("-") or data[i] == 0x96 or data[i] == 0x97):
        return i + 1
    if i + 2 < j and data[i] == 0xE2:
        if data[i + 1] == 0x80 and 0x90 <= data[i + 2] <= 0x95:
            return i + 3
        if data[i + 1] == 0x88 and data[i + 2] == 0x92:  # minus
            return i + 3
    return i


@inner_kernel
def _half_end(data: Bytes, i: int, j: int) -> int:
    """Index after the ``1/2`` or ``½`` at ``i``, before ``j``; else ``i``."""
    if i + 2 < j and data[i] == ord("1") and data[i + 1] == ord("/") and data[i + 2] == ord("2"):
        return i + 3
    if i + 1 < j and data[i] == 0xC2 and data[i + 1] == 0xBD:
        return i + 2
    return i + 1 if i < j and data[i] == 0xBD else i


@kernel
def result_code(data: Bytes, i: int, j: int) -> int:
    """Which termination marker ``data[i:j]`` is, its dash and halves in any spelling (``1–0``, ``½-½``)."""
    if j - i == 1:
        return UNKNOWN_RESULT if data[i] == ord("*") else NO_RESULT
    if j - i < 3:
        return NO_RESULT
    if data[i] == ord("1") or data[i] == ord("0"):
        k = _dash_end(data, i + 1, j)
        if k > i + 1 and k == j - 1 and data[k] == ord("1") + ord("0") - data[i]:
            return WHITE_WINS if data[i] == ord("1") else BLACK_WINS
    half = _half_end(data, i, j)
    dash = _dash_end(data, half, j)
    return DRAW if half > i and dash > half and dash < j and _half_end(data, dash, j) == j else NO_RESULT


@inner_kernel
def tag_name_end(data: Bytes, i: int) -> int:
    """Index after the name of the tag whose bracket is at ``i``; 0 if it is not a tag."""
    j = i + 1
    while j < data.size and j - i <= LONGEST_TAG_NAME and IN_TAG_NAME[data[j]]:
        j += 1
    if j == i + 1 or j >= data.size:
        return 0
    c = data[j]
    return j if KIND[c] == BLANK or KIND[c] == LINE_END or c == ord('"') or c == ord("]") else 0


@inner_kernel
def _quote(data: Bytes, i: int) -> int:
    """Index of the quote at ``i`` or after the blanks there; -1 if there is none."""
    while i < data.size and KIND[data[i]] == BLANK:
        i += 1
    return i if i < data.size and data[i] == ord('"') else -1


@inner_kernel
def tag_value(data: Bytes, name_end: int) -> tuple[int, int, int, bool]:
    """Span of a tag's value, to the first quote before a closing bracket, or -1; the index after the tag.

    Last, whether the tag is whole: closed on its line, its value without the beginning of another tag.
    """
    begin = _quote(data, name_end) + 1
    if begin == 0:
        return -1, -1, line_end(data, name_end), False
    i, alone = begin, True
    while i < data.size and KIND[data[i]] != LINE_END:
        if data[i] == ord('"'):
            j = i + 1
            while j < data.size and KIND[data[j]] == BLANK:
                j += 1
            if j < data.size and data[j] == ord("]"):
                return begin, i, j + 1, alone
        elif data[i] == ord("["):
            inner = tag_name_end(data, i)
            alone = alone and (inner == 0 or _quote(data, inner) < 0)
        i += 1
    return begin, i, i, False


@inner_kernel
def is_word(data: Bytes, i: int, j: int) -> bool:
    """Whether a token can be a move, number or word, and no tag or escape."""
    if data[i] == ord("[") or data[i] == ord("%"):
        return False
    for k in range(i, j):
        c = data[k]
        if c >= ord("@") and not ord("[") <= c <= ord("`") and not ord("{") <= c < 0x80:
            return True
        if is_digit(c) or (c == ord("-") and k + 1 < j and data[k + 1] == ord("-")):
            return True
    return False


@inner_kernel
def is_move_one(data: Bytes, i: int) -> bool:
    """Whether ``1.``, not ``1...``, is at ``i``, with or without a blank before the dots."""
    if i + 2 >= data.size or data[i] != ord("1") or data[i + 1] != ord("."):
        return False
    j = i + 2
    if KIND[data[j]] == BLANK:
        j += 1
    return j < data.size and data[j] != ord(".")


@inner_kernel
def black_begins(data: Bytes, i: int, j: int) -> bool:
    """Whether Black is to move in the position in FEN that is ``data[i:j]``; of nothing, White is."""
    for word in range(2):
        while i < j and KIND[data[i]] == BLANK:
            i += 1
        if word == 1:
            return i < j and data[i] == ord("b")
        while i < j and KIND[data[i]] != BLANK:
            i += 1
    return False


@inner_kernel
def first_move_number(data: Bytes, i: int, j: int) -> int:
    """Number of the first move by the position in FEN that is ``data[i:j]``; 1 if it has none."""
    number, field = 0, 0
    while i < j and field < 6:
        while i < j and KIND[data[i]] == BLANK:
            i += 1
        field += 1
        while i < j and KIND[data[i]] != BLANK:
            if field == 6 and is_digit(data[i]) and number < 10_000:
                number = 10 * number + data[i] - ord("0")
            i += 1
    return max(number, 1)


@inner_kernel
def move_number(data: Bytes, i: int, j: int) -> int:
    """The move number with which the token ``data[i:j]`` begins; 0 if it has none."""
    number = 0
    while i < j and is_digit(data[i]) and number < 10_000 and (number > 0 or data[i] != ord("0")):
        number = 10 * number + data[i] - ord("0")
        i += 1
    return number if number < 10_000 and (i == j or data[i] == ord(".")) else 0


@inner_kernel
def is_of_black(data: Bytes, i: int, j: int) -> bool:
    """Whether a token begins with two dots or a number and two, which come before a move of Black."""
    while i < j and is_digit(data[i]):
        i += 1
    return i + 1 < j and data[i] == ord(".") and data[i + 1] == ord(".")


@inner_kernel
def is_like_a_move(data: Bytes, i: int, j: int) -> bool:
    """Whether a token may be a move or its number: it has a digit, or is castling or a null move."""
    if j - i >= 2 and (data[i + 1] == ord("-") and (data[i] == ord("-") or data[i] == ord("O"))):
        return True
    for k in range(i, j):  # noqa: SIM110 - compiled code has no generators
        if is_digit(data[k]):
            return True
    return False
