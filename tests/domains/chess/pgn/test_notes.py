"""Clocks, evaluations and the time of moves; every conversion here is checked by python-chess too, in convert."""

from __future__ import annotations

import io
import re

import chess.pgn
import numpy as np
import pytest

from outofcore.domains.chess.codes import NO_EVALUATION
from outofcore.domains.chess.pgn.classes import increment
from tests.domains.chess.test_convert import convert

NOTED = {"engine_comments": True, "time_spent": True}


def noted(text: str, **source: object) -> dict[str, list[int]]:
    rows = convert(text, source=NOTED | source).rows
    return {name: rows[name].tolist() for name in ("clock", "evaluation", "mate", "time_spent")}


def test_comments_of_cutechess_are_seen_by_the_mover():
    text = (
        "1. e4 {book} e5 {0.00/31 48s} 2. f3 {-0.17/15 0.073s} Nc6 {+1.24/14\n0.27s} "
        "3. a3 {-M8/8 2s} Qh4+ {+M7/9 1s, x} 0-1"
    )
    assert noted(text) == {
        "clock": [-1] * 6,
        "evaluation": [-32768, 0, -17, -124, -32768, -32768],
        "mate": [0, 0, 0, 0, -4, -4],
        "time_spent": [-1, 4800, 7, 27, 200, 100],
    }
    older = text.replace("/31 ", "/31, ").replace("/15 ", "/15, ").replace("/14\n", "/14,\n").replace("/8 2s", "/8, 2s")
    assert noted(older) == noted(text)
    rows = convert(f"{text} 1. d4 d5 1-0", source=NOTED).rows
    # That of a search is of the position in which the move was chosen.
    assert rows["position_evaluation"].tolist() == [-32768, 0, -17, -124, -32767, -32767, -32768, -32768]
    start = '[FEN "rnbqkbnr/pppppppp/8/8/8/5P2/PPPPP1PP/RNBQKBNR b KQkq - 0 1"]\n\n'
    black = start + "1... e5 {+0.50/9 1s} 2. e4 {-0.40/9 1s} *"
    assert convert(black, source=NOTED, filters={"unfinished": "keep"}).rows["evaluation"].tolist() == [-50, -40]


@pytest.mark.parametrize("source", [{}, NOTED])
def test_the_evaluation_of_a_position_was_noted_after_the_move_before(source):
    text = "1. e4 {[%eval 0.3]} e5 {[%eval 0.2]} 2. Qh5 Ke7 {[%eval #1]} 3. Qxe5# 1-0\n\n1. d4 {[%eval 0.1]} d5 1-0"
    rows = convert(text, source=source).rows
    assert rows["position_evaluation"].tolist() == [-32768, 30, 20, -32768, 32767, -32768, 10]
    bounded = "1. e4 {[%eval 400.00]} e5 {[%eval -327.67]} 2. d4 {[%eval #-30]} d5 1-0"  # which is no mate
    assert convert(bounded, source=source).rows["position_evaluation"].tolist() == [-32768, 32766, -32766, -32767]


@pytest.mark.parametrize(
    ("rest", "filters"),
    [("2. a3 ; x\n", {}), ("2. Ke3 {+0.30/9 1s} Ke6 {+0.40/9 1s}", {"illegal_move": "stop"})],
    ids=["read by python-chess", "stopped"],
)
def test_comments_on_a_game_are_never_those_on_the_next_one(rest, filters):
    text = f'[Event "a"]\n\n1. e4 {{+0.10/9 1s}} e5 {{+0.20/9 1s}} {rest} 1-0\n\n[Event "b"]\n\n1. d4 d5 2. c4 1-0\n\n'
    result = convert(text, source=NOTED, filters=filters)
    assert result.rows["evaluation"].tolist()[:2] == [10, -20]
    assert set(result.rows["evaluation"].tolist()[2:]) == {NO_EVALUATION}
    assert set(result.rows["time_spent"].tolist()[-3:]) == {-1}


def test_comments_of_tcec_are_seen_by_white():
    text = (
        "1. e4 {d=26, mt=94353, tl=1710647, pv=e4 e5, wv=0.34, R50=50,} e5 {wv=-M12, mt=10, tl=1800000,} "
        "2. a3 {wv=M, mt=x} 1-0"
    )
    assert noted(text) == {
        "clock": [171064, 180000, -1],
        "evaluation": [34, -32768, -32768],
        "mate": [0, -6, 0],
        "time_spent": [9435, 1, -1],
    }


