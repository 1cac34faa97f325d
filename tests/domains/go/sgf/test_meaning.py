"""What properties mean, and that what is unclear stays unknown."""

from __future__ import annotations

import math

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
)


@pytest.mark.parametrize(
    ("raw", "points", "rule"),
    [
        (b"6.5", 6.5, KomiRule.AS_WRITTEN),
        (b" 0.50 ", 0.5, KomiRule.AS_WRITTEN),
        (b"6,5", 6.5, KomiRule.AS_WRITTEN),
        (b"-100.00", -100.0, KomiRule.AS_WRITTEN),
        (b"0", 0.0, KomiRule.AS_WRITTEN),
        (b"650", 6.5, KomiRule.HUNDREDTHS),
        (b"550", 5.5, KomiRule.HUNDREDTHS),
        (b"700", 7.0, KomiRule.HUNDREDTHS),
        (b"375", 7.5, KomiRule.HUNDREDTHS_DOUBLED),
        (b"325", 6.5, KomiRule.HUNDREDTHS_DOUBLED),
        (b"275", 5.5, KomiRule.HUNDREDTHS_DOUBLED),
        (b"350", 7.0, KomiRule.HUNDREDTHS_DOUBLED),
        (b"3.75", 7.5, KomiRule.DOUBLED),
        (b"2.75", 5.5, KomiRule.DOUBLED),
        (b"4.75", 9.5, KomiRule.DOUBLED),
        (b"-3.75", -7.5, KomiRule.DOUBLED),
        (b"6.75", 6.75, KomiRule.AS_WRITTEN),
        (b"-6.75", -6.75, KomiRule.AS_WRITTEN),
        (b"5.25", 5.25, KomiRule.AS_WRITTEN),
        (b"475", 9.5, KomiRule.HUNDREDTHS_DOUBLED),
        (b"675", 6.75, KomiRule.HUNDREDTHS),
        (b"525", 5.25, KomiRule.HUNDREDTHS),
        (b"", math.nan, KomiRule.MISSING),
        (b"six", math.nan, KomiRule.UNREADABLE),
        (b"6.5 points", 6.5, KomiRule.AS_WRITTEN),
        (b"6.5 points or so", math.nan, KomiRule.UNREADABLE),
        (b"99999", math.nan, KomiRule.UNREADABLE),
        (b"9" * 400, math.nan, KomiRule.UNREADABLE),
        (b"50", 0.5, KomiRule.HUNDREDTHS),
        (b"-50", -0.5, KomiRule.HUNDREDTHS),
        (b"-550", -5.5, KomiRule.HUNDREDTHS),
        (b"-375", -7.5, KomiRule.HUNDREDTHS_DOUBLED),
        (b"75", 1.5, KomiRule.HUNDREDTHS_DOUBLED),
        (b"50.00", 50.0, KomiRule.AS_WRITTEN),
        (b"25", 25.0, KomiRule.AS_WRITTEN),
        (b"-25.00", -25.0, KomiRule.AS_WRITTEN),
        ("6½".encode(), 6.5, KomiRule.AS_WRITTEN),
        (b"3 3/4", 7.5, KomiRule.DOUBLED),
        ("6目半".encode(), 6.5, KomiRule.AS_WRITTEN),
        ("６．５目".encode(), 6.5, KomiRule.AS_WRITTEN),
        ("3又3/4子".encode(), 7.5, KomiRule.AS_WRITTEN),
        ("-3.75子".encode(), -7.5, KomiRule.AS_WRITTEN),
        ("6目半1".encode(), math.nan, KomiRule.UNREADABLE),
        (b"7/0", math.nan, KomiRule.UNREADABLE),
    ],
)
def test_komi(raw: bytes, points: float, rule: KomiRule) -> None:
    found, how = komi(raw)
    assert how is rule
    assert found == points or (math.isnan(found) and math.isnan(points))


