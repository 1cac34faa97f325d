"""Games in a stream of bytes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sgfmill import sgf_grammar

from outofcore.domains.go.sgf.pieces import BLOCK_BYTES, MOST_ROOTS, ROOT_NAMES, Ending, Piece, cut

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
        (b"(;C[see ] here];C[a ) b];B[aa])", [b"(;C[see ] here];C[a ) b];B[aa])"]),
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
    data = b"(;GM[1]C[" + b"x" * 500 + b"](;B[aa])(;GM;B[bb]))\n(;GM[1];B[cc])"
    found = games(data, longest=100)
    assert [ending for *_, ending in found] == [Ending.TOO_LONG, Ending.CLOSED]
    assert found[0][1] == data[:100]
    assert found[1][1] == b"(;GM[1];B[cc])"


BRANCHED = b"(;GM[1]SZ[19]PB[a]PW[b];B[pd]%s(;%s[1]W[dp];B[pp];W[dd])%s(;W[dd];B[qq]))"


@pytest.mark.parametrize("name", ROOT_NAMES)
@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n "])
def test_a_variation_that_looks_like_a_root_is_no_game(name: str, between: bytes) -> None:
    first = BRANCHED % (between, name.encode(), between)
    second = BRANCHED % (between, b"C", between)
    data = first + b" junk\n" + second
    for block in (1, 13, BLOCK_BYTES):
        assert games(data, block) == [(0, first, Ending.CLOSED), (len(data) - len(second), second, Ending.CLOSED)]


def test_a_long_game_ends_before_a_line_that_begins_like_a_root() -> None:
    tree = b"(;GM[1];B[aa]\n(;GM[1]C[" + b"x" * 300 + b"];W[bb])\n(;W[cc]))"
    for block in (1, 100, BLOCK_BYTES):
        found = games(tree + b"\n(;GM[1];B[dd])", block, longest=200)
        assert [ending for *_, ending in found] == [Ending.OPEN, Ending.TOO_LONG, Ending.CLOSED]
        assert [game for _, game, _ in found] == [tree[:14], tree[14:214], b"(;GM[1];B[dd])"]


@pytest.mark.parametrize("block", [1, 250, BLOCK_BYTES])
def test_a_long_game_after_one_without_a_parenthesis_ends_by_its_own(block: int) -> None:
    broken, good, last = b"(;GM[1];B[aa]\n", b"(;GM[1];B[bb])", b"(;GM[1];B[ee])"
    long = b"(;GM[1]C[" + b"x" * 500 + b"];B[cc](;W[dd]))"
    found = games(broken + good + b"\n" + long + b"\n" + last, block, longest=200)
    assert [ending for *_, ending in found] == [Ending.OPEN, Ending.CLOSED, Ending.TOO_LONG, Ending.CLOSED]
    assert [game for _, game, _ in found] == [broken, good, long[:200], last]


LINES = [b"(;GM[1];B[%c%c](;W[aa])(;GN[x]W[bb]))" % (97 + number, 97 + number) for number in range(12)]


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("broken", [(0,), (4, 5), (1, 6, 11), tuple(range(12))])
@pytest.mark.parametrize("longest", [300, 1 << 20])
def test_games_without_a_parenthesis_cost_no_other(missing: int, broken: tuple[int, ...], longest: int) -> None:
    lines = [line[: -missing or None] if number in broken else line for number, line in enumerate(LINES)]
    data = b"\n".join(lines)
    for block in (7, BLOCK_BYTES):
        found = games(data, block, longest)
        assert [game.rstrip() for _, game, _ in found] == lines
        assert [ending is Ending.OPEN for *_, ending in found] == [number in broken for number in range(12)]


@pytest.mark.parametrize("variations", [MOST_ROOTS - 1, MOST_ROOTS])
def test_a_game_has_at_most_so_many_variations_that_begin_like_roots(variations: int) -> None:
    tree = b"(;GM[1];B[aa]" + b"\n(;PB[x]W[bb])" * variations + b")"
    for block in (100, BLOCK_BYTES):
        endings = [ending for *_, ending in games(tree, block)]
        assert endings == ([Ending.CLOSED] if variations < MOST_ROOTS else [Ending.OPEN] + [Ending.CLOSED] * variations)


def test_any_number_of_games_may_lack_a_parenthesis() -> None:
    lines = [b"(;PB[%d]\n" % number for number in range(4_000)]
    assert [game for _, game, _ in games(b"".join(lines), longest=50_000)] == lines
    lines = [line[:-1] + b")\n" if number % 3 else line for number, line in enumerate(lines)]
    assert [game.rstrip() for _, game, _ in games(b"".join(lines), 50_000)] == [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    "data",
    [
        b"(;GM[1];B[aa](;GM[1]W[bb]",  # nothing but a new line begins the next game
        b"(;GM[1];B[aa]\n(;GN[main line]W[bb]",
    ],
)
def test_a_game_that_was_cut_short_keeps_its_variations(data: bytes) -> None:
    assert games(data) == [(0, data, Ending.OPEN)]


ROOTED = st.recursive(
    st.sampled_from([b"(;B[aa])", b"(;GM[1]B[bb];W[cc])", b"(;PB[(;]KM[6];B[])", b"(;C[\n(;GM[1\\];)])"]),
    lambda inner: st.tuples(
        st.sampled_from([b"(;GM[1]", b"(\n;SZ[9]PB[x];B[dd]", b"(;C[a\\]) ]", b"(;W[ee];GN[x]"]),
        st.lists(st.tuples(st.sampled_from([b"", b"\n", b"\r"]), inner).map(b"".join), min_size=1, max_size=3),
    ).map(lambda tree: tree[0] + b"".join(tree[1]) + b")"),
    max_leaves=6,
)


@given(st.lists(st.tuples(ROOTED, st.sampled_from([b"", b"\n", b"name\n", b") "])), max_size=5), st.integers(1, 30))
def test_divides_whatever_is_balanced_as_sgfmill_does(parts: list[tuple[bytes, bytes]], block: int) -> None:
    data = b"".join(tree + junk for tree, junk in parts)
    ends, position = [], 0
    while (tokens := sgf_grammar.tokenise(data, position))[0]:
        position = tokens[1]
        ends.append(position)
    assert [offset + len(game) for offset, game, _ in games(data, block)] == ends
    assert [game for _, game, _ in games(data)] == [tree for tree, _ in parts]


@pytest.mark.parametrize("data", [b"", b"no game\n", b"\x00\xff" * 50, b"((((", b"[;]"])
def test_no_game_at_all(data: bytes) -> None:
    found = pieces(data)
    assert len(found) == 1
    assert len(found[0].starts) == 0
    assert found[0].stray == sum(byte > 32 for byte in data)


FRAGMENTS = st.sampled_from(
    [b"\\n", b"\\n(;GM[1]", b"\\0", b" ", *rb"(;GM[1] (; ;B[aa] ;W[] ) ( C[x\\]y] C[(;GM[1] name ] [ \\".split()]
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
