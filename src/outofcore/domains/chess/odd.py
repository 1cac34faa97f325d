"""Games that the strict grammar does not take, as python-chess reads them: what it reads without an error is a game.

Only text that may be parts of several games is refused before: :data:`FAULTS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from outofcore.domains.chess import oracle
from outofcore.domains.chess.engine import start_tags
from outofcore.domains.chess.pgn.facts import variant_of
from outofcore.domains.chess.pgn.games import Games, scan
from outofcore.domains.chess.pgn.grammar import CONFLICT, LONGEST_TAG_NAME, NO_RESULT
from outofcore.ndarrays import Bytes, Ints

FAULTS = (
    "",
    "a line of FEN, SetUp or Variant is no complete tag",
    "a tag has two values",
    "a tag or a second move 1 is among the moves",
    "the beginning of the moves is missing",
    "moves follow the result",
)
"""Why a piece of text is not surely one game; the first counts."""
_NOT_A_TAG, _TWO_VALUES, _SECOND_GAME, _REST_OF_GAME, _AFTER_RESULT = range(1, 6)

_BLANK = r"[ \t\v\f\0\x1a]"
_OPENED_TAG = rf'\[([A-Za-z0-9_+#=:./-]{{1,{LONGEST_TAG_NAME}}}){_BLANK}*"'
_ASIDE = re.compile(rb"(?:[\s\0\x1a]|\xef\xbb\xbf|[%;][^\r\n]*|\{[^}]*\})*")
_TAG = re.compile(rf'{_OPENED_TAG}([^\r\n]*)"{_BLANK}*\]{_BLANK}*(?=[\r\n]|\Z)'.encode())
_INNER_TAG = re.compile(_OPENED_TAG.encode())
_LINE = re.compile(rb"\[(?:(FEN|SetUp|Variant)\b)?[^\r\n]*")
_COMMENTS = re.compile(r"\{[^}]*\}?|;[^\r\n]*|^%[^\r\n]*", re.MULTILINE)
_SECOND = re.compile(rf"^[ \t]*{_OPENED_TAG}|(?<=\S)[ \t]*(?:\r\n?|\n)\s*[\r\n]1\.(?![\s.]*\.)", re.MULTILINE)
_LATER = re.compile(r"\s*(?!1\D)\d+\s*\.")


def read_pgn(
    data: Bytes, bounds: Ints | None = None, *, more_tags: Iterable[str] = (), comments: bool = False
) -> tuple[Games, dict[int, oracle.Reading]]:
    """:func:`scan`, the columns of the odd games filled in, and what python-chess reads of each of them."""
    games = scan(data, bounds, more_tags=more_tags, comments=comments)
    readings = {}
    for game in np.flatnonzero(games.odd).tolist():
        start = int(games.starts[game])
        spans, end, fault = _tags(data[start : games.ends[game]].tobytes())
        games.bodies[game] = start + end, games.ends[game]
        games.tags[game] = [np.add(spans[name], start) if name in spans else (-1, -1) for name in games.tag_names]
        body = games.body(game)
        reading = readings[game] = oracle.read(start_tags(games, variant_of(games, game), game), body)
        games.plies[game] = len(reading.comments)
        games.first_clocks[game] = [oracle.bracket_notes(texts)[0] for texts in (*reading.comments, [], [])[:2]]
        results = set(reading.results) or {NO_RESULT}
        games.results[game] = results.pop() if len(results) == 1 else CONFLICT
        moves = _COMMENTS.sub("", body)
        faults = {
            fault: True,
            _SECOND_GAME: _SECOND.search(moves),
            _REST_OF_GAME: not spans and _LATER.match(moves),
            _AFTER_RESULT: reading.moves_follow,
        }
        games.faults[game] = next((number for number, applies in faults.items() if number and applies), 0)
    return games, readings


def _tags(text: bytes) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Span of each tag's value, the end of the tags, and what is wrong with them.

    A line that opens a bracket and is no complete tag is skipped, as python-chess does.
    """
    tags: dict[str, tuple[int, int]] = {}
    fault, end = 0, 0
    while True:
        aside = _ASIDE.match(text, end)
        begin = aside.end() if aside else end
        line = _LINE.match(text, begin)
        if line is None:
            return tags, end, fault
        tag = _TAG.match(text, begin)
        if tag is None or _INNER_TAG.search(tag[2]):
            fault, end = fault or (_NOT_A_TAG if line[1] else 0), line.end()
            continue
        name = tag[1].decode()
        if name in tags and text[slice(*tags[name])] != tag[2]:
            fault = fault or _TWO_VALUES
        tags[name], end = tag.span(2), tag.end()