@pytest.mark.parametrize(
    ("comment", "clock", "evaluation", "mate", "spent", "unread"),
    [
        ("+0.10/12 -0.005s", -1, 10, 0, -1, 1),
        ("+0.13/12 0.29", -1, -32768, 0, -1, 1),
        ("-0.00/1 0s", -1, 0, 0, 0, 0),
        ("M0/1 1s", -1, -32768, 0, 100, 0),
        ("M999/1 1s", -1, -32768, 127, 100, 0),
        ("999999/1 9999999999999999s", -1, 32766, 0, 2**31 - 1, 0),
        (",mt=5, tl=x", -1, -32768, 0, 0, 1),
        ("a,\n wv=+1.999,wv=2", -1, 199, 0, -1, 0),
        ("wv=M, mt=x", -1, -32768, 0, -1, 2),
        *((text, -1, -32768, 0, -1, 0) for text in ("+0.13/ 0.29s", "0.13 12 0.29s", "+-1/2 3s", "1/2-1/2", "mt =5")),
        *((text, -1, -32768, 0, -1, 0) for text in ("/1 2s", "+", "mt", "", "1/2 agreed", "+0.1/12s")),
        ("[%clk 0:00:01] +0.1/1 1s", 100, -32768, 0, -1, 0),
        ("[x] mt=5", -1, -32768, 0, -1, 0),
        ("[%emt 1.156]", -1, -32768, 0, 115, 0),
        ("[%emt 0:00:02.5]", -1, -32768, 0, 250, 0),
        ("[%emt 0:02]", -1, -32768, 0, -1, 1),
        ("[%clk 00:05] [%clk 0:00:05]", 500, -32768, 0, -1, 1),
        ("[%clk 59.3]", -1, -32768, 0, -1, 1),
        ("[%eval 1;5] [%eval -327.67]", -1, -32766, 0, -1, 1),
        ("[%eval #] [%evaluation 3] [%mdl 4]", -1, -32768, 0, -1, 1),
    ],
)
@pytest.mark.parametrize("moves", ["1. e4 {%s} e5 1-0", "1. e2e4 {%s} e7e5 1-0", "1. e4 {%s} e5 ; x\n1-0"])
def test_every_note_is_read_by_itself_or_counted(comment, clock, evaluation, mate, spent, unread, moves):
    result = convert(moves % comment, source=NOTED)
    read = [int(result.rows[name][0]) for name in ("clock", "evaluation", "mate", "time_spent")]
    assert read == [clock, evaluation, mate, spent]
    assert result.counts["notes_unread"] == unread


def test_by_default_only_notes_in_brackets_are_read():
    result = convert("1. e4 {+0.13/12 0.29s} e5 {wv=0.34, tl=100} 1-0")
    assert set(result.rows["evaluation"]) == {-32768}
    assert set(result.rows["clock"]) == {-1}
    assert "time_spent" not in result.rows


def test_time_spent_is_that_by_the_clocks_or_the_one_noted():
    clocks = ["0:03:00", "0:03:00", "0:02:55", "0:03:01.5", "0:02:59", "0:02:00"]
    moves = " ".join(
        f"{move} {{[%clk {clock}]}}" for move, clock in zip(["e4", "e5", "d4", "d5", "c4", "c5"], clocks, strict=True)
    )
    expected = {
        "180+2": [-1, -1, 700, 50, -1, 6350],
        "180": [-1, -1, 500, -1, -1, 6150],
        "?": [-1] * 6,
        "1/86400": [-1] * 6,
    }
    for control, spent in expected.items():
        assert noted(f'[TimeControl "{control}"]\n\n{moves} 1-0')["time_spent"] == spent
    noted_ones = moves.replace("0:02:55]", "0:02:55] [%emt 0:00:06.25]").replace(
        "[%clk 0:03:00]} e5", "[%emt 0:00:01]} e5"
    )
    assert noted(f'[TimeControl "180"]\n\n{noted_ones} 1-0')["time_spent"] == [100, -1, 625, -1, -1, 6150]


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        *(
            ("180+2", 200),
            ("60", 0),
            ("600+5", 500),
            ("10+0.05", 5),
            (" 60+1\t", 100),
            ("999999999+999999999", 99999999900),
        ),
        *(("40/7200:3600", -1), ("40/5400+30:1800+30", -1), ("40/60", -1), ("40/7200:20/3600:900", -1), ("600:5", -1)),
        *(("40/5400+30:1800", -1), ("*60", -1), ("1/86400", -1), ("-", -1), ("", -1), ("?", -1), ("1:?", -1)),
        *(("60 + 1", -1), ("60+1+1", -1), ("60+", -1), ("+1", -1), ("1234567890", -1), ("\xa060", -1), ("6\u0660", -1)),
    ],
)
def test_increments_are_those_of_a_single_period(control, expected):
    assert increment(control) == expected


