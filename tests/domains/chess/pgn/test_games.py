from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.chess.codes import (
    BLACK_WINS,
    CONFLICT,
    DRAW,
    NO_RESULT,
    UNKNOWN_RESULT,
    WHITE_WINS,
)
from outofcore.domains.chess.oracle import read_pgn
from outofcore.domains.chess.pgn.facts import text_column
from outofcore.domains.chess.pgn.games import Games


def read(text: str | bytes) -> Games:
    return read_pgn(np.frombuffer(text if isinstance(text, bytes) else text.encode(), np.uint8))[0]


STRICT = [
    ("1. e4\te5\v2.\fd4\rd5 3. c4\r\nc5 0-1", 6, BLACK_WINS),
    ("e4 e5 1/2-1/2", 2, DRAW),
    ("1. e4 $14 e5$6 2. d4 $139 d5 *", 4, UNKNOWN_RESULT),
    ("1. e4 (1. d4 d5 (1... e6 (e5) {)}) 2. c4) e5 (a3) 1-0", 2, WHITE_WINS),
    ("{(} e4 {)} e5 {1-0 * ; %} d4 1-0 {x}", 3, WHITE_WINS),
    ("1.e4!? e5?? 2.Nf3! Nc6+!! 3.Bb5# a6 4.O-O+ 1-0", 7, WHITE_WINS),
    ("1. Nbd2 Nb1xd2 N1xd2 Nxd2 exd5 e8=Q dxe1N+ e2e4 1-0", 8, WHITE_WINS),
    ("1. e4 e5 2. ... {White forfeits on time} 0-1", 2, BLACK_WINS),
    ("1. e4 e5 2. {White resigns} 0-1", 2, BLACK_WINS),
    ("1. e4 ... 0. e5 2... 7 3 . Nf3 1-0", 3, WHITE_WINS),
    ("\ufeff1. e4 e5 1-0\0\x1a", 2, WHITE_WINS),
]
ODD = [
    ("e4\0e5 1-0", 2, WHITE_WINS),
    ("e4 e5*", 2, UNKNOWN_RESULT),
    ("1. e4 e5", 2, NO_RESULT),
    ("e4 e51-0", 2, WHITE_WINS),
    ("e4 e5 1/2", 2, DRAW),
    ("e4 e5 \u00bd", 2, DRAW),
    ("e4 e5 1/2-1/2 1/2", 2, DRAW),
    ("e4 e5 0\u20131", 2, BLACK_WINS),
    ("1. e4 $e5 d5 $ c4 1-0", 4, WHITE_WINS),
    ("(1. d4) e4 (c4)) e5 ) 1-0", 3, WHITE_WINS),
    ("1. e4 e5 (2. d4 1-0", 2, NO_RESULT),
    ("1. e4 e5 (1... c5 1-0) 1-0", 2, WHITE_WINS),
    ("e4 {;} e5 ; d4 {\nd5 {x\n} c4 1-0", 4, WHITE_WINS),
    ("e4 {a {b} c} e5 1-0", 2, WHITE_WINS),
    ("e4 %x e5\n% d4 1-0\nd5 1-0", 3, WHITE_WINS),
    ("e4 e5 1-0 1-0 $1 ! (d4)", 2, WHITE_WINS),
    ("e4 e5 1-0 0-1", 2, CONFLICT),
    ("1.e4!? e5?? 2.--! Nf3! ?! ! .. ... Nc6 1-0", 5, WHITE_WINS),
    ("e4 \ufeffe5 1-0", 2, WHITE_WINS),
    ("e4 [e4] e5 1-0", 3, WHITE_WINS),
    ("1. e4 e5 2. d4 1. d5 1-0", 4, WHITE_WINS),
]


@pytest.mark.parametrize(
    ("odd", "text", "plies", "result"), [*((False, *row) for row in STRICT), *((True, *row) for row in ODD)]
)
def test_the_engine_takes_what_is_strict_and_python_chess_the_rest(odd, text, plies, result):
    games = read(text)
    assert (games.odd.tolist(), games.plies.tolist(), games.results.tolist()) == ([odd], [plies], [result])


VALUES = st.lists(
    st.sampled_from(['[Event "', "[D", "[", "]", '"]', "1-0", "1. e4", "{", "}", "(", ";", "%", "\\", '"', "\0"])
    | st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=5),
    max_size=6,
).map("".join)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_a_tag_holds_anything_but_the_end_of_a_line(values):
    written = [[value.replace("\\", "\\\\").replace('"', '\\"') for value in pair] for pair in values]
    games = read("".join(f'[Event "{a}"]\n[Site "x"]\n[White "{b}"]\n\n1. e4 e5 1-0\n\n' for a, b in written))
    assert not games.odd.any()
    for name, column in (("Event", 0), ("White", 1)):
        assert text_column(games, name).tolist() == [pair[column].replace("\0", "") for pair in values]


def test_tags_and_where_they_end():
    text = (
        '[Event "a \\"b\\" c" ]\n[White ""] [Black"x"]\n\n[WhiteEl "1"]\n[WhiteEloX "2"]\n'
        '[FEN "one"]\n[FEN "one"]\ne4 e5 1-0'
    )
    games = read(text)
    assert len(games.results) == 1
    names = ("Event", "White", "Black", "Result", "FEN")
    assert [games.tag(0, name) for name in names] == ['a "b" c', "", "x", "", "one"]
    quoted = '[Event "the "first" game"]\n[Site "C:\\"]\n\n1. e4 e5 1-0'
    assert read(quoted).tag(0, "Event") == 'the "first" game'
    assert read(quoted).faults.tolist() == [0]


def test_a_comment_that_is_never_closed_costs_no_other_game():
    games = read('[Event "a"]\n\ne4 {x [Event "y"]\n [Event z]\n[Event "b"]\n\nd4 1-0')
    assert games.plies.tolist() == [1, 1]


def test_notes_belong_to_the_move_before_them():
    text = (
        "{[%clk 0:00:01]} e4 {[%clk 0:00:02] [%clk 0:00:03]} (d4 {[%clk 0:00:04]} {[%eval 9]}) {[%eval 1.5]} "
        "e5 d4 {x} {[%eval #3]} d5 {%clk 0:00:06} c4 {[ %clk 0:00:07] [%clk 0:00:08]} 1-0 {[%clk 0:00:09]}"
    )
    games = read(text)
    assert games.notes.clock.tolist() == [200, -1, -1, -1, 800]
    assert games.notes.evaluation.tolist() == [150, -32768, -32768, -32768, -32768]
    assert games.notes.mate.tolist() == [0, 0, 3, 0, 0]


def test_a_comment_before_the_first_tag_does_not_hide_it():
    games = read('{made by x} [Event "a"]\n[White "b"]\n\ne4 1-0')
    assert len(games.results) == 1
    assert (games.tag(0, "Event"), games.tag(0, "White"), games.plies[0]) == ("a", "b", 1)