@pytest.mark.parametrize(
    ("text", "winner", "kind", "margin"),
    [
        ("B+R", 1, ResultKind.RESIGNATION, None),
        ("W+Resign", -1, ResultKind.RESIGNATION, None),
        ("W+Time", -1, ResultKind.TIME, None),
        ("b+forfeit", 1, ResultKind.FORFEIT, None),
        ("B + 3.5", 1, ResultKind.SCORE, 3.5),
        ("W+0,5", -1, ResultKind.SCORE, 0.5),
        ("W+12.50 (moves)", -1, ResultKind.SCORE, 12.5),
        ("B+", 1, ResultKind.WIN, None),
        ("B+zhong", 1, ResultKind.WIN, None),
        ("B", 1, ResultKind.WIN, None),
        ("W", -1, ResultKind.WIN, None),
        (" w ", -1, ResultKind.WIN, None),
        ("White", -1, ResultKind.WIN, None),
        ("Black+Resign", 1, ResultKind.RESIGNATION, None),
        ("BW", 0, ResultKind.UNKNOWN, None),
        ("W-5", 0, ResultKind.UNKNOWN, None),
        ("0", 0, ResultKind.DRAW, 0.0),
        ("Draw", 0, ResultKind.DRAW, 0.0),
        ("Jigo", 0, ResultKind.DRAW, 0.0),
        ("Void", 0, ResultKind.VOID, None),
        ("?", 0, ResultKind.UNKNOWN, None),
        ("", 0, ResultKind.UNKNOWN, None),
        ("Black wins", 1, ResultKind.WIN, None),
        ("黑中盘胜", 1, ResultKind.RESIGNATION, None),
        ("白中押し勝ち", -1, ResultKind.RESIGNATION, None),
        ("黒中押", 1, ResultKind.RESIGNATION, None),
        ("흑 불계승", 1, ResultKind.RESIGNATION, None),
        ("白超时胜", -1, ResultKind.TIME, None),
        ("黑超时负", -1, ResultKind.TIME, None),
        ("白超时,黑胜", 1, ResultKind.TIME, None),
        ("黒3目半勝", 1, ResultKind.SCORE, 3.5),
        ("黒番3目半勝ち", 1, ResultKind.SCORE, 3.5),
        ("白半目勝", -1, ResultKind.SCORE, 0.5),
        ("백 2집반승", -1, ResultKind.SCORE, 2.5),
        ("黑胜3/4子", 1, ResultKind.SCORE, 1.5),
        ("白胜", -1, ResultKind.WIN, None),
        ("B+中盘", 1, ResultKind.RESIGNATION, None),
        ("持碁", 0, ResultKind.DRAW, 0.0),
        ("無勝負", 0, ResultKind.VOID, None),
        ("黑白", 0, ResultKind.UNKNOWN, None),
        ("B+3/4", 1, ResultKind.SCORE, 1.5),
        ("B+1 3/4", 1, ResultKind.SCORE, 3.5),
        ("W+1.25", -1, ResultKind.SCORE, 2.5),
        ("W+¼", -1, ResultKind.SCORE, 0.5),
        ("B+0.75", 1, ResultKind.SCORE, 1.5),
        ("B+20,25", 1, ResultKind.SCORE, 40.5),
        ("黑胜0.75子", 1, ResultKind.SCORE, 1.5),
        *((f"W+{number}", -1, ResultKind.WIN, None) for number in ("0.02", "1/3", "6.3", "0.3子", "1000.5")),
        ("W+3½", -1, ResultKind.SCORE, 3.5),
        ("W+½", -1, ResultKind.SCORE, 0.5),
        ("B+2 points", 1, ResultKind.SCORE, 2.0),
        ("B+1⁄2", 1, ResultKind.SCORE, 0.5),
        ("W+1 又 3/4子", -1, ResultKind.SCORE, 3.5),
        ("W+2½ (moves: 250)", -1, ResultKind.SCORE, 2.5),
        ("B+12.5, 250 moves", 1, ResultKind.SCORE, 12.5),
        *((f"B+{number}", 1, ResultKind.WIN, None) for number in ("1/0", "1-3/4", "1.3/4", "1e2", "1 & ½", "3.5.2")),
        ("W+R.", -1, ResultKind.RESIGNATION, None),
        ("White resigns.", 1, ResultKind.RESIGNATION, None),
        ("Black resigns. W 133", -1, ResultKind.RESIGNATION, None),
        ("White resigned by phone", 1, ResultKind.RESIGNATION, None),
        ("Black wins by resignation", 1, ResultKind.RESIGNATION, None),
        ("W by resign", -1, ResultKind.RESIGNATION, None),
        ("White wins", -1, ResultKind.WIN, None),
        ("Black wins by 3.5 points", 1, ResultKind.SCORE, 3.5),
        ("black by two points", 1, ResultKind.WIN, None),
        ("White won on time", -1, ResultKind.TIME, None),
        ("White loses on time", 1, ResultKind.TIME, None),
        ("Black forfeits", 0, ResultKind.UNKNOWN, None),
        ("Blackburn wins", 0, ResultKind.UNKNOWN, None),
        ("B. Jones wins", 0, ResultKind.UNKNOWN, None),
        ("Black and White lose", 0, ResultKind.UNKNOWN, None),
        ("White to play", 0, ResultKind.UNKNOWN, None),
        *(
            (f"{winner}+{margin}", 0, ResultKind.UNKNOWN, None)
            for winner in "BW"
            for margin in ("-3.5", "0", "0.0", "-0.5 points")
        ),
        ("B+" + "9" * 400, 1, ResultKind.WIN, None),
    ],
)
def test_result(text: str, winner: int, kind: ResultKind, margin: float | None) -> None:
    found = result(text)
    assert (found.winner, found.kind) == (winner, kind)
    assert found.margin == margin if margin is not None else math.isnan(found.margin)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9d", 9),
        ("1 dan", 1),
        ("9段", 9),
        ("P9段", 109),
        ("5p", 105),
        ("9 dan pro", 109),
        ("1k", 0),
        ("30 kyu", -29),
        ("3级", -2),
        ("4d?", 4),
        ("", UNKNOWN_RANK),
        ("NR", UNKNOWN_RANK),
        ("?", UNKNOWN_RANK),
        ("99d", UNKNOWN_RANK),
        ("12d", UNKNOWN_RANK),
        ("1500", UNKNOWN_RANK),
        ("九段", 9),
        ("初段", 1),
        ("三级", -2),
        ("二十五級", -24),
        ("十八級", -17),
        ("业余5段", 5),
        ("アマ五段", 5),
        ("职业九段", 109),
        ("プロ初段", 101),
        ("八品", 108),
        ("９段", 9),
        ("初", UNKNOWN_RANK),
    ],
)
def test_rank(text: str, expected: int) -> None:
    assert rank(text) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"2001-06-03", 20010603),
        (b"1846-07-21,22", 18460721),
        (b"1999-05", 19990500),
        (b"1999", 19990000),
        (b"2017/11/8", 20171108),
        (b"2017-13-40", 20170000),
        (b"yesterday", 0),
        (b"", 0),
    ],
)
def test_date(raw: bytes, expected: int) -> None:
    assert date(raw) == expected


