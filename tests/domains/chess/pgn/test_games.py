from __future__ import annotations

import numpy as np
import pytest

from outofcore.domains.chess.pgn.games import Games, read_games
from outofcore.domains.chess.pgn.lexis import (
    BLACK_WINS,
    CONFLICT,
    DRAW,
    NO_RESULT,
    UNKNOWN_RESULT,
    WHITE_WINS,
)


def read(text: str | bytes) -> Games:
    return read_games(np.frombuffer(text if isinstance(text, bytes) else text.encode(), np.uint8))


@pytest.mark.parametrize(
    ("text", "tokens", "result"),
    [
        ("1.e4 e5 2 . Nf3 2... Nc6 3 ... Bb5 1-0", "e4 e5 Nf3 Nc6 Bb5", WHITE_WINS),
        ("1. e4\te5\v2.\fd4\0d5\x1a3. c4\rc5\r\n4. b4 0-1", "e4 e5 d4 d5 c4 c5 b4", BLACK_WINS),
        ("e4 e5 1/2-1/2", "e4 e5", DRAW),
        ("e4 e5*", "e4 e5", UNKNOWN_RESULT),
        ("e4*", "e4", UNKNOWN_RESULT),
        ("1. e4 e5", "e4 e5", NO_RESULT),
        ("1. e4 $14 e5$6 2. d4$ $139 d5 1-0", "e4 e5 d4 d5", WHITE_WINS),
        ("1. e4 $e5 d5 $ c4 1-0", "e4 $e5 d5 c4", WHITE_WINS),
        ("1. e4 (1. d4 d5 (1... e6 0-1) 2. c4) e5 (a3) (b3) 1-0", "e4 e5", WHITE_WINS),
        ("(1. d4) e4 (c4)) e5 ) 1-0", "d4 e4 e5", WHITE_WINS),
        ("{(} e4 {)} e5 {1-0 * } d4 0-1", "e4 e5 d4", BLACK_WINS),
        ("e4 {;} e5 ; d4 {\nd5 } c4 1-0", "e4 e5 d5 c4", WHITE_WINS),
        ("e4 %x e5\n% d4 1-0\nd5 1-0", "e4 %x e5 d5", WHITE_WINS),
        ("e4 e5 1-0 {x} 1-0 $1 ! (d4)", "e4 e5", WHITE_WINS),
        ("e4 e5 1-0 0-1", "e4 e5", CONFLICT),
        ("e4 e5 * 1-0", "e4 e5", CONFLICT),
        ("e4 1-1 e5 1/2-1/3 d4 1/2+1/2 0-0 1-0", "e4 1-1 e5 1/2-1/3 d4 1/2+1/2 0-0", WHITE_WINS),
        ("e4 20000.e5 10000 d4 1000. d5 00001 0-1", "e4 0000 0000 d4 d5 0000", BLACK_WINS),
        ("1.e4!? e5?? 2.--! Nf3! ?! ! .. ... Nc6 1-0", "e4 e5 -- Nf3 Nc6", WHITE_WINS),
        ("\ufeffe4 \ufeffe5 1-0", "e4 e5", WHITE_WINS),
        ("e4 \u00efe5 1-0", "e4 \u00efe5", WHITE_WINS),
        ("1, e4 1... e5 2: d4 2- d5 3) c4 4? c5 1-0", "e4 e5 d4 d5 c4 c5", WHITE_WINS),
        ("e4 [e4] e5 1-0", "e4 [e4] e5", WHITE_WINS),
    ],
)
def test_moves_of_the_main_line(text, tokens, result):
    games = read(text)
    assert len(games.results) == 1
    assert games.tokens(0) == tokens.split()
    assert games.plies.tolist() == [len(tokens.split())]
    assert games.results[0] == result


