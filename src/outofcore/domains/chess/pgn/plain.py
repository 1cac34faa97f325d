"""Text of a game made plain for python-chess, which is to read it.

python-chess skips what it does not know and ends a game at an empty line. So empty lines go; results and dashes are
written as in the standard, and figures of pieces as letters; and a move after a letter that is no piece in English
(``Sf3``), or divided from it (``N f3``), becomes a word that it refuses: it would read a pawn's move.
"""

from __future__ import annotations

import re

from outofcore.domains.chess.pgn.grammar import BLACK_WINS, DRAW, NO_RESULT, UNKNOWN_RESULT, WHITE_WINS

_RESULTS = {"1-0": WHITE_WINS, "1/2-1/2": DRAW, "0-1": BLACK_WINS, "*": UNKNOWN_RESULT}
_ASIDE = re.compile(r"(;[^\r\n]*|\{[^}]*)")
_SPELLINGS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\x96\x97", "-"),
        **dict(
            zip("\u2654\u2655\u2656\u2657\u2658\u2659\u265a\u265b\u265c\u265d\u265e\u265f", 2 * "KQRBNP", strict=True)
        ),
        "\u00bd": "1/2",
        "\ufeff": " ",
    }
)
_DRAW = re.compile(r"(?<![\d/])1/2(?:-1/2)?(?![\d/])")
_SQUARE = "[a-h]?[1-8]?[-x]?[a-h][1-8]"
_OTHER_MOVE = re.compile(
    rf"(?:[^\W\d_a-hxKQRBNP]|(?<![\w=-])[^\W\d_a-h]\s+){_SQUARE}|(?<![\w-])(?!O-O|0-0)[oO0]-[oO0](?:-[oO0])?"
)


def plain(body: str) -> str:
    """The text without empty lines and without blanks around a line, its comments as they are."""
    parts = _ASIDE.split(body)
    parts[::2] = [_OTHER_MOVE.sub("@a1", _spelled(part)) for part in parts[::2]]
    parts[1::2] = [part.replace("\ufeff", "\u200b") for part in parts[1::2]]  # which is no blank either
    lines = (line.strip(" \t\v\f\0\x1a") for line in re.split(r"\r\n|\r|\n", "".join(parts)))
    return "\n".join(line for line in lines if line)


def result_of(word: str) -> int:
    """Which result a word is, its dash and halves in any spelling (``1\u20130``, ``\u00bd-\u00bd``, ``1/2``)."""
    return _RESULTS.get(_spelled(word), NO_RESULT)


def _spelled(text: str) -> str:
    return _DRAW.sub("1/2-1/2", text.translate(_SPELLINGS))
