"""Interpret the properties of a game: size, komi, result, date, rank, rules; unclear values stay unknown."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from outofcore.domains.go.sgf.encoding import remembered

_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?|[+-]?[.,]\d+")
_MIXED = re.compile(r"(?:(\d+)(?:\s+|\s*[+又と]\s*))?(\d+)\s*[/⁄]\s*(\d+)")  # 3/4, 1 3/4
_SIGNED = re.compile(r"(\d*)\s*([¼½¾])")
_SIGNS = {"¼": 0.25, "½": 0.5, "¾": 0.75}
_UNITS = re.compile(r"\s*([目집호点子]|points?|pts)?\s*(半|반)?(.*)", re.DOTALL)
_MORE = re.compile(r"[^(,;]*[\d¼½¾]")  # a number that is not read whole
_GIVES = re.compile(r"^[黑黒]?[贴貼]目?")
_RESULT = re.compile(r"(B|W|Black|White)\s*(\+.*)?", re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_RANK = re.compile(r"(P?)\s*(\d{1,2})\s*(dan pro|[a-z]+|段|级|級|品|단|급|段位)?", re.IGNORECASE)
_NUMERAL = re.compile(r"([初초一二三四五六七八九十]{1,3})\s*(?=[段级級品단급])")
_NUMERALS = {"初": 1, "초": 1, "十": 10, **{digit: n for n, digit in enumerate("一二三四五六七八九", 1)}}
_AMATEUR = re.compile(r"业余|業餘|業余|アマチュア|アマ|아마")
_PROFESSIONAL = re.compile(r"职业|職業|专业|プロ|프로")
_DRAWN = ("0", "draw", "jigo", "tie", "和棋", "和局", "平局", "持碁", "持棋", "ジゴ", "무승부")
_NO_RESULT = ("void", "無勝負", "无胜负", "无勝負", "무효")
_LARGEST_KOMI = 625.0
_LARGEST_MARGIN = 1000.0
_LARGEST_KOMI_IN_STONES = 5.0

UNKNOWN_RANK = -128
PROFESSIONAL = 100


class KomiRule(IntEnum):
    """How KM was converted to points of compensation for White."""

    MISSING = 0
    AS_WRITTEN = 1
    HUNDREDTHS = 2  # 650 is 6.5
    HUNDREDTHS_DOUBLED = 3  # 375 is 7.5: hundredths of stones as area counting halves them
    DOUBLED = 4  # 3.75 is 7.5: stones as area counting halves them
    UNREADABLE = 5
    CONTRADICTED = 6  # readable, but RE states a margin that no game with this komi has: unknown


class HandicapRule(IntEnum):
    """How the number of handicap stones was determined."""

    NONE = 0
    ROOT = 1  # Black stones are set up in the root
    LATER_NODE = 2  # Black stones are set up in a node after it
    MOVES = 3  # HA equals the number of stones that Black plays before White begins
    STATED_ONLY = 4  # HA alone, and Black begins with fewer stones: an even game
    POSITION = 5  # White stones are set up as well: a position, not a handicap
    OMITTED = 6  # HA alone, and White begins: where the stones are is unknown, and the game is rejected


class ResultKind(IntEnum):
    """How a game ended."""

    UNKNOWN = 0
    SCORE = 1
    RESIGNATION = 2
    TIME = 3
    FORFEIT = 4
    WIN = 5  # the winner is known, but not how
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
    KATAGO = 8  # rules spelled out as KataGo does: koPOSITIONALscoreAREAtaxNONEsui1


class Scoring(IntEnum):
    """What is counted at the end of a game."""

    UNKNOWN = 0
    AREA = 1  # stones and surrounded points
    TERRITORY = 2  # surrounded points and prisoners


_COLOUR = re.compile(r"(?P<black>[黑黒흑]|\bblack\b|^b(?=\s))|[白백]|\bwhite\b|^w(?=\s)", re.IGNORECASE)
_VERB = re.compile(
    r"(?P<wins>胜|勝|승|赢|贏|\b(?:wins?|won|by)\b)|负|負|敗|败|패|投了|投子|认输|認輸|\b(?:resigns|resigned|loses|lost)\b",
    re.IGNORECASE,
)
_BEFORE_MARGIN = re.compile(
    r"^(?:[黑黒흑白백番方棋이의の:,+\s]|\b(?:black|white|[bw]|wins?|won|by)\b)*(?:胜|勝ち?|승|赢|贏)?\s*", re.IGNORECASE
)
_HOW = {
    ResultKind.RESIGNATION: re.compile(r"^\+\s*r|resign|中盘|中盤|中押|불계|投了|投子|认输|認輸"),
    ResultKind.TIME: re.compile(r"^\+\s*t|\btime|超时|超時|时间|時間|시간"),
    ResultKind.FORFEIT: re.compile(r"^\+\s*f|forfeit|弃权|棄権|棄權|不戦|不战|기권|犯规|犯規|反則|반칙"),
}
RULES = {
    Ruleset.JAPANESE: (("japanese", "japan", "jp"), False, 0, Scoring.TERRITORY),
    Ruleset.KOREAN: (("korean", "korea"), False, 0, Scoring.TERRITORY),
    Ruleset.CHINESE: (("chinese", "china", "cn"), False, 1, Scoring.AREA),
    Ruleset.AGA: (("aga",), False, 2, Scoring.AREA),
    Ruleset.NEW_ZEALAND: (("nz", "newzealand"), True, 2, Scoring.AREA),
    Ruleset.ING: (("ing", "goe"), True, 0, Scoring.AREA),
    Ruleset.TROMP_TAYLOR: (("tromptaylor", "tt"), True, 1, Scoring.AREA),
}
"""Names; whether suicide is allowed; which repetition is forbidden (0: a ko; 1: any position; 2: with the same side to
move); what is counted."""
_RULESETS = {name: ruleset for ruleset, (names, *_) in RULES.items() for name in names}
_KATAGO = re.compile(r"ko(simple|positional|situational|spight)score(area|territory)tax\w*?sui([01])", re.IGNORECASE)
_BUTTON = re.compile(r"button(?!0)", re.IGNORECASE)


class GameResult(NamedTuple):
    """RE as stored: winner 1 Black, -1 White, 0 nobody or unknown; margin in points, NaN if not counted."""

    winner: int
    kind: ResultKind
    margin: float


class StatedRules(NamedTuple):
    """What RU says."""

    ruleset: Ruleset
    suicide: bool  # allowed
    superko: int  # see RULES
    scoring: Scoring
    button: bool  # worth half a point to who takes it


@remembered
def board_size(raw: bytes) -> int:
    """Side of the board: 19 if SZ is missing, 0 if not square, -1 if invalid."""
    if not raw.strip():
        return 19
    try:
        sides = [int(side) for side in re.split(rb"[:xX*]|\xc3\x97|\xd7", raw)]
    except ValueError:
        return -1
    return sides[0] if len(set(sides)) == 1 else 0


def points(text: str) -> tuple[float, str]:
    """The number at the beginning of a text, and what follows it: 3.5, 3/4, 1 3/4, 3½, 3目半; NaN without one."""
    number = _MIXED.match(text)
    if number and int(number[3]):
        value = int(number[1] or 0) + int(number[2]) / int(number[3])
    elif number := _SIGNED.match(text):
        value = int(number[1] or 0) + _SIGNS[number[2]]
    elif number := _NUMBER.match(text):
        value = float(number[0].replace(",", "."))
    elif text.startswith(("半", "반")):
        return 0.5, text[1:]
    else:
        return math.nan, text
    ((unit, half, rest), *_) = _UNITS.findall(text[number.end() :])
    value += 0.5 if half else 0.0
    return 2 * value if unit == "子" else value, rest  # area counting halves points


def quarters_doubled(value: float, most: float = math.inf) -> tuple[float, bool]:
    """Points of a number in KM or RE, and whether it was doubled.

    Area counting halves points, so quarters up to ``most`` are stones (子): 3.75 stones are 7.5 points.
    """
    in_stones = value % 0.5 == 0.25 and value < most
    return (2 * value, True) if in_stones else (value, False)


def _plain(text: str) -> str:
    return text.strip() if set(text) & set(_SIGNS) else unicodedata.normalize("NFKC", text).strip()


@remembered
def komi(raw: bytes, ruleset: bytes = b"", *, fox: bool = False) -> tuple[float, KomiRule]:
    """Points given to White by KM, and the rule used; ``ruleset`` is RU.

    KataGo writes points. Some servers write hundredths, and area counting halves points, see :func:`quarters_doubled`.
    Whole multiples of 25 from 50 on (in files of Fox: from 25 on), and quarters below 5 stones, can have no other
    meaning: nobody gives so many points in such steps without a decimal point. The sign is White's or Black's favour as
    usual.
    """
    if not raw.strip():
        return math.nan, KomiRule.MISSING
    text = _GIVES.sub("", _plain(raw.decode("utf-8", "replace")))
    sign = -1 if text.startswith(("-", "−")) else 1
    plain = text.lstrip("+-−").strip()
    value, rest = points(plain)
    if math.isnan(value) or rest or len(text) - len(plain) > 2:
        return math.nan, KomiRule.UNREADABLE
    in_points = rules(ruleset).ruleset is Ruleset.KATAGO
    if not in_points and plain.isdecimal() and (25 if fox else 50) <= value <= 1000 and value % 25 == 0:
        if value < 100 * _LARGEST_KOMI_IN_STONES and (value % 50 or value == 350):
            return sign * value / 50, KomiRule.HUNDREDTHS_DOUBLED
        return sign * value / 100, KomiRule.HUNDREDTHS
    value, is_doubled = quarters_doubled(value, 0 if in_points else _LARGEST_KOMI_IN_STONES)
    if not value <= _LARGEST_KOMI:
        return math.nan, KomiRule.UNREADABLE
    return (sign * value if value else 0.0), KomiRule.DOUBLED if is_doubled else KomiRule.AS_WRITTEN


@remembered
def result(text: str) -> GameResult:
    """Winner and kind of result. A result without a named winner is a draw, void or unknown, never a win."""
    text = _plain(text)
    word = text.lower()
    if word in _DRAWN:
        return GameResult(0, ResultKind.DRAW, 0.0)
    if word in _NO_RESULT:
        return GameResult(0, ResultKind.VOID, math.nan)
    match = _RESULT.fullmatch(text)
    if match:
        winner, how = (1 if match[1][0] in "bB" else -1), (match[2] or "").lower()
    else:
        winner, how = _winner(text), word
    for kind, pattern in _HOW.items():
        if winner and pattern.search(how):
            return GameResult(winner, kind, math.nan)
    value, rest = points(_BEFORE_MARGIN.sub("", how))
    margin, _ = quarters_doubled(value)
    if not winner or margin <= 0:  # who is ahead by nothing, or by less, has not won
        return GameResult(0, ResultKind.UNKNOWN, math.nan)
    if 0 < margin <= _LARGEST_MARGIN and margin % 0.5 == 0 and not _MORE.match(rest):
        return GameResult(winner, ResultKind.SCORE, margin)
    return GameResult(winner, ResultKind.WIN, math.nan)


def contradict(komi: float, result: GameResult, rules: StatedRules) -> bool:
    """Whether no game with this komi ends with this margin: without komi and button, whole points are counted."""
    halves = 0.5 if rules.button else 0.0
    return result.kind is ResultKind.SCORE and (komi + result.margin + halves) % 1 > 0  # False if komi is unknown


def _winner(text: str) -> int:
    """The winner that a result in words names: 1 Black, -1 White, 0 none."""
    verb = _VERB.search(text)
    named = [1 if colour["black"] else -1 for colour in _COLOUR.finditer(text, 0, verb.start() if verb else len(text))]
    if not named or (text.isascii() and not verb) or ((text.isascii() or not verb) and len(set(named)) > 1):
        return 0
    return named[-1] if not verb or verb["wins"] else -named[-1]


@remembered
def date(raw: bytes) -> int:
    """The first day of DT as year * 10000 + month * 100 + day; 00 for unknown parts, 0 without a date."""
    match = _DATE.search(raw.decode("latin-1"))
    if not match:
        return 0
    year, month, day = (int(part or 0) for part in match.groups())
    if month > 12:
        month = day = 0
    return year * 10_000 + month * 100 + (day if day <= 31 else 0)


@remembered
def rank(text: str) -> int:
    """A rank as a number: 9 dan 9, 1 dan 1, 1 kyu 0, 30 kyu -29, professional 9 dan 109; -128 unknown."""
    text = unicodedata.normalize("NFKC", text)
    amateur, known = _AMATEUR.search(text), _PROFESSIONAL.search(text)
    text = _NUMERAL.sub(_number, _PROFESSIONAL.sub("", _AMATEUR.sub("", text)))
    match = _RANK.match(text.strip())
    if not match or not 1 <= int(match[2]) <= 30:
        return UNKNOWN_RANK
    number, unit = int(match[2]), (match[3] or "").lower()
    professional = not amateur and (bool(match[1] or known) or unit in ("p", "pro", "品", "dan pro"))
    if professional or unit in ("d", "dan", "段", "단", "段位"):
        if number > 9:
            return UNKNOWN_RANK
        return number + PROFESSIONAL * professional
    if unit in ("k", "kyu", "gup", "级", "級", "급"):
        return 1 - number
    return UNKNOWN_RANK


def _number(numeral: re.Match[str]) -> str:
    """A Chinese number below 100, as digits."""
    tens, ten, ones = numeral[1].rpartition("十")
    if not ten:
        return str(_NUMERALS[ones]) if len(ones) == 1 else numeral[1]
    return str(10 * _NUMERALS.get(tens, 1) + _NUMERALS.get(ones, 0))


@remembered
def rules(raw: bytes) -> StatedRules:
    """The ruleset named by RU, and what it says about suicide, repetition, scoring and a button."""
    text = raw.decode("latin-1")
    spelled, button = _KATAGO.match(text.strip()), _BUTTON.search(text) is not None
    if spelled:
        superko = {"positional": 1, "situational": 2}.get(spelled[1].lower(), 0)
        return StatedRules(Ruleset.KATAGO, spelled[3] == "1", superko, Scoring[spelled[2].upper()], button)
    word = re.sub(r"[^a-z]", "", _BUTTON.sub("", text.lower())).removesuffix("rules").removesuffix("rule")
    ruleset = _RULESETS.get(word, Ruleset.UNKNOWN)
    return StatedRules(ruleset, *RULES.get(ruleset, ((), False, 0, Scoring.UNKNOWN))[1:], button)


def stones_stated(raw: bytes) -> int:
    """The number in HA; -1 if missing or invalid."""
    text = raw.strip()
    return min(int(text[:9]), 999) if text.isdigit() else -1


def handicap(stated: int, opening: Sequence[int]) -> tuple[int, HandicapRule]:
    """Stones given to Black and the rule, from HA and the row of the game's openings."""
    black, other, node, leading, colour = opening
    if black or other:
        if other:
            return 0, HandicapRule.POSITION
        return black, HandicapRule.ROOT if node == 0 else HandicapRule.LATER_NODE
    if stated < 2:
        return 0, HandicapRule.NONE
    if leading >= stated:
        return stated, HandicapRule.MOVES
    if colour != 1:  # White does not begin
        return 0, HandicapRule.STATED_ONLY
    return stated, HandicapRule.OMITTED