def test_tags_and_where_they_end():
    text = (
        '[Event "a \\"b\\" c" ]\n[White ""] [Black"x"]\n\n[Result "1-0]\n[Date 2020]\n[WhiteEl "1"]\n[WhiteEloX "2"]\n'
        '[FEN "one"]\n[FEN "two"]\n{x}[UTCDate "d"]\ne4 [BlackElo "7"]\n1-0'
    )
    games = read(text)
    assert len(games.results) == 1
    found = {name: games.tag(0, name) for name in ("Event", "White", "Black", "Result", "Date", "WhiteElo", "FEN")}
    assert found == {
        "Event": 'a \\"b\\" c',
        "White": "",
        "Black": "x",
        "Result": "1-0]",
        "Date": None,
        "WhiteElo": None,
        "FEN": "two",
    }
    assert games.tag(0, "BlackElo") is None
    assert (games.tags[0] >= 0).sum() == 2 * 5  # what is no known tag is written nowhere
    assert games.body(0).startswith('\n{x}[UTCDate "d"]\ne4')


def test_each_game_has_its_own_tags_tokens_and_marker():
    games = read('[Event "a"]\n\ne4 e5 1-0\n\n[Event "b"]\n[Date "2000"]\n\n*\n\n[Event "c"]\n\nd4 0-1')
    assert [games.tag(game, "Event") for game in range(3)] == ["a", "b", "c"]
    assert [games.tag(game, "Date") for game in range(3)] == [None, "2000", None]
    assert [games.tokens(game) for game in range(3)] == [["e4", "e5"], [], ["d4"]]
    assert games.results.tolist() == [WHITE_WINS, UNKNOWN_RESULT, BLACK_WINS]


def test_a_comment_that_is_never_closed_costs_no_other_game():
    games = read('[Event "a"]\n\ne4 {x [Event "y"]\n [Event z]\n[Event "b"]\n\nd4 1-0')
    assert [games.tokens(game) for game in range(len(games.results))] == [["e4"], ["d4"]]


def test_notes_belong_to_the_move_before_them():
    text = (
        "{[%clk 0:00:01]} e4 {[%clk 0:00:02] [%clk 0:00:03]} (d4 {[%clk 0:00:04]} {[%eval 9]}) {[%eval 1.5]} "
        "e5 d4 {x} {[%eval #3]} d5 {%clk 0:00:06} c4 {[ %clk 0:00:07] [%clk 0:00:08]} 1-0 {[%clk 0:00:09]}"
    )
    games = read(text)
    assert games.tokens(0) == ["e4", "e5", "d4", "d5", "c4"]
    assert games.notes.clock.tolist() == [200, -1, -1, -1, 800]
    assert games.notes.evaluation.tolist() == [150, -32768, -32768, -32768, -32768]
    assert games.notes.mate.tolist() == [0, 0, 3, 0, 0]


def test_castling_is_a_token_however_it_is_written():
    words = "O-O 0-0 O-O-O 0-0-0 O-O+ O-O-O# 1.O-O O-0 0-O o-o O-O-0 e4 O Ke1 a-a"
    games = read(f"{words} 1-0")
    assert games.tokens(0)[:4] == ["O-O", "0-0", "O-O-O", "0-0-0"]
    assert games.tokens(0)[4:7] == ["O-O", "O-O-O", "O-O"]
    assert games.tokens(0)[7:] == ["O-0", "0-O", "o-o", "O-O-0", "e4", "O", "Ke1", "a-a"]


def test_a_comment_before_the_first_tag_does_not_hide_it():
    games = read('{made by x} [Event "a"]\n[White "b"]\n\ne4 1-0')
    assert len(games.results) == 1
    assert (games.tag(0, "Event"), games.tag(0, "White"), games.tokens(0)) == ("a", "b", ["e4"])


def test_tokens_without_blanks_between_them_have_room():
    games = read("1. " + "$e" * 30_000)
    assert games.tokens(0) == ["$e"] * 30_000
    assert games.plies.tolist() == [30_000]
