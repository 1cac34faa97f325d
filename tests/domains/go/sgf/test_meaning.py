"""What properties mean, and that what is unclear stays unknown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.go.sgf.meaning import (
    UNKNOWN_RANK,
    KomiRule,
    ResultKind,
    Ruleset,
    board_size,
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
        (b"6.5 points", math.nan, KomiRule.UNREADABLE),
        (b"99999", math.nan, KomiRule.UNREADABLE),
        ("6目半".encode(), math.nan, KomiRule.UNREADABLE),
    ],
)
def test_komi(raw: bytes, points: float, rule: KomiRule) -> None:
    found, how = komi(raw)
    assert how is rule
    assert found == points or (math.isnan(found) and math.isnan(points))


@pytest.mark.parametrize(
    ("raw", "winner", "kind", "margin"),
    [
        (b"B+R", 1, ResultKind.RESIGNATION, None),
        (b"W+Resign", -1, ResultKind.RESIGNATION, None),
        (b"W+Time", -1, ResultKind.TIME, None),
        (b"b+forfeit", 1, ResultKind.FORFEIT, None),
        (b"B + 3.5", 1, ResultKind.SCORE, 3.5),
        (b"W+0,5", -1, ResultKind.SCORE, 0.5),
        (b"W+12.50 (moves)", -1, ResultKind.SCORE, 12.5),
        (b"W+0.0", -1, ResultKind.WIN, None),
        (b"B+", 1, ResultKind.WIN, None),
        (b"B+zhong", 1, ResultKind.WIN, None),
        (b"B", 1, ResultKind.WIN, None),
        (b"W", -1, ResultKind.WIN, None),
        (b" w ", -1, ResultKind.WIN, None),
        (b"White", -1, ResultKind.WIN, None),
        (b"Black+Resign", 1, ResultKind.RESIGNATION, None),
        (b"BW", 0, ResultKind.UNKNOWN, None),
        (b"W-5", 0, ResultKind.UNKNOWN, None),
        (b"0", 0, ResultKind.DRAW, 0.0),
        (b"Draw", 0, ResultKind.DRAW, 0.0),
        (b"Jigo", 0, ResultKind.DRAW, 0.0),
        (b"Void", 0, ResultKind.VOID, None),
        (b"?", 0, ResultKind.UNKNOWN, None),
        (b"", 0, ResultKind.UNKNOWN, None),
        (b"Black wins", 0, ResultKind.UNKNOWN, None),
        ("黑中盘胜".encode(), 0, ResultKind.UNKNOWN, None),
    ],
)
def test_result(raw: bytes, winner: int, kind: ResultKind, margin: float | None) -> None:
    found = result(raw)
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
    ("raw", "side"), [(b"19", 19), (b"", 19), (b" 9 ", 9), (b"13:13", 13), (b"19:9", 0), (b"big", -1), (b"-3", -3)]
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
    assert rules(raw) is ruleset


@given(st.binary(max_size=20))
def test_nothing_is_too_odd(raw: bytes) -> None:
    komi(raw), result(raw), date(raw), rank(raw.decode("latin-1")), rules(raw), board_size(raw)
