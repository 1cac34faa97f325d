"""Text that is not surely one game is one reject, and no game gets the tags or the board of another."""

from __future__ import annotations

import chess
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outofcore.domains.chess import DOMAIN
from outofcore.raw.unit import AuditRate, UnitResult
from tests.domains.chess.positions import board_fen
from tests.domains.chess.test_convert import moves_of
from tests.domains.units import unit_of

BOARDS = ("r1bqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR", "rn1qkbnr/pppppppp/8/8/8/8/PPPPPPPP/RN1QKBNR")
SETTINGS = {"unfinished": "keep", "unterminated": "tag", "duplicates": "keep"}


def game(number: int, moves: str = "1. e4 e5 2. Nf3 1-0") -> str:
    """A game whose Elo and start position belong together; its moves are legal from the initial position too."""
    return (
        f'[Event "event {number}"]\n[Site "?"]\n[WhiteElo "{2000 + number}"]\n[SetUp "1"]\n'
        f'[FEN "{BOARDS[number % 2]} w KQkq - 0 1"]\n[White "a"]\n[Result "1-0"]\n\n{moves}\n\n'
    )


def convert(text: str | bytes) -> UnitResult:
    payload = text if isinstance(text, bytes) else text.encode()
    section = DOMAIN.section(raw="-", filters=SETTINGS)
    return DOMAIN.converter(section, AuditRate(1, 1))(unit_of(payload))


def assert_only_whole_games(result: UnitResult) -> None:
    """Each accepted game has the board that belongs to its Elo, as chess.Board reads the FEN."""
    first = 0
    columns = result.sequences
    for elo, length in zip(columns["white_elo"].tolist(), columns["length"].tolist(), strict=True):
        assert board_fen(result.rows, first) == chess.Board(f"{BOARDS[elo % 2]} w KQkq - 0 1").board_fen()
        assert result.rows["ply"][first] == 0
        first += length


HEADER = game(1).split("\n\n")[0].split("\n")


PARTING = [
    *('[Annotator "over\ntwo lines"]', '[Annotator "over\n\nthree "\n]', "junk", "1. junk", "1-0", "(x)", "]"),
    *('[WhiteElo "1999"]', '[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]', '[FEN "never closed', "[Variant Chess960]"),
]
LEFT_OUT = [  # as python-chess does
    *("[]", "[", "[ ]", '[Black Type "program"]', "[Annotator Doe]", '["x"]', '[Annotator "never closed'),
    *('[Annotator "a"] and more', '[Annotator "Kas[Event "x"]', '[Annotator [Site "x"]', '[Elo "1"[Site "x"]'),
    *('[Größe "1"]', f'[{"x" * 300} "1"]'),
]


@pytest.mark.parametrize(
    ("line", "parts"), [*((line, True) for line in PARTING), *((line, False) for line in LEFT_OUT)]
)
@pytest.mark.parametrize("place", range(1, len(HEADER)))
def test_what_may_part_the_tags_of_two_games_costs_the_game_and_no_other_line_does(line, parts, place):
    text = game(1).replace(HEADER[place], f"{line}\n{HEADER[place]}")
    result = convert(game(0) + text + game(2))
    expected = [(len(game(0)), "not_one_game")] if parts else []
    assert [(reject.offset, reject.reason) for reject in result.rejects] == expected
    assert result.sequences["white_elo"].tolist() == ([2000, 2002] if parts else [2000, 2001, 2002])
    assert_only_whole_games(result)


@pytest.mark.parametrize("name", ["BlackType:", "Time-Control", "a.b", "x+y", "C#", "Ann_otator", "9"])
def test_names_of_tags_have_more_than_letters(name):
    result = convert(game(0).replace("[SetUp", f'[{name} "program"]\n[SetUp') + game(1))
    assert not result.rejects
    assert_only_whole_games(result)


