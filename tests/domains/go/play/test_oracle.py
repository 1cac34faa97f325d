"""The oracle finds what is wrong, and only that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outofcore.domains.go.filters import FilterSection
from outofcore.domains.go.play.oracle import compare, main_line, read_events, rewritten
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import text

GAME = text("Bba", "Waa", "Bbb", "Wac", "Bab", "Wee", "B")
FILTERS = FilterSection(sizes=(9, 19))
Rows = dict[str, np.ndarray[Any, Any]]


def judge(rows: Rows, game: bytes = GAME, filters: FilterSection = FILTERS) -> str | None:
    events = read_events(game, 9)
    assert events is not None
    return compare("here", events, rows, filters)


@pytest.mark.parametrize(
    ("field", "index", "move"),
    [
        pytest.param("stones", (3, 0, 0), "move 3", id="stone"),
        pytest.param("state", (2, 0), "move 2", id="mover"),
        pytest.param("state", (5, 2), "move 5", id="ko"),
        pytest.param("move", 5, "move 5", id="move"),
    ],
)
def test_finds_a_difference(convert_text: ConvertText, field: str, index: Any, move: str) -> None:
    rows = {name: array.copy() for name, array in convert_text(GAME).rows.items()}
    assert judge(rows) is None
    rows[field][index] ^= 1
    assert str(judge(rows)).startswith(f"here, {move}:")


def test_counts_the_moves(convert_text: ConvertText) -> None:
    rows = convert_text(GAME).rows
    less = {name: array[:-1] for name, array in rows.items()}
    assert "stopped" in str(judge(less))
    assert judge(less, filters=FilterSection(sizes=(9, 19), illegal="stop")) is None
    assert "sgfmill sees 6 moves" in str(judge(rows, text("Bba", "Waa", "Bbb", "Wac", "Bab", "Wee")))


def test_says_that_it_cannot_read_a_point(convert_text: ConvertText) -> None:
    game = b"(;SZ[9]AB[cc:aa];W[dd])"  # sgfmill wants rectangles from the top left
    converted = convert_text(game)
    assert converted.reasons == []
    assert converted.counts["unreadable_for_oracle"] == 1
    assert read_events(game, 9) is None


def test_takes_over_what_the_engine_refuses(convert_text: ConvertText) -> None:
    game = b"(;SZ[9]note[x]AB[aa];W[dd]foo[y]B[ee])"
    converted = convert_text(game)
    assert converted.counts["read_by_oracle"] == 1
    assert converted.rows["move"].tolist() == [3 * 19 + 3, 4 * 19 + 4]
    assert converted.sequences["offset"].tolist() == [0]
    assert rewritten(b"(;B[aa]C[[] no]W[bb])") is None
    assert convert_text(b"(;SZ[9];B[aa]C[one [two] W[bb] three];W[cc])").reasons == ["stray_text"]


def test_reads_no_variation_for_a_game() -> None:
    assert main_line(b"(PB[x](;B[aa]))") is None
    assert main_line(b"no game") is None
