"""Games in a stream of bytes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.go.sgf.pieces import BLOCK_BYTES, Piece, cut
from outofcore.domains.go.sgf.scan import Ending

Found = list[tuple[int, bytes, Ending]]


def pieces(data: bytes, block: int = BLOCK_BYTES, longest: int = 1 << 20) -> list[Piece]:
    return list(cut(io.BytesIO(data).read, longest, block))


def games(data: bytes, block: int = BLOCK_BYTES, longest: int = 1 << 20) -> Found:
    return [
        (piece.offset + int(start), piece.payload[start:end], Ending(ending))
        for piece in pieces(data, block, longest)
        for start, end, ending in zip(piece.starts, piece.ends, piece.endings, strict=True)
    ]


def test_a_name_stands_in_the_first_line() -> None:
    found = pieces(b"kmomo(P)\n(;GM[1];B[aa])\n(;GM[1];B[bb])\n")
    assert found[0].name == b"kmomo(P)"
    assert found[0].offset == 9
    assert [found[0].payload[a:b] for a, b in zip(found[0].starts, found[0].ends, strict=True)] == [
        b"(;GM[1];B[aa])",
        b"(;GM[1];B[bb])",
    ]


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf", b"one line\nand another\n", b"x" * 300 + b"\n"])
def test_what_is_no_name(head: bytes) -> None:
    assert pieces(head + b"(;GM[1];B[aa])")[0].name == b""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"(;B[aa])junk(;W[bb])", [b"(;B[aa])", b"(;W[bb])"]),
        (b"(\r\n ;B[aa])", [b"(\r\n ;B[aa])"]),
        (b"(\r\nPB[x]\r\n;B[aa])", [b"(\r\nPB[x]\r\n;B[aa])"]),
        (b";GM[1];B[aa])", [b";GM[1];B[aa])"]),
        (b"mail\nGM[1]SZ[9];B[aa])", [b"GM[1]SZ[9];B[aa])"]),
        (b"(;GM[1];B[aa](;W[bb](;B[cc]))(;W[dd]))", [b"(;GM[1];B[aa](;W[bb](;B[cc]))(;W[dd]))"]),
        (b"(;C[a ) \\] ( ;GM[1] ];B[aa])", [b"(;C[a ) \\] ( ;GM[1] ];B[aa])"]),
        (b"(;GM[1];B[aa]\n(;GM[1];B[bb])", [b"(;GM[1];B[aa]\n", b"(;GM[1];B[bb])"]),
        (b"(;GM[1];B[aa]\n(;W[bb])", [b"(;GM[1];B[aa]\n(;W[bb])"]),
        (b"(;C[quoted:\n(;GM[1\\];B[aa\\])];B[bb])", [b"(;C[quoted:\n(;GM[1\\];B[aa\\])];B[bb])"]),
    ],
)
def test_where_games_begin_and_end(data: bytes, expected: list[bytes]) -> None:
    assert [game for _, game, _ in games(data)] == expected


def test_a_broken_game_costs_itself() -> None:
    data = b"(;GM[1];B[aa]\n(;GM[1]C[no end;B[bb])\n(;GM[1];B[cc])\n(;GM[1];B[dd]"
    assert [(game, ending) for _, game, ending in games(data)] == [
        (b"(;GM[1];B[aa]\n", Ending.OPEN),
        (b"(;GM[1]C[no end;B[bb])", Ending.CLOSED),
        (b"(;GM[1];B[cc])", Ending.CLOSED),
        (b"(;GM[1];B[dd]", Ending.OPEN),
    ]
    assert [ending for *_, ending in games(b"(;GM[1];C[no end\n(;FF[4];B[cc])")] == [Ending.IN_VALUE, Ending.CLOSED]


def test_a_long_game_is_passed_over_to_its_end() -> None:
    data = b"(;GM[1]C[" + b"x" * 500 + b"](;B[aa])(;GM;B[bb]))(;GM[1];B[cc])"
    found = games(data, longest=100)
    assert [ending for *_, ending in found] == [Ending.TOO_LONG, Ending.CLOSED]
    assert found[0][1] == data[:100]
    assert found[1][1] == b"(;GM[1];B[cc])"


@pytest.mark.parametrize("data", [b"", b"no game\n", b"\x00\xff" * 50, b"((((", b"[;]"])
def test_no_game_at_all(data: bytes) -> None:
    found = pieces(data)
    assert len(found) == 1
    assert len(found[0].starts) == 0
    assert found[0].stray == sum(byte > 32 for byte in data)


FRAGMENTS = st.sampled_from(
    [
        b"(;GM[1]",
        b"(;",
        b";B[aa]",
        b";W[]",
        b")",
        b"(",
        b"C[x\\]y]",
        b"C[(;GM[1]",
        b"\n",
        b"name",
        b" ",
        b"]",
        b"[",
        b"\\",
    ]
)


@given(st.lists(FRAGMENTS, max_size=40).map(b"".join), st.integers(1, 40), st.sampled_from([30, 1000]))
def test_cuts_do_not_show(data: bytes, block: int, longest: int) -> None:
    whole, cut_up = pieces(data, longest=longest), pieces(data, block, longest)
    assert games(data, block, longest) == games(data, longest=longest)
    assert sum(piece.stray for piece in cut_up) == sum(piece.stray for piece in whole)
    assert cut_up[0].name == whole[0].name if games(data) else True


@given(st.lists(FRAGMENTS, max_size=40).map(b"".join))
def test_nothing_is_lost_between_games(data: bytes) -> None:
    found = games(data)
    inside = sum(len(game) for _, game, _ in found)
    for offset, game, _ in found:
        assert data[offset : offset + len(game)] == game
    outside = data
    for offset, game, _ in reversed(found):
        outside = outside[:offset] + outside[offset + len(game) :]
    assert len(outside) == len(data) - inside
    assert sum(piece.stray for piece in pieces(data)) == sum(byte > 32 for byte in outside)
