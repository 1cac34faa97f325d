"""Handicap in all the places where files have it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule, handicap, stones_stated
from outofcore.domains.go.sgf.opening import openings
from outofcore.domains.go.sgf.reader import read_main_lines
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import stones


@pytest.mark.parametrize(
    ("game", "rule", "count", "on_board"),
    [
        (b"(;SZ[19]HA[2]AB[pd][dp];W[dd])", HandicapRule.ROOT, 2, 2),
        (b"(;SZ[19]HA[2];AB[pd][dp];W[dd])", HandicapRule.LATER_NODE, 2, 2),
        (b"(;SZ[19];AB[pd][dp][dd];W[pp])", HandicapRule.LATER_NODE, 3, 3),
        (b"(;SZ[19]AB[aa:ca];W[dd])", HandicapRule.ROOT, 3, 3),
        (b"(;SZ[19]HA[3]AB[aa:ca];W[dd])", HandicapRule.ROOT, 3, 3),
        (b"(;SZ[19]HA[2];B[pd];B[dp];W[dd])", HandicapRule.MOVES, 2, 0),
        (b"(;SZ[19]HA[4];B[pd];W[dp])", HandicapRule.STATED_ONLY, 0, 0),
        (b"(;SZ[19]HA[0];B[pd];W[dp])", HandicapRule.NONE, 0, 0),
        (b"(;SZ[19]HA[1];B[pd];W[dp])", HandicapRule.NONE, 0, 0),
        (b"(;SZ[19]HA[guest first];B[pd])", HandicapRule.NONE, 0, 0),
        (b"(;SZ[19]AB[pd]AW[dp];B[dd])", HandicapRule.POSITION, 0, 1),
    ],
)
def test_rules(convert_text: ConvertText, game: bytes, rule: HandicapRule, count: int, on_board: int) -> None:
    converted = convert_text(game)
    assert converted.sequences["handicap_rule"].tolist() == [rule]
    assert converted.sequences["handicap"].tolist() == [count]
    assert (stones(converted.rows, 19)[0] == 1).sum() == on_board
    assert converted.audited == 1
    assert not converted.differences


OPENINGS = {
    b"(;AB[aa:bc][cc]AW[dd];B[ee];B[ff];W[gg];B[hh])": [7, 1, 0, 2, 0],
    b"(;AB[ba:aa];C[x];AE[aa:ac];W[bb])": [2, 3, 0, 0, 1],
    b"(;C[x];;AE[aa];W[bb];B[cc])": [0, 1, 2, 0, 1],
    b"(;B[aa];AB[bb];B[cc];W[dd];B[ee])": [0, 0, -1, 2, 0],
    b"(;W[aa];AB[bb];B[cc])": [0, 0, -1, 0, 1],
    b"(;)": [0, 0, -1, 0, -1],
}


def test_a_rectangle_from_its_last_corner_is_a_handicap_as_well(convert_text: ConvertText) -> None:
    converted = convert_text(b"(;SZ[19]HA[3]AB[ca:aa];W[dd])")
    assert converted.sequences["handicap_rule"].tolist() == [HandicapRule.ROOT]
    assert converted.sequences["handicap"].tolist() == [3]
    assert (stones(converted.rows, 19)[0] == 1).sum() == 3


def test_what_opens_each_game() -> None:
    ends = np.cumsum([len(game) for game in OPENINGS])
    games = read_main_lines(b"".join(OPENINGS), np.concatenate(([0], ends[:-1])), ends)
    assert openings(games).tolist() == list(OPENINGS.values())


@pytest.mark.parametrize(
    ("stated_komi", "stated_result", "komi", "rule", "margin"),
    [
        ("3.75", "B+0.75", 7.5, KomiRule.DOUBLED, 1.5),
        ("3.75", "B+1.5", 7.5, KomiRule.DOUBLED, 1.5),
        ("375", "黑胜3/4子", 7.5, KomiRule.HUNDREDTHS_DOUBLED, 1.5),
        ("7.5", "W+0.25", 7.5, KomiRule.AS_WRITTEN, 0.5),
        ("0", "B+12", 0.0, KomiRule.AS_WRITTEN, 12.0),
        ("6.5", "W+R", 6.5, KomiRule.AS_WRITTEN, math.nan),
        ("6.5", "Draw", 6.5, KomiRule.AS_WRITTEN, 0.0),
        ("0", "W+1.25", math.nan, KomiRule.CONTRADICTED, 2.5),
        ("0", "W+0.5", math.nan, KomiRule.CONTRADICTED, 0.5),
        ("7.5", "W+3", math.nan, KomiRule.CONTRADICTED, 3.0),
        ("6.75", "B+0.5", math.nan, KomiRule.CONTRADICTED, 0.5),
        ("six", "B+0.5", math.nan, KomiRule.UNREADABLE, 0.5),
        ("0", "W+0.02", 0.0, KomiRule.AS_WRITTEN, math.nan),
    ],
)
def test_komi_and_margin_of_one_game(
    convert_text: ConvertText, stated_komi: str, stated_result: str, komi: float, rule: KomiRule, margin: float
) -> None:
    game = f"(;CA[UTF-8]SZ[19]KM[{stated_komi}]RE[{stated_result}];B[pd];W[dp])"
    converted = convert_text(game.encode())
    stored = [converted.sequences[name][0] for name in ("komi", "komi_rule", "komi_raw", "margin")]
    np.testing.assert_equal(stored, [komi, rule, stated_komi, margin])
    assert converted.counts[f"komi_{rule.name.lower()}"] == 1


@pytest.mark.parametrize(
    ("named", "facts", "expected"),
    [
        (2, [0, 0, -1, 2, 0], (2, HandicapRule.MOVES)),
        (2, [0, 0, -1, 3, 0], (2, HandicapRule.MOVES)),
        (3, [0, 0, -1, 2, 0], (0, HandicapRule.STATED_ONLY)),
        (2, [0, 0, -1, 0, -1], (0, HandicapRule.STATED_ONLY)),
        (9, [0, 0, -1, 0, 1], (9, HandicapRule.OMITTED)),
        (1, [0, 0, -1, 0, 1], (0, HandicapRule.NONE)),
        (1, [0, 0, -1, 1, 0], (0, HandicapRule.NONE)),
        (4, [3, 0, 0, 0, 1], (3, HandicapRule.ROOT)),
        (4, [3, 0, 2, 0, 1], (3, HandicapRule.LATER_NODE)),
        (4, [3, 1, 0, 0, 1], (0, HandicapRule.POSITION)),
        (4, [0, 1, 0, 0, 1], (0, HandicapRule.POSITION)),
    ],
)
def test_judging_one_game(named: int, facts: list[int], expected: tuple[int, HandicapRule]) -> None:
    assert handicap(named, facts) == expected


def test_stated_number_is_kept(convert_text: ConvertText) -> None:
    converted = convert_text(b"(;SZ[19]HA[3]AB[pd][dp];W[dd])(;SZ[19]HA[3:2];B[pd])")
    assert converted.sequences["handicap_stated"].tolist() == [3, -1]
    assert converted.sequences["handicap"].tolist() == [2, 0]
    assert converted.counts["handicap_differs"] == 1


def test_policies(convert_text: ConvertText) -> None:
    games = b"(;SZ[19]HA[2];W[dd])(;SZ[19]HA[12];W[dd])(;SZ[19]HA[2]AB[pd][dp];W[dd])(;SZ[19];B[dd])"
    assert convert_text(games).reasons == ["handicap_without_stones"] * 2
    even = convert_text(games, filters={"handicap": "drop"})
    assert even.reasons == ["handicap"] * 3
    assert len(even.keys) == 1


@pytest.mark.parametrize(
    ("raw", "number"), [(b"2", 2), (b" 9 ", 9), (b"", -1), (b"2.5", -1), (b"\xb2", -1), (b"99999", 999)]
)
def test_stated(raw: bytes, number: int) -> None:
    assert stones_stated(raw) == number
