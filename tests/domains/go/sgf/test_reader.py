"""Main lines of games, compared with sgfmill's."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.go.columns import PROPERTIES
from outofcore.domains.go.play.oracle import main_line
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule
from outofcore.domains.go.sgf.pieces import cut
from outofcore.domains.go.sgf.reader import NO_POINT, MainLines, ReadResult, read_main_lines
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import stones

KINDS = ("B", "W", "AB", "AW", "AE")


def read(data: bytes) -> MainLines:
    return read_main_lines(data, np.array([0]), np.array([len(data)]))


def events(games: MainLines) -> list[tuple[str, str, int]]:
    """Identifier, value as written, node."""
    told = []
    count = int(games.first[-1])
    for kind, point, node in zip(games.kind[:count], games.points[:count], games.node[:count], strict=True):
        letters = ["" if place == NO_POINT else chr(97 + place if place < 26 else 39 + place) for place in point]
        value = "".join(letters[:2])
        if kind >= 2 and letters[:2] != letters[2:]:
            value += ":" + "".join(letters[2:])
        told.append((KINDS[kind], value, int(node)))
    return told


def value(data: bytes, name: str) -> bytes | None:
    begin, end = read(data).spans[0, PROPERTIES.index(name)]
    return None if begin < 0 else data[begin:end]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"(;GM[1];B[aa];W[bb])", [("B", "aa", 1), ("W", "bb", 2)]),
        (b"(;AB[aa][bb:cd];W[])", [("AB", "aa", 0), ("AB", "bb:cd", 0), ("W", "", 1)]),
        (b"(;B[aa];W[tt])", [("B", "aa", 0), ("W", "tt", 1)]),
        (b"(;B[aa](;W[bb];B[cc])(;W[dd]))", [("B", "aa", 0), ("W", "bb", 1), ("B", "cc", 2)]),
        (b"(;Black[aa];White[bb];AddEmpty[cc])", [("B", "aa", 0), ("W", "bb", 1), ("AE", "cc", 2)]),
        (b"(;B [ aa ]\n;W\n[bb])", [("B", "aa", 0), ("W", "bb", 1)]),
        (b"(;C[a] b];B[aa])", [("B", "aa", 1)]),
        (b"(;B[aa]W[bb])", [("B", "aa", 0), ("W", "bb", 0)]),
        (b"(PB[x]\r\n;B[aa])", [("B", "aa", 0)]),
        (b"(;B[aA])", [("B", "aA", 0)]),
        (b"(;BL[30]B[aa]WL[1];CR[bb]KO[])", [("B", "aa", 0)]),
        (b"(;MULTIGOGM[1]B[aa])", [("B", "aa", 0)]),
    ],
)
def test_moves_and_setup(data: bytes, expected: list[tuple[str, str, int]]) -> None:
    games = read(data)
    assert ReadResult(games.status[0]) is ReadResult.READ
    assert events(games) == expected


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"(;B[aa];C[no end", ReadResult.UNTERMINATED_VALUE),
        (b"(;B[abc])", ReadResult.BAD_POINT),
        (b"(;B[a1])", ReadResult.BAD_POINT),
        (b"(;AB[])", ReadResult.READ),
        (b"(;B[aa:bb])", ReadResult.BAD_POINT),
        (b"(;B[aa][bb])", ReadResult.AMBIGUOUS_NODE),
        (b"(;B[aa]B[bb])", ReadResult.AMBIGUOUS_NODE),
        (b"(;B[aa]AW[bb])", ReadResult.AMBIGUOUS_NODE),
        (b"(;C[he said [a] or B[dd] is good];B[aa])", ReadResult.STRAY_TEXT),
        (b"(;C[one [two] W[bb] three];W[cc])", ReadResult.STRAY_TEXT),
        (b"(;C[one [two]W[bb];W[cc])", ReadResult.READ),
        (b"(;B[aa](;W[bb])(;C[variations do not matter)", ReadResult.READ),
        (b"(;B[aa]C[see [a] below];W[bb])", ReadResult.READ),
    ],
)
def test_what_is_refused(data: bytes, status: ReadResult) -> None:
    games = read(data)
    assert ReadResult(games.status[0]) is status
    if status is not ReadResult.READ:
        assert 0 < games.trouble[0] <= len(data)


def test_the_first_value_of_a_property_counts() -> None:
    data = b"(;PB[one]PlayerWhite[two]KM[6.5]AP[x];PB[other]RE[B+R]C[PB[no])"
    assert value(data, "PB") == b"one"
    assert value(data, "PW") == b"two"
    assert value(data, "RE") == b"B+R"
    assert value(data, "SZ") is None


def test_games_of_a_unit_stay_apart() -> None:
    data = b"(;PB[a];B[aa])(;PB[b];B[bb];W[cc])(;)"
    starts, ends = np.array([0, 14, 34]), np.array([14, 34, 37])
    games = read_main_lines(data, starts, ends)
    assert games.first.tolist() == [0, 1, 3, 3]
    assert data[slice(*games.spans[1, 0])] == b"b"


POINT = st.tuples(st.sampled_from("abcdefghi"), st.sampled_from("abcdefghi")).map("".join)
PROPERTY = st.one_of(
    POINT.map(lambda point: f"AB[{point}]"),
    POINT.map(lambda point: f"AE[{point}]"),
    st.sampled_from(["C[text]", "C[a\\]b;(]", "N[]", "KM[6.5] ", "\nPB[x\\\\]", "LB[aa:1][bb:2]"]),
)
NODE = st.tuples(
    st.lists(PROPERTY, max_size=3), st.sampled_from("BW"), st.one_of(POINT, st.just("")), st.booleans()
).map(lambda node: ";" + "".join(node[0]) + (f"{node[1]}[{node[2]}]" if node[3] else ""))
TREE = st.recursive(
    st.lists(NODE, min_size=1, max_size=4).map(lambda nodes: f"({''.join(nodes)})"),
    lambda inner: st.tuples(st.lists(NODE, min_size=1, max_size=3), st.lists(inner, max_size=2)).map(
        lambda tree: f"({''.join(tree[0])}{''.join(tree[1])})"
    ),
    max_leaves=5,
)


@given(TREE.map(str.encode))
def test_equals_sgfmill(data: bytes) -> None:
    nodes = main_line(data)
    assert nodes is not None
    games = read(data)
    assert ReadResult(games.status[0]) is ReadResult.READ
    expected = [
        (name, point.decode(), number)
        for number, node in enumerate(nodes)
        for name, points in node.items()
        if name in KINDS
        for point in points
    ]
    assert sorted(events(games), key=lambda each: each[2]) == events(games)
    assert sorted(events(games)) == sorted(expected)


@given(TREE.map(str.encode), st.data())
def test_what_sgfmill_reads_after_damage_is_read_alike_or_refused(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(1, len(data) - 1))
    byte = draw.draw(st.sampled_from([b"", b")", b"(", b"]", b"[", b";", b"x", b"B", b"\\"]))
    damaged = data[:at] + byte + data[at + (draw.draw(st.booleans())) :]
    found = [piece for piece in cut(io.BytesIO(damaged).read, 1000) if len(piece.starts)]
    if not found:
        return
    game = found[0].payload[: found[0].ends[0]]
    nodes, games = main_line(game), read(game)
    if nodes is None or ReadResult(games.status[0]) is not ReadResult.READ:
        return
    told = [
        (name, point.strip().decode())
        for node in nodes
        for name, points in node.items()
        if name in ("B", "W")
        for point in points
    ]
    assert [event[:2] for event in events(games) if event[0] in ("B", "W")] == told


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
        (b"(;SZ[19]HA[4]AW[dp];B[dd])", HandicapRule.POSITION, 0, 0),
        (b"(;SZ[19]HA[4]AB[pd][dp][dd];W[pp])", HandicapRule.ROOT, 3, 3),
        (b"(;SZ[19]HA[3]AB[ca:aa];W[dd])", HandicapRule.ROOT, 3, 3),  # which sgfmill does not read
        (b"(;SZ[19]HA[2];B[pd];B[dp];B[dd];W[qq])", HandicapRule.MOVES, 2, 0),
        (b"(;SZ[19]HA[3];B[pd];B[dp];W[dd])", HandicapRule.STATED_ONLY, 0, 0),
        (b"(;SZ[19]HA[1];W[pd])", HandicapRule.NONE, 0, 0),
    ],
)
def test_rules(convert_text: ConvertText, game: bytes, rule: HandicapRule, count: int, on_board: int) -> None:
    converted = convert_text(game)
    assert converted.sequences["handicap_rule"].tolist() == [rule]
    assert converted.sequences["handicap"].tolist() == [count]
    assert (stones(converted.rows, 19)[0] == 1).sum() == on_board
    assert converted.audited + converted.counts["unreadable_for_oracle"] == 1
    assert not converted.differences


OPENINGS = {
    b"(;AB[aa:bc][cc]AW[dd];B[ee];B[ff];W[gg];B[hh])": [7, 1, 0, 2, 0],
    b"(;AB[ba:aa];C[x];AE[aa:ac];W[bb])": [2, 3, 0, 0, 1],
    b"(;C[x];;AE[aa];W[bb];B[cc])": [0, 1, 2, 0, 1],
    b"(;B[aa];AB[bb];B[cc];W[dd];B[ee])": [0, 0, -1, 2, 0],
    b"(;W[aa];AB[bb];B[cc])": [0, 0, -1, 0, 1],
    b"(;)": [0, 0, -1, 0, -1],
}


def test_what_opens_each_game() -> None:
    ends = np.cumsum([len(game) for game in OPENINGS])
    games = read_main_lines(b"".join(OPENINGS), np.concatenate(([0], ends[:-1])), ends)
    assert games.openings.tolist() == list(OPENINGS.values())


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


def test_stated_number_is_kept(convert_text: ConvertText) -> None:
    converted = convert_text(b"(;SZ[19]HA[3]AB[pd][dp];W[dd])(;SZ[19]HA[3:2];B[pd])")
    assert converted.sequences["handicap_stated"].tolist() == [3, -1]
    assert converted.sequences["handicap"].tolist() == [2, 0]
    assert converted.counts["handicap_differs"] == 1
