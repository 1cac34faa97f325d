"""What is written around moves, read by the engine and by python-chess."""

from __future__ import annotations

import io
import logging

import chess.pgn
import pytest

from tests.cases import long_cases
from tests.domains.chess.test_convert import convert, moves_of, reasons

# The last move of a game and what leads to it.
MOVES = {
    "exd6": "1. e4 a6 2. e5 d5 3. ",
    "Nf3": "1. e4 e5 2. ",
    "e4": "1. ",
    "O-O": "1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. ",
    "0-0": "1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. ",
    "Ng1-f3": "1. e4 e5 2. ",
    "g1f3": "1. e4 e5 2. ",
    "Bb5+": "1. e4 d5 2. ",
    "Qh5#": "1. e4 g5 2. d4 f6 3. ",
    "a8=Q": '[FEN "4k3/P7/8/8/8/8/8/4K3 w - - 0 1"]\n\n1. ',
    "a8Q+": '[FEN "4k3/P7/8/8/8/8/8/4K3 w - - 0 1"]\n\n1. ',
    "a8": '[FEN "4k3/P7/8/8/8/8/8/4K3 w - - 0 1"]\n\n1. ',
}
SIGNS = (
    "! ? !! ?? !? ?! + # ++ += =+ = +- -+ +/- -/+ +/= =/+ +/\\- ~ ^ > < . , : _ | ' \" \u2192 \u00b1 \u2213 "
    "\u221e \u2a72 \u2a71 \u25a1 \u25b3 \u2313 \u2a00 \u2191 \u21c6 \u00a0 !? +/= \u00b1\u2191"
)
GLUED = "ep ep+ e.p. e.p./"
APART = "ep e.p e.p."
REMARKS = [
    *SIGNS.split(" "),
    *GLUED.split(" "),
    *(f" {remark}" for remark in f"{SIGNS} {APART}".split(" ")),
    " {a} ep",
    " $1 !",
    " () +=",
]
WORDS = "N D TN ch mate O x exp Sf e n Q =Q N8 O-O-O Zz9 -- +-- Z0 @@@@ 0000 novelty \u2658 \u00e9 ch. dbl.ch. e.p"

logging.getLogger("chess.pgn").setLevel(logging.CRITICAL)  # it reports each error of a game that it reads


def by_python_chess(text: str) -> list[str] | None:
    """Moves of the main line in UCI; None if python-chess reports an error or reads a null move."""
    game = chess.pgn.read_game(io.StringIO(text))
    moves = [move.uci() for move in game.mainline_moves()]
    return None if game.errors or "0000" in moves else moves


@pytest.mark.parametrize("move", [*list(MOVES)[:3], *long_cases(*list(MOVES)[3:])])
def test_a_remark_costs_no_game_that_python_chess_reads_without_an_error(move):
    for remark in [*REMARKS, *(f" {word}" for word in WORDS.split(" "))]:
        text = f"{MOVES[move]}{move}{remark} 1-0"
        expected = by_python_chess(text)
        result = convert(text)
        if expected is None:
            assert len(result.rejects) == 1, text
        else:
            assert moves_of(result) == expected, text


@pytest.mark.parametrize(
    "text",
    ["1. e4 e5 2. N f3 Nc6", "1. e4 e5 2.N f3 Nc6", "N f3", "1. Sf3 d5", "1. e4 d5 2. e x d5", "1. d4 d5 2. Lf4 Lf5"],
)
def test_no_pawn_moves_where_a_piece_is_named_in_another_language_or_apart(text):
    assert by_python_chess(f"{text} 1-0") is None or "unreadable_move" in reasons(convert(f"{text} 1-0"))


@pytest.mark.parametrize("castling", ["o-o", "O-0", "o-O"])
def test_castling_in_other_letters_is_not_left_out(castling):
    assert reasons(convert(f"1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. {castling} 1-0")) == ["unreadable_move"]


def test_notes_after_a_remark_belong_to_the_move():
    for remark in ("e.p.", "\u00b1", "+="):
        result = convert(f"1. e4 a6 2. e5 d5 3. exd6 {remark} {{[%clk 0:01:00] [%eval 0.5]}} exd6 1-0")
        assert result.rows["clock"].tolist() == [-1] * 4 + [6000, -1]
        assert result.rows["evaluation"][4] == 50
