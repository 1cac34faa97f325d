"""Interpret the properties of a game: size, komi, result, date, rank, rules; unclear values stay unknown."""

from __future__ import annotations

import math
import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?|[+-]?[.,]\d+")
_RESULT = re.compile(r"(B|W|Black|White)(?:\s*\+\s*(.*))?", re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_RANK = re.compile(r"(P?)\s*(\d{1,2})\s*(dan pro|[a-z]+|段|级|級|品|단|급|段位)?", re.IGNORECASE)
_LARGEST_KOMI = 625.0
_MOST_STONES = 5

UNKNOWN_RANK = -128
PROFESSIONAL = 100


class KomiRule(IntEnum):
    """How KM was converted to points of compensation for White."""

    MISSING = 0
    AS_WRITTEN = 1
    HUNDREDTHS = 2
    """650 is 6.5."""
    HUNDREDTHS_DOUBLED = 3
    """375 is 7.5: hundredths of stones as area counting halves them."""
    DOUBLED = 4
    """3.75 is 7.5: stones as area counting halves them."""
    UNREADABLE = 5


class HandicapRule(IntEnum):
    """How the number of handicap stones was determined."""

    NONE = 0
    ROOT = 1
    """Black stones are set up in the root."""
    LATER_NODE = 2
    """Black stones are set up in a node after it."""
    MOVES = 3
    """HA equals the number of stones that Black plays before White begins."""
    PLACED = 4
    """HA alone, and White begins: the stones are on the customary points."""
    STATED_ONLY = 5
    """HA alone, and Black begins with fewer stones: an even game."""
    POSITION = 6
    """White stones are set up as well: a position, not a handicap."""
    UNPLACED = 7
    """HA alone, and White begins, on a board without customary points for that many stones."""


class ResultKind(IntEnum):
    """How a game ended."""

    UNKNOWN = 0
    SCORE = 1
    RESIGNATION = 2
    TIME = 3
    FORFEIT = 4
    WIN = 5
    """The winner is known, but not how."""
    DRAW = 6
    VOID = 7


class Ruleset(IntEnum):
    """Rules of play."""

    UNKNOWN = 0
    JAPANESE = 1
    KOREAN = 2
    CHINESE = 3
    AGA = 4
    NEW_ZEALAND = 5
    ING = 6
    TROMP_TAYLOR = 7


SUICIDE_ALLOWED = frozenset((Ruleset.NEW_ZEALAND, Ruleset.ING, Ruleset.TROMP_TAYLOR))
SUPERKO = {Ruleset.CHINESE: 1, Ruleset.AGA: 2, Ruleset.NEW_ZEALAND: 2, Ruleset.TROMP_TAYLOR: 1}
"""1: no position twice; 2: no position twice with the same side to move. Other rulesets have only simple ko."""
_RULESETS = {
    "japanese": Ruleset.JAPANESE,
    "japan": Ruleset.JAPANESE,
    "jp": Ruleset.JAPANESE,
    "korean": Ruleset.KOREAN,
    "korea": Ruleset.KOREAN,
    "chinese": Ruleset.CHINESE,
    "china": Ruleset.CHINESE,
    "cn": Ruleset.CHINESE,
    "aga": Ruleset.AGA,
    "nz": Ruleset.NEW_ZEALAND,
    "newzealand": Ruleset.NEW_ZEALAND,
    "ing": Ruleset.ING,
    "goe": Ruleset.ING,
    "tromptaylor": Ruleset.TROMP_TAYLOR,
    "tt": Ruleset.TROMP_TAYLOR,
}


class Outcome(NamedTuple):
    """RE as stored: winner 1 Black, -1 White, 0 nobody or unknown; margin in points, NaN if not counted."""

    winner: int
    kind: ResultKind
    margin: float


@lru_cache(maxsize=4096)
def board_size(raw: bytes) -> int:
    """Side of the board: 19 if SZ is missing, 0 if not square, -1 if invalid."""
    if not raw.strip():
        return 19
    try:
        sides = [int(side) for side in raw.split(b":")]
    except ValueError:
        return -1
    return sides[0] if len(set(sides)) == 1 else 0


@lru_cache(maxsize=4096)
def komi(raw: bytes) -> tuple[float, KomiRule]:
    """Points given to White, and the rule used.

    Some servers write hundredths, and area counting uses half the points: 7.5 points are 3.75 stones. Whole numbers
    from 100, and quarters below 5 stones, can have no other meaning, as nobody gives 10 or more points in such steps.
    """
    if not raw.strip():
        return math.nan, KomiRule.MISSING
    text = raw.decode("latin-1").strip()
    if not _NUMBER.fullmatch(text):
        return math.nan, KomiRule.UNREADABLE
    value = float(text.replace(",", "."))
    if text.isdigit() and 100 <= value <= 1000 and value % 25 == 0:
        if value < 100 * _MOST_STONES and (value % 50 or value == 350):
            return value / 50, KomiRule.HUNDREDTHS_DOUBLED
        return value / 100, KomiRule.HUNDREDTHS
    if value % 0.5 == 0.25 and abs(value) < _MOST_STONES:
        return value * 2, KomiRule.DOUBLED
    if abs(value) > _LARGEST_KOMI:
        return math.nan, KomiRule.UNREADABLE
    return value, KomiRule.AS_WRITTEN


@lru_cache(maxsize=4096)
def result(raw: bytes) -> Outcome:
    """Winner and kind of result. A result without a named winner is a draw, void or unknown, never a win."""
    text = raw.decode("latin-1").strip()
    found = _RESULT.fullmatch(text)
    if not found:
        word = text.lower()
        if word in ("0", "draw", "jigo", "tie"):
            return Outcome(0, ResultKind.DRAW, 0.0)
        return Outcome(0, ResultKind.VOID if word == "void" else ResultKind.UNKNOWN, math.nan)
    winner = 1 if found[1][0] in "bB" else -1
    how = (found[2] or "").strip().lower()
    for prefix, kind in (("r", ResultKind.RESIGNATION), ("t", ResultKind.TIME), ("f", ResultKind.FORFEIT)):
        if how.startswith(prefix):
            return Outcome(winner, kind, math.nan)
    number = _NUMBER.match(how)
    points = float(number[0].replace(",", ".")) if number else 0.0
    if points > 0:
        return Outcome(winner, ResultKind.SCORE, points)
    return Outcome(winner, ResultKind.WIN, math.nan)


@lru_cache(maxsize=4096)
def date(raw: bytes) -> int:
    """The first day of DT as year * 10000 + month * 100 + day; 00 for unknown parts, 0 without a date."""
    found = _DATE.search(raw.decode("latin-1"))
    if not found:
        return 0
    year, month, day = (int(part or 0) for part in found.groups())
    if month > 12:
        month = day = 0
    return year * 10_000 + month * 100 + (day if day <= 31 else 0)


@lru_cache(maxsize=4096)
def rank(text: str) -> int:
    """A rank as a number: 9 dan 9, 1 dan 1, 1 kyu 0, 30 kyu -29, professional 9 dan 109; -128 unknown."""
    found = _RANK.match(text.strip())
    if not found or not 1 <= int(found[2]) <= 30:
        return UNKNOWN_RANK
    number, unit = int(found[2]), (found[3] or "").lower()
    professional = bool(found[1]) or unit in ("p", "pro", "品", "dan pro")
    if professional or unit in ("d", "dan", "段", "단", "段位"):
        if number > 9:
            return UNKNOWN_RANK
        return number + PROFESSIONAL * professional
    if unit in ("k", "kyu", "gup", "级", "級", "급"):
        return 1 - number
    return UNKNOWN_RANK


@lru_cache(maxsize=4096)
def rules(raw: bytes) -> Ruleset:
    """The ruleset named by RU."""
    word = re.sub(r"[^a-z]", "", raw.decode("latin-1").lower()).removesuffix("rules").removesuffix("rule")
    return _RULESETS.get(word, Ruleset.UNKNOWN)