@pytest.mark.parametrize(
    "moves",
    [
        *("1. e4 e5 * 2. Nf3 Nc6 1-0", "1. e4 e5 1-0 Nf3 1-0", "1. e4 e5 1-0\n2. Nf3 Nc6 1-0", "* 1. e4 e5 1-0"),
        *("1. e4 e5 1/2-1/2 O-O 1-0", "1. e4 e5 1-0 {x} (1... e6) -- 1-0", "1. e4 e5 1-0 1... e5 1-0"),
        *("1. e4 e5\n\n1. Nf3 Nc6 1-0", "1. e4 e5\r\n \r\n1.Nf3 Nc6 1-0", '1. e4 e5\n[Black "x"]\n2. Nf3 1-0'),
    ],
)
def test_moves_that_are_not_surely_of_one_game_are_one_reject(moves):
    result = convert(game(0) + game(1, moves) + game(2))
    assert [(reject.offset, reject.reason) for reject in result.rejects] == [(len(game(0)), "not_one_game")]
    assert_only_whole_games(result)


@pytest.mark.parametrize(("moves", "games"), [("e4 e5 Nf3", 3), ("White wins", 0), ("e4 e5 and wins", 0)])
def test_a_tag_after_moves_without_numbers_begins_a_game_unless_there_are_other_words(moves, games):
    result = convert("".join(f'[{name} "x"]\n\n{moves} 1-0\n\n' for name in ("White", "Black", "Site")))
    assert [reject.reason for reject in result.rejects] == ([] if games else ["not_one_game"])
    assert len(result.keys) == games


@pytest.mark.parametrize(
    ("moves", "reason"),
    [
        ("Nf3 Nc6 3. Bb5 a6 1-0", "illegal_move"),
        ("12. Nf3 Nc6 1-0", "not_one_game"),
        ("5... Nf6 1-0", "not_one_game"),
    ],
)
def test_the_rest_of_a_game_at_the_beginning_of_a_file_is_none(moves, reason):
    result = convert(f"{moves}\n\n" + game(1))
    assert [reject.reason for reject in result.rejects] == [reason]
    assert_only_whole_games(result)


@given(st.lists(st.sampled_from(["", "0.", "1...", "2.", "7 ", "23 ...", "999.", "12345."]), min_size=6, max_size=6))
@example(["1.", "1...", "2.", "1...", "2.", "2..."])  # after variations
@example(["12345.", "", "", "", "", ""])
@settings(max_examples=50, deadline=None)
def test_numbers_of_moves_decide_nothing(numbers):
    moves = "e4 e5 Nf3 {x} (2. d4 1. Ke2) Nc6 Bb5 a6".replace("e4 ", "", 1).split(" ")
    words = iter(numbers)
    text = " ".join(f"{next(words)} {word}" if word[0] in "aNBe" else word for word in ["e4", *moves])
    result = convert(f'[Event "x"]\n\n{text} 1-0')
    assert moves_of(result) == ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "a7a6"]


@given(st.integers(0, len(game(1))), st.sampled_from(["", " ", "\n", "\n\n", "\r\n"]))
@settings(max_examples=100, deadline=None)
def test_a_game_that_is_cut_off_anywhere_takes_nothing_from_the_next(end, between):
    result = convert(game(0) + game(1)[:end] + between + game(2) + game(4))
    assert_only_whole_games(result)
    assert {2000, 2004} <= set(result.sequences["white_elo"].tolist())


@given(
    st.integers(1, len(HEADER)), st.text(st.sampled_from('[]"\n\r ;{}(a1.-*:\\%') | st.characters(max_codepoint=999))
)
@example(3, "1*")
@example(3, "0A*")
@example(5, "a1 *")
@example(3, "1.a1*")
@example(7, "1*")
@example(3, "0*0A")
@example(3, "0 1*A")
@example(3, "12. *")
@example(3, "1... 1-0")
@settings(max_examples=100, deadline=None)
def test_whatever_is_between_the_tags_no_game_is_on_another_board(place, junk):
    text = "\n".join([*HEADER[:place], junk, *HEADER[place:]]) + "\n\n1. e4 e5 2. Nf3 1-0\n\n"
    result = convert(game(0) + text + game(2) + game(4))
    assert_only_whole_games(result)
    assert 2000 in result.sequences["white_elo"]