@pytest.mark.parametrize(
    ("raw", "side"),
    [
        (b"19", 19),
        (b"", 19),
        (b" 9 ", 9),
        (b"13:13", 13),
        (b"19x19", 19),
        ("9×9".encode(), 9),
        (b"19x9", 0),
        (b"9" * 5000, -1),
        (b"19:9", 0),
        (b"big", -1),
        (b"-3", -3),
    ],
)
def test_board_size(raw: bytes, side: int) -> None:
    assert board_size(raw) == side


@pytest.mark.parametrize(
    ("raw", "ruleset"),
    [
        (b"Japanese", Ruleset.JAPANESE),
        (b"chinese rules", Ruleset.CHINESE),
        (b"AGA", Ruleset.AGA),
        (b"New Zealand", Ruleset.NEW_ZEALAND),
        (b"NZ", Ruleset.NEW_ZEALAND),
        (b"GOE", Ruleset.ING),
        (b"Tromp-Taylor", Ruleset.TROMP_TAYLOR),
        (b"house rules", Ruleset.UNKNOWN),
        (b"", Ruleset.UNKNOWN),
    ],
)
def test_rules(raw: bytes, ruleset: Ruleset) -> None:
    assert rules(raw).ruleset is ruleset


@given(st.binary(max_size=20))
def test_nothing_is_too_odd(raw: bytes) -> None:
    (
        komi(raw),
        result(raw.decode("latin-1")),
        result(raw.decode("gb18030", "replace")),
        date(raw),
        rank(raw.decode("latin-1")),
        rules(raw),
        board_size(raw),
    )


@pytest.mark.parametrize(
    ("raw", "suicide", "superko", "scoring"),
    [
        (b"koPOSITIONALscoreAREAtaxNONEsui1", True, 1, Scoring.AREA),
        (b"koSIMPLEscoreAREAtaxALLsui0whbN", False, 0, Scoring.AREA),
        (b"Tromp-Taylor", True, 1, Scoring.AREA),
        (b"Japanese", False, 0, Scoring.TERRITORY),
        (b"house rules", False, 0, Scoring.UNKNOWN),
    ],
)
def test_rules_decide_suicide_repetition_and_scoring(raw: bytes, suicide: bool, superko: int, scoring: Scoring) -> None:
    assert rules(raw)[1:] == (suicide, superko, scoring, False)


BUTTON = b"koPOSITIONALscoreAREAtaxSEKIsui1button1whbN"


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
