"""Games without a result, and games with a move that is not legal; python-chess checks each conversion, in convert."""

from __future__ import annotations

from collections import Counter

import pytest

import outofcore
from outofcore.domains.chess import DOMAIN
from outofcore.store.reader import open_store
from tests.domains.chess.test_convert import convert, moves_of, reasons

STOP = {"illegal_move": "stop"}


def test_an_unfinished_game_is_kept_without_a_value():
    text = "1. e4 e5 *\n\n" + '[Result "*"]\n\n1. d4 d5 *\n\n' + '[Result "1-0"]\n\n1. c4 c5 *\n\n' + "1. f4 f5 0-1\n\n"
    result = convert(text, filters={"unfinished": "keep"})
    assert result.sequences["result"].tolist() == [-128, -128, 1, -1]
    assert result.rows["result"].tolist() == [-128] * 4 + [1, 1, -1, -1]
    assert result.stored_counts["unfinished"].tolist() == [True, True, False, False]
    assert "ended *" in DOMAIN.draw({name: values[:1] for name, values in result.rows.items()})
    assert reasons(convert(text)) == ["no_result"] * 2
    # Text that breaks off is no unfinished game.
    assert reasons(convert('[Event "a"]\n\n1. e4 e5', filters={"unfinished": "keep"})) == ["unterminated"]


@pytest.mark.parametrize("end", ["Ke3", "--", "Sf3", "$exd5", "0000", "Qh5+"])
@pytest.mark.parametrize("rest", ["", "Nc6 {[%clk 0:00:07]} 3. Nf3 Nf6"])
def test_a_game_stops_before_a_move_that_is_not_legal(end, rest):
    text = f"1. e4 {{[%clk 0:00:09]}} e5 2. {end} {{[%clk 0:00:08]}} {rest} 1-0\n\n1. d4 d5 0-1\n\n"
    legal = end == "Qh5+" and not rest
    result = convert(text, filters=STOP)
    expected = [
        "e2e4",
        "e7e5",
        *(["d1h5"] if end == "Qh5+" else []),
        *(["b8c6", "g1f3", "g8f6"] if end == "Qh5+" and rest else []),
    ]
    assert moves_of(result) == [*expected, "d2d4", "d7d5"]
    assert result.rows["clock"].tolist()[:2] == [900, -1]
    assert result.sequences["plies"].tolist() == [len(expected), 2]
    assert result.sequences["result"].tolist() == [1, -1]
    assert result.stored_counts["stopped"].tolist() == [end != "Qh5+", False]
    assert legal or end == "Qh5+" or reasons(convert(text))


def test_too_short_a_beginning_is_still_rejected_for_its_move():
    text = "1. e4 e5 2. Ke3 1-0"
    assert reasons(convert(text, filters=STOP | {"min_plies": 3})) == ["illegal_move"]
    assert reasons(convert(text, filters=STOP | {"min_plies": 2})) == []
    assert reasons(convert("1. Ke2 1-0", filters=STOP)) == ["illegal_move"]
    assert reasons(convert('[FEN "8/8/8/8 w"]\n\n1. e4 1-0', filters=STOP)) == ["invalid_position"]


def test_both_are_counted_in_the_figures_of_a_conversion(tmp_path):
    (tmp_path / "a.pgn").write_text("1. e4 e5 *\n\n1. d4 d5 2. Ke3 1-0\n\n1. c4 c5 1-0\n\n1. Ke2 1-0\n\n")
    figures = outofcore.convert(
        "chess",
        tmp_path / "a.pgn",
        tmp_path / "a.zarr",
        filters={"unfinished": "keep", "illegal_move": "stop"},
        source={"tags": ["Event"]},
        splits={"val": 0.0, "test": 0.0},
    )
    assert (figures["found"], figures["accepted"], figures["rejected"]) == (4, 3, {"illegal_move": 1})
    assert (figures["unfinished"], figures["stopped"]) == (1, 1)
    assert open_store(tmp_path / "a.zarr").sequences("train")["event"].read().tolist() == ["", "", ""]
    batch = next(iter(outofcore.loader(tmp_path / "a.zarr", "train", 6, shuffle=False)))
    assert Counter(batch["value"].isnan().tolist()) == {False: 4, True: 2}


@pytest.mark.data
def test_a_real_game_with_null_moves_is_kept_up_to_the_first(real_data):
    content = (real_data / "chess/odd/anastasian-lewis.pgn").read_bytes()
    assert reasons(convert(content)) == ["null_move"]
    result = convert(content, filters=STOP)
    assert result.stored_counts["stopped"].tolist() == [True]
    assert len(moves_of(result)) == result.sequences["plies"][0] > 1
