"""What properties mean, and that what is unclear stays unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.go.sgf.meaning import (
    RULES,
    UNKNOWN_RANK,
    KomiRule,
    ResultKind,
    Ruleset,
    Scoring,
    board_size,
    contradict,
    date,
    komi,
    rank,
    result,
    rules,
    stones_stated,
)

KOMI = {
    KomiRule.MISSING: "=nan",
    KomiRule.AS_WRITTEN: (
        "6.5=6.5| 0.50 =0.5|6,5=6.5|-100.00=-100|0=0|6.75=6.75|-6.75=-6.75|5.25=5.25|6.5 points=6.5|50.00=50|25=25|"
        "-25.00=-25|6½=6.5|6目半=6.5|６．５目=6.5|3又3/4子=7.5|-3.75子=-7.5"
    ),
    KomiRule.HUNDREDTHS: "650=6.5|550=5.5|700=7|675=6.75|525=5.25|50=0.5|-50=-0.5|-550=-5.5",
    KomiRule.HUNDREDTHS_DOUBLED: "375=7.5|325=6.5|275=5.5|350=7|475=9.5|-375=-7.5|75=1.5",
    KomiRule.DOUBLED: "3.75=7.5|2.75=5.5|4.75=9.5|-3.75=-7.5|3 3/4=7.5",
    KomiRule.UNREADABLE: f"six=nan|6.5 points or so=nan|99999=nan|{'9' * 400}=nan|6目半1=nan|7/0=nan",
}
RESULTS = {
    (1, ResultKind.RESIGNATION, math.nan): (
        "B+R|Black+Resign|黑中盘胜|黒中押|흑 불계승|B+中盘|White resigns.|White resigned by phone|"
        "Black wins by resignation"
    ),
    (-1, ResultKind.RESIGNATION, math.nan): "W+Resign|白中押し勝ち|W+R.|Black resigns. W 133|W by resign",
    (1, ResultKind.TIME, math.nan): "白超时,黑胜|White loses on time",
    (-1, ResultKind.TIME, math.nan): "W+Time|白超时胜|黑超时负|White won on time",
    (1, ResultKind.FORFEIT, math.nan): "b+forfeit",
    (1, ResultKind.SCORE, 0.5): "B+1⁄2",
    (1, ResultKind.SCORE, 1.5): "黑胜3/4子|B+3/4|B+0.75|黑胜0.75子",
    (1, ResultKind.SCORE, 2.0): "B+2 points",
    (1, ResultKind.SCORE, 3.5): "B + 3.5|黒3目半勝|黒番3目半勝ち|B+1 3/4|Black wins by 3.5 points",
    (1, ResultKind.SCORE, 12.5): "B+12.5, 250 moves",
    (1, ResultKind.SCORE, 40.5): "B+20,25",
    (-1, ResultKind.SCORE, 0.5): "W+0,5|白半目勝|W+¼|W+½",
    (-1, ResultKind.SCORE, 2.5): "백 2집반승|W+1.25|W+2½ (moves: 250)",
    (-1, ResultKind.SCORE, 3.5): "W+3½|W+1 又 3/4子",
    (-1, ResultKind.SCORE, 12.5): "W+12.50 (moves)",
    (1, ResultKind.WIN, math.nan): (
        "B+|B+zhong|B|Black wins|B+1/0|B+1-3/4|B+1.3/4|B+1e2|B+1 & ½|B+3.5.2|black by two points|B+" + "9" * 400
    ),
    (-1, ResultKind.WIN, math.nan): "W| w |White|白胜|W+0.02|W+1/3|W+6.3|W+0.3子|W+1000.5|White wins",
    (0, ResultKind.DRAW, 0.0): "0|Draw|Jigo|持碁",
    (0, ResultKind.VOID, math.nan): "Void|無勝負",
    (0, ResultKind.UNKNOWN, math.nan): (
        "BW|W-5|?||黑白|Black forfeits|Blackburn wins|B. Jones wins|Black and White lose|White to play|B+-3.5|"
        "B+0|B+0.0|B+-0.5 points|W+-3.5|W+0|W+0.0|W+-0.5 points"
    ),
}
RANKS = (
    "9d=9|9段=9|九段=9|９段=9|1 dan=1|初段=1|4d?=4|业余5段=5|アマ五段=5|1k=0|30 kyu=-29|3级=-2|三级=-2|二十五級=-24|"
    "十八級=-17|P9段=109|9 dan pro=109|职业九段=109|5p=105|プロ初段=101|八品=108|=-128|NR=-128|?=-128|99d=-128|"
    "12d=-128|1500=-128|初=-128"
)
DATES = (
    "2001-06-03=20010603|1846-07-21,22=18460721|1999-05=19990500|1999=19990000|2017/11/8=20171108|2017-13-40=20170000|"
    "yesterday=0|=0"
)
SIDES = f"19=19|=19| 9 =9|13:13=13|19x19=19|9×9=9|19x9=0|{'9' * 5000}=-1|19:9=0|big=-1|-3=-3"
STONES = "2=2| 9 =9|=-1|2.5=-1|99999=999"
KATAGO, SIMPLE = "koPOSITIONALscoreAREAtaxNONEsui1", "koSIMPLEscoreAREAtaxALLsui0whbN"
BUTTON = b"koPOSITIONALscoreAREAtaxSEKIsui1button1whbN"


def pairs(table: str) -> list[tuple[str, float]]:
    """Texts and numbers of ``text=number|text=number``."""
    return [(text, float(number)) for text, _, number in (pair.rpartition("=") for pair in table.split("|"))]


@pytest.mark.parametrize(
    ("text", "points", "rule"), [(*pair, rule) for rule, table in KOMI.items() for pair in pairs(table)]
)
def test_komi(text: str, points: float, rule: KomiRule) -> None:
    np.testing.assert_equal(komi(text.encode()), (points, rule))


@pytest.mark.parametrize(
    ("text", "expected"), [(text, expected) for expected, texts in RESULTS.items() for text in texts.split("|")]
)
def test_result(text: str, expected: tuple[int, ResultKind, float]) -> None:
    np.testing.assert_equal(tuple(result(text)), expected)


def test_ranks_dates_sizes_and_handicaps() -> None:
    assert [(text, rank(text)) for text, _ in pairs(RANKS)] == pairs(RANKS)
    for read, table in ((date, DATES), (board_size, SIDES), (stones_stated, STONES)):
        assert [(text, read(text.encode())) for text, _ in pairs(table)] == pairs(table)
    assert UNKNOWN_RANK == -128
    assert stones_stated(b"\xb2") == -1


@pytest.mark.parametrize(
    ("text", "ruleset", "suicide", "superko", "scoring"),
    [
        ("Japanese", Ruleset.JAPANESE, False, 0, Scoring.TERRITORY),
        ("chinese rules", Ruleset.CHINESE, False, 1, Scoring.AREA),
        ("AGA", Ruleset.AGA, False, 2, Scoring.AREA),
        ("New Zealand", Ruleset.NEW_ZEALAND, True, 2, Scoring.AREA),
        ("NZ", Ruleset.NEW_ZEALAND, True, 2, Scoring.AREA),
        ("GOE", Ruleset.ING, True, 0, Scoring.AREA),
        ("Tromp-Taylor", Ruleset.TROMP_TAYLOR, True, 1, Scoring.AREA),
        (KATAGO, Ruleset.KATAGO, True, 1, Scoring.AREA),
        (SIMPLE, Ruleset.KATAGO, False, 0, Scoring.AREA),
        ("house rules", Ruleset.UNKNOWN, False, 0, Scoring.UNKNOWN),
        ("", Ruleset.UNKNOWN, False, 0, Scoring.UNKNOWN),
    ],
)
def test_rules(text: str, ruleset: Ruleset, suicide: bool, superko: int, scoring: Scoring) -> None:
    assert rules(text.encode()) == (ruleset, suicide, superko, scoring, False)


@given(st.binary(max_size=20))
def test_nothing_is_too_odd(raw: bytes) -> None:
    for read in (komi, date, rules, board_size, stones_stated):
        read(raw)
    for text in (raw.decode("latin-1"), raw.decode("gb18030", "replace")):
        result(text), rank(text)


@pytest.mark.parametrize(
    ("raw", "ruleset", "expected"),
    [
        (b"50", BUTTON, 50.0),
        (b"75", b"koSIMPLEscoreTERRITORYtaxSEKIsui0", 75.0),
        (b"-50", BUTTON, -50.0),
        (b"100", b"koSIMPLEscoreAREAtaxNONEsui0whb0", 100.0),
        (b"3.75", BUTTON, 3.75),
        (b"50", b"Chinese", 0.5),
    ],
)
def test_komi_of_katago_is_in_points(raw: bytes, ruleset: bytes, expected: float) -> None:
    assert komi(raw, ruleset)[0] == expected


@pytest.mark.parametrize(
    ("ruleset", "has_button"),
    [(BUTTON, True), (b"koSIMPLEscoreAREAtaxALLsui0button0", False), (b"AGA button", True), (b"AGA", False)],
)
def test_a_button_is_worth_half_a_point(ruleset: bytes, has_button: bool) -> None:
    stated = rules(ruleset)
    assert stated.button is has_button
    halves = [komi for komi in (6.5, 7.0) if contradict(komi, result("B+3"), stated)]
    assert halves == ([7.0] if has_button else [6.5])


def test_each_named_ruleset_states_how_it_scores() -> None:
    unstated = {ruleset for ruleset in Ruleset if ruleset not in RULES}
    assert unstated == {Ruleset.UNKNOWN, Ruleset.KATAGO}


def test_small_hundredths_of_fox() -> None:
    assert komi(b"25", fox=True) == (0.5, KomiRule.HUNDREDTHS_DOUBLED)
    assert komi(b"0", fox=True) == (0.0, KomiRule.AS_WRITTEN)
