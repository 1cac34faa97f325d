"""Games as rows, compared with sgfmill's board played by the plain words of the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.go.play.board import STRIDE, chain, clear, new_board, put
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import Converted, Move, convert, play_by_the_rules, sgf_of, stones, text

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
    st.tuples(st.sampled_from([0, 1]), st.one_of(st.none(), *[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 9)),
    min_size=1,
    max_size=80,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    CROWDED,
    st.sampled_from(["stop", "stop", "reject"]),
    st.sampled_from(["", "NZ", "Chinese", "Ing"]),
    st.sampled_from([(7,), (7, 9)]),
)
def test_crowded_corners(tmp_path: Path, moves: list[Move], illegal: str, rules: str, sizes: tuple[int, ...]) -> None:
    (tmp_path / "games.sgf").write_bytes(sgf_of(moves, 7, f"RU[{rules}]"))
    converted = convert(tmp_path, filters={"sizes": sizes, "illegal": illegal})
    plain_rules = {"suicide_allowed": rules in ("NZ", "Ing"), "superko": {"NZ": 2, "Chinese": 1}.get(rules, 0)}
    check(converted, moves, 7, sizes[-1], stops=illegal == "stop", **plain_rules)
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
    stopped = convert_text(text(*shape, "Bcb", "Wff"), filters={"illegal": "stop"})
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
    assert convert_text(game).reasons == reasons
    stopped = convert_text(game, filters={"illegal": "stop"})
    assert stopped.reasons == []
    assert stopped.counts["superko"] == len(reasons)
    assert len(stopped.rows["move"]) == 12 - 2 * len(reasons)


def test_a_position_may_come_back_with_the_other_side_to_move(convert_text: ConvertText) -> None:
    for rules, superko in (("koPOSITIONALscoreAREAtaxNONEsui1", 1), ("koSITUATIONALscoreAREAtaxNONEsui1", 0)):
        game = text("Bba", "Wii", "Bab", "Waa", "Bhh", root=f"RU[{rules}]")
        assert convert_text(game).reasons == ["superko"] * superko


def test_passes_and_moves_after_the_end(convert_text: ConvertText) -> None:
    game = text("Bcc", "W", "Btt", "Wdd", size=19)
    kept = convert_text(game)
    assert kept.rows["move"].tolist() == [2 * 19 + 2, 361, 361, 3 * 19 + 3]
    assert kept.counts["after_end"] == 1


def test_tt_is_a_point_on_large_boards(convert_text: ConvertText) -> None:
    rows = convert_text(text("Btt", "W", size=25), filters={"sizes": [25]}).rows
    assert rows["move"].tolist() == [19 * 25 + 19, 625]


def test_colours_come_from_the_moves(convert_text: ConvertText) -> None:
    converted = convert_text(text("Wcc", "Bdd", "Bee", "Wff"))
    assert converted.rows["state"][:, 0].tolist() == [1, 0, 0, 1]
    assert converted.sequences["first_player"].tolist() == [1]
    assert converted.sequences["alternating"].tolist() == [False]


def test_setup(convert_text: ConvertText) -> None:
    opening = b"(;GM[1]SZ[9]AB[aa:ba][ca]AW[ab];AE[aa]AW[ee];W[dd]"
    converted = convert_text(opening + b")")
    board = stones(converted.rows, 19)[0]
    assert board[0, :4].tolist() == [0, 1, 1, 0]
    assert board[4, 4] == 2
    assert not converted.differences
    late = opening + b";AW[ff];B[gg])"
    assert convert_text(late).reasons == ["late_setup"]
    stopped = convert_text(late, filters={"illegal": "stop"})
    assert len(stopped.rows["move"]) == stopped.counts["late_setup"] == 1
    assert not stopped.differences


def test_setup_leaves_no_stones_without_liberty(convert_text: ConvertText) -> None:
    converted = convert_text(b"(;GM[1]SZ[9]AW[aa]AB[ab][ba];B[dd])")
    assert stones(converted.rows, 19)[0, 0, :2].tolist() == [0, 1]
    assert converted.counts["setup_captures"] == 1
    assert converted.audited == 1


KO_SHAPE = ("Bba", "Wca", "Bab", "Wdb", "Bbc", "Wcc", "Bcb", "Wbb")
FAILING = [
    (text("Baa", "Wbb", "Baa"), {}, "occupied", "at move 3"),
    (text(*KO_SHAPE, "Bcb"), {}, "ko", "at move 9"),
    (text("Bba", "Wii", "Bab", "Waa"), {}, "suicide", "at move 4"),
    (text(*TWO_SENT, root="RU[AGA]"), {}, "superko", "at move 11"),
    (text("Baa", "Wja"), {}, "off_board", "at move 2"),
    (text("Baa", "Waj"), {}, "off_board", "at move 2"),
    (text("Baa", "Btj"), {}, "off_board", "at move 2"),
    (b"(;SZ[9]AW[ja];B[aa])", {}, "off_board", "at move 1"),
    (b"(;SZ[9]AW[bb]AB[cc:aa];B[aa])", {}, "ambiguous_node", "at move 1"),
    (b"(;SZ[9];B[aa];AW[bb];B[cc])", {}, "late_setup", "at move 2"),
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
    game = text(*KO_SHAPE, "B", "W", "Bee", "Wff", "B", "Wff")
    converted = convert_text(game, filters={"illegal": "stop"})
    expected = {"after_end": 1, "passes": 3, "captures": 1, "occupied": 1}
    assert {name: converted.counts[name] for name in expected} == expected
    assert converted.sequences["alternating"].tolist() == [True]
    assert converted.sequences["length"].tolist() == [13]
    assert not converted.differences


def test_more_moves_than_can_be_counted(convert_text: ConvertText) -> None:
    assert convert_text(text(*["B"] * 32_768)).reasons == ["too_many_moves"]
    assert len(convert_text(text(*["B"] * 32_767), one_in=10**9).rows["move"]) == 32_767


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
