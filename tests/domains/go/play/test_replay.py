"""Games as rows, beside sgfmill's board played by the plain words of the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.go.play.board import STRIDE, chain, clear, new_board, put
from outofcore.domains.go.play.stars import star_points
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import Converted, Move, convert, play_by_the_rules, sgf_of, stones, text

KEEP = {"occupied": "keep", "suicide": "keep", "ko": "keep", "superko": "keep", "after_end": "keep"}
CODES: dict[str | None, int] = {None: 0, "b": 1, "w": 2}


def check(converted: Converted, moves: list[Move], size: int, frame: int, **rules: Any) -> None:
    positions, reason = play_by_the_rules(moves, size, **rules)
    if reason:
        assert converted.reasons == [reason]
        return
    rows = converted.rows
    assert len(rows["move"]) == len(positions)
    for row, position in enumerate(positions):
        expected = np.zeros((frame, frame), np.int64)
        expected[:size, :size] = [[CODES[stone] for stone in line] for line in position.board]
        assert np.array_equal(stones(rows, frame)[row], expected)
        ko = -1 if position.ko is None else position.ko[0] * frame + position.ko[1]
        assert rows["state"][row].tolist() == [position.colour, size, ko, row]
        point = position.point
        assert rows["move"][row] == (frame * frame if point is None else point[0] * frame + point[1])


CROWDED = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.one_of(st.none(), *[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 9),
    ),
    min_size=1,
    max_size=80,
)
BREACHES = st.fixed_dictionaries(
    {
        **{name: st.sampled_from(["keep", "stop", "reject"]) for name in ("occupied", "suicide", "ko", "superko")},
        "after_end": st.sampled_from(["keep", "stop"]),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(CROWDED, BREACHES, st.sampled_from(["", "NZ", "Chinese", "Ing"]), st.sampled_from([(7,), (7, 9)]))
def test_crowded_corners(
    tmp_path: Path, moves: list[Move], breaches: dict[str, str], rules: str, sizes: tuple[int, ...]
) -> None:
    (tmp_path / "games.sgf").write_bytes(sgf_of(moves, 7, f"RU[{rules}]"))
    converted = convert(tmp_path, filters={"sizes": sizes, **breaches})
    superko = {"NZ": 2, "Chinese": 1}.get(rules, 0)
    check(
        converted,
        moves,
        7,
        sizes[-1],
        breaches=breaches,
        suicide_allowed=rules in ("NZ", "Ing"),
        superko=superko,
    )
    assert not converted.differences
    assert converted.audited == len(converted.keys)


def test_ko_is_forbidden_to_the_opponent_alone(convert_text: ConvertText) -> None:
    shape = ["Bba", "Wca", "Bab", "Wdb", "Bbc", "Wcc", "Bcb", "Wbb"]  # White has taken one stone at cb
    rows = convert_text(text(*shape, "Bee"))
    assert rows.rows["state"][-1].tolist() == [0, 9, 1 * 19 + 2, 8]
    assert stones(rows.rows, 19)[-1][1, :4].tolist() == [1, 2, 0, 2]
    assert convert_text(text(*shape, "Wee")).rows["state"][-1, 2] == -1
    assert convert_text(text(*shape, "Bcb")).reasons == ["ko"]
    assert convert_text(text(*shape, "Wcb")).reasons == []
    assert convert_text(text(*shape, "Bee", "Wff", "Bcb")).reasons == []
    stopped = convert_text(text(*shape, "Bcb", "Wff"), filters={"ko": "stop"})
    assert len(stopped.rows["move"]) == 8
    assert stopped.counts["ko"] == 1


TWO_SENT = ["Bda", "Wab", "Bcb", "Wbb", "Baa", "Wgg", "Bba", "Wca", "Bba", "W", "Baa"]
"""Black sends two stones, loses them, retakes one, and sends the second again: nothing is captured by that move."""


@pytest.mark.parametrize(
    ("rules", "reasons"),
    [("Chinese", ["superko"]), ("AGA", ["superko"]), ("NZ", ["superko"]), ("Japanese", []), ("Ing", [])],
)
def test_a_position_that_comes_back_without_a_capture(
    convert_text: ConvertText, rules: str, reasons: list[str]
) -> None:
    game = text(*TWO_SENT, "Wff", root=f"RU[{rules}]")
    assert convert_text(game, filters={"superko": "reject"}).reasons == reasons
    kept = convert_text(game)
    assert kept.reasons == []
    assert kept.counts["superko"] == len(reasons)
    stopped = convert_text(game, filters={"superko": "stop"})
    assert len(stopped.rows["move"]) == 12 - 2 * len(reasons)


def test_a_position_may_come_back_with_the_other_side_to_move(convert_text: ConvertText) -> None:
    for rules, superko in (("Chinese", 1), ("AGA", 0)):
        game = text("Bba", "Wii", "Bab", "Waa", "Bhh", root=f"RU[{rules}]")
        kept = convert_text(game, filters={"suicide": "keep"})
        assert kept.counts["suicide"] == 1
        assert kept.counts["superko"] == superko
        assert convert_text(game, filters={"suicide": "keep", "superko": "reject"}).reasons == ["superko"] * superko


def test_suicide_by_the_rules_of_the_game(convert_text: ConvertText) -> None:
    game = ["Bba", "Wii", "Bab", "Waa", "Bcc"]
    assert convert_text(text(*game)).reasons == ["suicide"]
    allowed = convert_text(text(*game, root="RU[NZ]"))
    assert allowed.reasons == []
    assert stones(allowed.rows, 19)[-1][0, 0] == 0
    assert allowed.counts["suicide"] == 0
    kept = convert_text(text(*game), filters={"suicide": "keep"})
    assert kept.counts["suicide"] == 1


def test_capture_before_suicide(convert_text: ConvertText) -> None:
    converted = convert_text(text("Bba", "Waa", "Bbb", "Wac", "Bab", "Wee"))
    assert converted.counts["captures"] == 1
    assert stones(converted.rows, 19)[-1][0, 0] == 0


def test_passes_and_moves_after_the_end(convert_text: ConvertText) -> None:
    game = text("Bcc", "W", "Btt", "Wdd", size=19)
    kept = convert_text(game)
    assert kept.rows["move"].tolist() == [2 * 19 + 2, 361, 361, 3 * 19 + 3]
    assert kept.counts["after_end"] == 1
    stopped = convert_text(game, filters={"after_end": "stop"})
    assert len(stopped.rows["move"]) == 3
    assert stopped.counts["after_end"] == 1


def test_tt_is_a_point_on_large_boards(convert_text: ConvertText) -> None:
    rows = convert_text(text("Btt", "W", size=25), filters={"sizes": [25]}).rows
    assert rows["move"].tolist() == [19 * 25 + 19, 625]


def test_colours_come_from_the_moves(convert_text: ConvertText) -> None:
    converted = convert_text(text("Wcc", "Bdd", "Bee", "Wff"))
    assert converted.rows["state"][:, 0].tolist() == [1, 0, 0, 1]
    assert converted.sequences["first_player"].tolist() == [1]
    assert converted.sequences["alternating"].tolist() == [False]


def test_setup(convert_text: ConvertText) -> None:
    game = b"(;GM[1]SZ[9]AB[aa:ba][ca]AW[ab];W[dd];AE[aa]AW[ee];B[ff])"
    converted = convert_text(game)
    boards = stones(converted.rows, 19)
    assert boards[0, 0, :4].tolist() == [1, 1, 1, 0]
    assert boards[1, 0, :4].tolist() == [0, 1, 1, 0]
    assert boards[1, 4, 4] == 2
    assert converted.counts["late_setup"] == 1
    assert not converted.differences
    assert convert_text(game, filters={"late_setup": "reject"}).reasons == ["late_setup"]
    assert len(convert_text(game, filters={"late_setup": "stop"}).rows["move"]) == 1


def test_setup_leaves_no_stones_without_liberty(convert_text: ConvertText) -> None:
    converted = convert_text(b"(;GM[1]SZ[9]AW[aa]AB[ab][ba];B[dd])")
    assert stones(converted.rows, 19)[0, 0, :2].tolist() == [0, 1]
    assert converted.counts["setup_captures"] == 1
    assert converted.audited == 1


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        (b"(;SZ[9]AB[aa]AW[aa];B[bb])", "ambiguous_node"),
        (b"(;SZ[9];B[jj])", "off_board"),
        (b"(;SZ[9]AB[aj];B[bb])", "off_board"),
        (b"(;SZ[9]AB[aa][bb])", "too_short"),
        (b"(;SZ[9];B[aa];B[aa])", "occupied"),
    ],
)
def test_what_cannot_be_played(convert_text: ConvertText, game: bytes, reason: str) -> None:
    converted = convert_text(game + b"\n(;SZ[9];B[cc])")
    assert converted.reasons == [reason]
    assert len(converted.keys) == 1


KO_SHAPE = ("Bba", "Wca", "Bab", "Wdb", "Bbc", "Wcc", "Bcb", "Wbb")
FAILING = [
    (text("Baa", "Wbb", "Baa"), {}, "occupied", "at move 3"),
    (text(*KO_SHAPE, "Bcb"), {}, "ko", "at move 9"),
    (text("Bba", "Wii", "Bab", "Waa"), {}, "suicide", "at move 4"),
    (text(*TWO_SENT, root="RU[AGA]"), {"superko": "reject"}, "superko", "at move 11"),
    (text("Baa", "Wja"), {}, "off_board", "at move 2"),
    (text("Baa", "Waj"), {}, "off_board", "at move 2"),
    (text("Baa", "Btj"), {}, "off_board", "at move 2"),
    (b"(;SZ[9];B[aa];AW[ja])", {}, "off_board", "at move 2"),
    (b"(;SZ[9];B[aa];AW[bb]AB[cc:aa])", {}, "ambiguous_node", "at move 2"),
    (b"(;SZ[9];B[aa];AW[bb];B[cc])", {"late_setup": "reject"}, "late_setup", "at move 2"),
    (b"(;SZ[9]AB[aa];B[bb];W[cc])", {"min_moves": 3}, "too_short", "2 moves"),
]


@pytest.mark.parametrize(("game", "filters", "reason", "detail"), FAILING)
def test_a_game_that_fails_leaves_no_trace_in_the_next(
    convert_text: ConvertText, game: bytes, filters: dict[str, Any], reason: str, detail: str
) -> None:
    good = b"(;SZ[9]AB[ee]AW[ef];W[dd];B[cc];W[])"
    alone = convert_text(good, filters=filters)
    both = convert_text(game + good, filters=filters)
    assert [(reject.reason, reject.detail) for _, reject in both.rejects] == [(reason, detail)]
    assert both.keys == alone.keys
    assert all(np.array_equal(both.rows[name], alone.rows[name]) for name in alone.rows)
    assert both.counts == alone.counts


def test_what_is_counted_of_a_game(convert_text: ConvertText) -> None:
    shape = text(*KO_SHAPE, "Bcb", "Wcb", "B", "W", "Bee", "Waa", "B")[:-1] + b";AW[ab]AB[ae][bd][bf][ce];AE[ii];W[be])"
    converted = convert_text(shape, filters=KEEP)
    expected = {"ko": 1, "occupied": 1, "after_end": 1, "late_setup": 2, "passes": 3}
    assert {name: converted.counts[name] for name in expected} == expected
    assert converted.sequences["alternating"].tolist() == [True]
    assert converted.sequences["length"].tolist() == [16]
    assert not converted.differences


def test_moves_of_one_colour_in_a_row(convert_text: ConvertText) -> None:
    assert convert_text(text("Baa", "Bbb", "Wcc") + text("Baa", "Wbb")).sequences["alternating"].tolist() == [
        False,
        True,
    ]


def test_more_moves_than_can_be_counted(convert_text: ConvertText) -> None:
    assert convert_text(text(*["B"] * 32_768)).reasons == ["too_many_moves"]
    assert len(convert_text(text(*["B"] * 32_767), one_in=10**9).rows["move"]) == 32_767


def test_liberties(convert_text: ConvertText) -> None:
    rng = np.random.default_rng(5)
    moves: list[Move] = [(move % 2, tuple(rng.integers(0, 7, 2).tolist())) for move in range(120)]
    settings_ = {"filters": {"sizes": [7], **KEEP}, "source": {"liberties": True}}
    converted = convert_text(sgf_of(moves, 7), **settings_)
    planes = np.unpackbits(converted.rows["liberties"], axis=-1, count=49).reshape(-1, 3, 7, 7)
    for board, told in zip(stones(converted.rows, 7), planes, strict=True):
        for row, column in np.ndindex(7, 7):
            expected = [0, 0, 0]
            if board[row, column] and 1 <= (count := _liberties(board, row, column)) <= 3:
                expected[count - 1] = 1
            assert told[:, row, column].tolist() == expected


def _liberties(board: np.ndarray[Any, Any], row: int, column: int) -> int:
    chain_, free, colour = [(row, column)], set(), board[row, column]
    for r, c in chain_:
        for near in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if min(near) >= 0 and max(near) < len(board):
                if board[near] == 0:
                    free.add(near)
                elif board[near] == colour and near not in chain_:
                    chain_.append(near)
    return len(free)


def test_a_walk_ends_with_enough_liberties() -> None:
    board = new_board(19)
    clear(board, 19)
    for column in range(1, 10):
        put(board, STRIDE + column, 0)
    assert chain(board, STRIDE + 1, 1) == (1, 2)
    assert chain(board, STRIDE + 1, 100) == (10, 9)
    for column in range(1, 10):
        put(board, STRIDE + column, 2)
    assert board.digest[0] == 0
    assert not board.bits.any()


@pytest.mark.parametrize(
    ("size", "count", "points"),
    [
        (19, 2, [(15, 3), (3, 15)]),
        (19, 3, [(15, 3), (3, 15), (3, 3)]),
        (9, 5, [(6, 2), (2, 6), (2, 2), (6, 6), (4, 4)]),
        (8, 5, []),
        (19, 10, []),
        (19, 1, []),
    ],
)
def test_star_points(size: int, count: int, points: list[tuple[int, int]]) -> None:
    assert star_points(size, count) == points


@pytest.mark.parametrize("size", range(7, 26))
def test_star_points_are_as_many_as_asked_for(size: int) -> None:
    for count in range(2, 10):
        points = star_points(size, count)
        assert len(points) in (0, count)
        assert len(set(points)) == len(points)
        assert all(0 <= row < size and 0 <= column < size for row, column in points)
