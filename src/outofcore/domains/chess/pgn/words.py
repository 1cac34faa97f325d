"""Games that are not written as the Rust reader takes them, by expressions: their tags, words, comments and result.

Each word of the main line is a number that counts the moves, a move, a sign or ``e.p.``, or the game is refused with
it: python-chess, which plays the moves, would skip what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from outofcore.domains.chess.pgn.games import (
    AFTER_RESULT,
    BLACK_WINS,
    CONFLICT,
    DRAW,
    LONGEST_TAG_NAME,
    NO_RESULT,
    NOT_A_TAG,
    NUMBERS,
    STRAY_TAG,
    TWO_VALUES,
    UNKNOWN_RESULT,
    WHITE_WINS,
    Games,
    decoded,
    scan,
)
from outofcore.ndarrays import Bytes, Ints

_BLANK = r"[ \t\v\f\0\x1a]"
_OPENED_TAG = rf'\[([A-Za-z0-9_+#=:./-]{{1,{LONGEST_TAG_NAME}}}){_BLANK}*"'
_ASIDE = re.compile(rb"(?:[\s\0\x1a]|\xef\xbb\xbf|[%;][^\r\n]*|\{[^}]*\})*")
_TAG = re.compile(rf'{_OPENED_TAG}([^\r\n]*)"{_BLANK}*\]{_BLANK}*(?=[\r\n]|\Z)'.encode())
_INNER_TAG = re.compile(_OPENED_TAG.encode())

_DASH, _HALF = "[-\u2010-\u2015\u2212\x96\x97]", "(?:1/2|\u00bd)"
_RESULTS = {
    WHITE_WINS: re.compile(f"1{_DASH}0"),
    DRAW: re.compile(f"{_HALF}{_DASH}{_HALF}"),
    BLACK_WINS: re.compile(f"0{_DASH}1"),
    UNKNOWN_RESULT: re.compile(r"\*"),
}
_ENDS = r" \t\v\f\r\n\0\x1a(){};$*"
_PART = re.compile(
    rf"\{{(?P<comment>[^}}]*)\}}?|;[^\n]*|^%[^\n]*|(?P<bracket>[()])|\$\d*(?=[{_ENDS}]|\Z)"
    rf"|(?P<tag>^{_OPENED_TAG})|(?P<word>\*|\$?[^{_ENDS}]+)",
    re.MULTILINE,
)
_MOVE = r"0000|--|Z0|@@@@|[O0]-[O0](?:-[O0])?|[NBKRQ]?[a-h]?[1-8]?[-x]?[a-h][1-8](?:=?[nbrqkNBRQK])?"
_SIGNS = "(?:(?!--)(?:[^\\w\u2654-\u265f]|_))*"  # no figure of a piece, and no null move
_WORD = re.compile(rf"(?P<number>(?!0000)[0-9]*)(?P<dots>\.*)(?P<move>{_MOVE})?{_SIGNS}(?:e\.?p{_SIGNS})?")


class Words(NamedTuple):
    """A game, divided into words."""

    tags: dict[str, tuple[int, int]]  # span of each tag's value in the game's text
    body: int  # end of the tags
    moves: list[str]  # words before the result that are moves, or are nothing else
    comments: list[list[str]]  # behind each of them
    result: int
    fault: int  # index into FAULTS


def read_pgn(
    data: Bytes,
    bounds: Ints | None = None,
    *,
    more_tags: Iterable[str] = (),
    comments: bool = False,
) -> Games:
    """:func:`scan`, and the columns of the odd games by their words."""
    games = scan(data, bounds, more_tags=more_tags, comments=comments)
    for game in np.flatnonzero(games.odd).tolist():
        start, words = int(games.starts[game]), words_of(games, game)
        games.bodies[game] = start + words.body, games.ends[game]
        games.results[game], games.faults[game] = words.result, words.fault
        games.plies[game] = len(words.moves)
        games.tags[game] = -1
        for row, name in enumerate(games.tag_names):
            if name in words.tags:
                games.tags[game, row] = np.add(words.tags[name], start)
    return games


def words_of(games: Games, game: int) -> Words:
    """Words of a game, odd or not."""
    return divide(games.data[games.starts[game] : games.ends[game]].tobytes())


def result_of(word: str) -> int:
    """Which result a word is, its dash and halves in any spelling (``1–0``, ``½-½``)."""
    return next((code for code, expression in _RESULTS.items() if expression.fullmatch(word)), NO_RESULT)


def without_empty_lines(body: str) -> str:
    """The text without empty lines, at which python-chess would end the game, and without blanks around a line."""
    # Byte-order marks are blanks, except in a comment, where another character that is no blank replaces them.
    body = re.sub(r";[^\r\n]*|\{[^}]*", lambda match: match[0].replace("\ufeff", "\u200b"), body)
    lines = (line.strip(" \t\v\f\0\x1a\ufeff") for line in re.split(r"\r\n|\r|\n", body))
    return "\n".join(line for line in lines if line).replace("\ufeff", " ")


def divide(text: bytes) -> Words:
    """Divide the text of a game; the first fault counts."""
    tags, body, fault = _tags(text)
    fen = decoded(text[slice(*tags["FEN"])]).split() if "FEN" in tags else []
    black = fen[1:2] == ["b"]
    first_numbers = {1, int(fen[5]) if re.fullmatch(r"[1-9][0-9]{0,3}", "".join(fen[5:6])) else 1}
    moves: list[str] = []
    comments: list[list[str]] = []
    result, depth, ends = NO_RESULT, 0, False
    for part in _PART.finditer(without_empty_lines(decoded(text[body:]))):
        if part["tag"]:
            fault = fault or STRAY_TAG
        elif part["bracket"]:
            depth = max(depth + (1 if part["bracket"] == "(" and moves else -1), 0)
        elif depth or result != NO_RESULT:
            if not depth and part["word"] and (marker := result_of(part["word"])):
                result = result if marker == result else CONFLICT
            elif not depth and part["word"] and re.search(r"\d|--|O-O", part["word"]):
                fault = fault or AFTER_RESULT
        elif part["comment"] is not None:
            comments[-1:] = [comments[-1] + [part["comment"]]] if comments else []
        elif part["word"] and not (result := result_of(part["word"])):
            word = _WORD.fullmatch(part["word"])
            white = (len(moves) + black) % 2 == 0
            if word and (word["number"] or word["dots"]):
                number = int(word["number"][:5] or 0) - (len(moves) + black) // 2
                if word["number"] and number not in first_numbers:
                    fault = fault or NUMBERS
                ends = ends or (white and len(word["dots"]) > 1)
            if word is None or word["move"]:
                fault = fault or (NUMBERS if ends else 0)
                moves.append(word["move"] if word else part["word"])
                comments.append([])
    return Words(tags, body, moves, comments, result, fault)


def _tags(text: bytes) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Span of each tag's value, the end of the tags, and what is wrong with them."""
    tags: dict[str, tuple[int, int]] = {}
    fault, end = 0, 0
    while True:
        aside = _ASIDE.match(text, end)
        begin = aside.end() if aside else end
        if text[begin : begin + 1] != b"[":
            return tags, end, fault
        tag = _TAG.match(text, begin)
        if tag is None or _INNER_TAG.search(tag[2]):
            return tags, end, NOT_A_TAG
        name = tag[1].decode()
        if name in tags and text[slice(*tags[name])] != tag[2]:
            fault = TWO_VALUES
        tags[name], end = tag.span(2), tag.end()
