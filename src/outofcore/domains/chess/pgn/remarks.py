"""Annotations attached to a move: signs (``+=``, ``±``), ``e.p.``, ``N``, ``D`` (a diagram).

python-chess skips everything that is not a move. Only listed annotations are skipped here, so that a move in another
language (``Sf3``) or a misspelt one (``o-o``) is not lost silently.
"""

from __future__ import annotations

import numpy as np

from outofcore.domains.chess.pgn.lexis import Bytes, is_digit
from outofcore.system.compilation import inner_kernel

WORDS = ("N", "D", "TN", "RR", "ep", "e.p", "ch", "dbl", "dis", "mate", "novelty", "diagram")
"""Skipped after a move; those that begin like a promotion only if separated by a blank or a sign."""

_SIGNS = b"+#=!?-/\\~<>^_|.,:'\""
_PROMOTED = b"nbrqkNBRQK"
_FIGURINE_LEAD, _FIRST_FIGURINE, _LAST_FIGURINE = 0x99, 0x94, 0x9F


def _table(characters: bytes) -> Bytes:
    table = np.zeros(256, np.uint8)
    table[list(characters)] = 1
    return table


def _word_table() -> Bytes:
    table = np.zeros((len(WORDS), max(map(len, WORDS)) + 1), np.uint8)
    for row, word in enumerate(WORDS):
        table[row, : len(word)] = list(word.encode())
    return table


IS_SIGN, IS_PROMOTED = _table(_SIGNS), _table(_PROMOTED)
ENDS_WORD = _table(bytes(ord(word[-1]) for word in WORDS))
WORD_TABLE = _word_table()


@inner_kernel
def _sign(data: Bytes, i: int, j: int) -> int:
    """Bytes of the sign (punctuation, no chess piece) that ends before ``j``, or 0; the word begins at ``i``."""
    c = data[j - 1]
    if c < 0x80:
        return int(IS_SIGN[c])
    if c >= 0xC0:
        return 0
    if j - i >= 3 and data[j - 3] == 0xE2:
        return 0 if data[j - 2] == _FIGURINE_LEAD and _FIRST_FIGURINE <= c <= _LAST_FIGURINE else 3
    if j - i >= 2 and data[j - 2] == 0xC2:
        return 2
    return 1 if c >= 0xA0 and (j - i < 2 or data[j - 2] < 0x80) else 0


@inner_kernel
def _word(data: Bytes, i: int, j: int) -> int:
    """Length of the longest word of the table that ends before ``j``, or 0; the text begins at ``i``."""
    longest = 0
    if not ENDS_WORD[data[j - 1]]:  # nearly every move
        return longest
    for row in range(WORD_TABLE.shape[0]):
        length = 0
        while WORD_TABLE[row, length] != 0:
            length += 1
        if length <= longest or length > j - i:
            continue
        k = 0
        while k < length and WORD_TABLE[row, k] == data[j - length + k]:
            k += 1
        if k == length:
            longest = length
    return longest


@inner_kernel
def _is_divided(data: Bytes, i: int, j: int) -> bool:
    """Whether a sign before ``j`` separates what follows from the move; ``e8=N`` is a promotion."""
    sign = _sign(data, i, j)
    return sign > 0 and not (data[j - 1] == ord("=") and (j - 1 == i or _sign(data, i, j - 1) == 0))


@inner_kernel
def move_end(data: Bytes, i: int, j: int) -> int:
    """Index after the move that begins the word ``data[i:j]``; ``i`` if the word consists of signs."""
    end = j
    while end > i:
        length = _sign(data, i, end)
        if length == 0:
            length = _word(data, i, end)
            if length == 0 or end - length == i:
                break
            if IS_PROMOTED[data[end - length]] and not _is_divided(data, i, end - length):
                break
        end -= length
    for k in range(end, j - 1):
        if data[k] == ord("-") and data[k + 1] == ord("-"):
            return k + 2 if k == i else j  # a null move, not a remark
    return end


@inner_kernel
def is_remark(data: Bytes, i: int, j: int) -> bool:
    """Whether ``data[i:j]``, without trailing signs, is one of the words."""
    return j > i and _word(data, i, j) == j - i


@inner_kernel
def move_bounds(data: Bytes, i: int, j: int) -> tuple[int, int]:
    """The move in a token without number and remarks; four zeros are a null move, as in python-chess."""
    k, zeros = i, 0
    while k < j and is_digit(data[k]):
        zeros = zeros + 1 if data[k] == ord("0") else 0
        k += 1
        if zeros == 4:
            return k - 4, k
    if k < j and data[k] == ord("."):
        i = k
        while i < j and data[i] == ord("."):
            i += 1
        k = i
    stop = move_end(data, i, j)
    return (i, stop) if stop > k or k == i else (j, j)
