"""Main lines of games, beside sgfmill's."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.go.columns import PROPERTIES
from outofcore.domains.go.play.oracle import main_line
from outofcore.domains.go.sgf.pieces import cut
from outofcore.domains.go.sgf.reader import NO_POINT, MainLines, ReadResult, read_main_lines

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