@pytest.mark.parametrize(
    ("control", "berserk"),
    [("180+2", "01"), ("60+1", "10"), ("60", "11"), ("30", "01"), ("300+3", "11"), ("0+1", "00"), ("16+0.5", "10")],
)
def test_who_goes_berserk_gains_no_increment(control, berserk):
    """Clocks as Lichess runs them: the first move takes nothing, and whoever halves his time gains nothing."""
    base, _, gain = control.partition("+")
    taken, clocks = [0, 0, 5, 4, 1, 2, 0, 3], []
    for ply, seconds in enumerate(taken):
        halved = berserk[ply % 2] == "1"
        before = clocks[ply - 2] if ply > 1 else (float(base) or 9) / (1 + halved)
        clocks.append(before - seconds + (0 if halved or ply < 2 else float(gain or 0)))
    moves = " ".join(
        f"{move} {{[%clk 0:{int(clock // 60):02}:{clock % 60:05.2f}]}}"
        for move, clock in zip(["e4", "e5", "d4", "d5", "c4", "c5", "b4", "b5"], clocks, strict=True)
    )
    spent = noted(f'[TimeControl "{control}"]\n\n{moves} 1-0')["time_spent"]
    assert spent == [-1, -1, *(100 * seconds for seconds in taken[2:])]


def test_a_clock_that_gains_a_period_shows_no_time_spent():
    text = '[TimeControl "40/7200:3600"]\n\n1. e4 {[%clk 0:01:40]} e5 2. d4 {[%clk 0:01:30]} d5 1-0'
    assert noted(text)["time_spent"] == [-1] * 4


@pytest.mark.parametrize("count", [5000, 1_200_000])
def test_numbers_of_any_length_are_bounded(count):
    digits = "9" * count
    assert noted(f"1. e4 {{mt={digits}, tl={digits}, wv=M{digits}}} e5 {{wv=-{digits}}} 1-0") == {
        "clock": [2**31 - 1, -1],
        "evaluation": [-32768, -32766],
        "mate": [127, 0],
        "time_spent": [2**31 - 1, -1],
    }
    found = noted(f"1. e4 {{+M{digits}/{digits} {digits}s}} e5 {{0.{digits}/9 0.{digits}s}} 1-0")
    assert (found["mate"], found["time_spent"]) == ([127, 0], [2**31 - 1, 99])
    assert found["evaluation"][1] == -99
    assert noted(f"1. e4 {{[%clk 0:00:00.{digits}]}} 1-0")["clock"] == [99]


@pytest.mark.parametrize(
    "text", ["\ufeff+0.1/1 1s", "+0.1/12\ufeff\n1s", "a\n\ufeff,mt=5\n\ufeff", "\ufeff[%clk\n\ufeff0:00:01]"]
)
def test_byte_order_marks_in_comments_are_no_blanks(text):
    noted(f"1. e4 {{\n{text}}} ; {{\n\ufeff\n\ufeff% {{x\n\ufeffe5 1-0")


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["online-with-clocks-games.pgn", "engine-with-comments.pgn", "odd/stockfish-learning.pgn"]
)
def test_real_files_have_the_times_that_python_chess_computes(real_data, name):
    content = (real_data / "chess" / name).read_bytes()
    result = convert(content, one_in=1 if len(content) < 300_000 else 16, source=NOTED, filters={"duplicates": "keep"})
    spent = result.rows["time_spent"]
    assert (spent >= 0).mean() > 0.8
    if name.startswith("engine"):
        assert (result.rows["evaluation"] > -32768).mean() > 0.9
    if not name.startswith("online"):
        return
    first = 0
    for text in re.split(r"(?m)^(?=\[Event )", content.decode())[1:]:
        tags, _, moves = text.replace("\r", "").partition("\n\n")
        game = chess.pgn.read_game(io.StringIO(f"{tags}\n\n{' '.join(moves.split())}"))
        assert game is not None
        clocks = [node.clock() for node in game.mainline()]
        base, _, gained = game.headers.get("TimeControl", "").partition("+")
        found = spent[first : first + len(clocks)]
        first += len(clocks)
        if not base.isdigit():
            continue
        for ply in range(2, len(clocks)):
            if None not in (clocks[ply], clocks[ply - 2]):
                took = round((clocks[ply - 2] + float(gained or 0) - clocks[ply]) * 100)
                assert found[ply] == (took if took >= 0 else -1)
    assert first == len(spent)


def test_a_time_that_no_clock_shows_is_unknown_at_the_start_of_every_game():
    game = '[TimeControl "60"]\n\n1. e4 {[%clk 0:00:50]} e5 {[%clk 0:00:40]} 2. d4 {[%clk 0:00:30]} 1-0\n\n'
    rows = convert(game + game.replace("e5", "c5"), source=NOTED).rows
    assert rows["time_spent"].tolist() == [-1, -1, 2000] * 2
    assert rows["time_spent"].dtype == np.int32
