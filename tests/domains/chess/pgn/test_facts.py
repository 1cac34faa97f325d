"""Columns of tags, compared with a dictionary per game."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.chess.oracle import read_pgn
from outofcore.domains.chess.pgn.facts import read_facts, text_column

NAMES = ("White", "Black", "Event", "WhiteElo")
# Few texts, so that they repeat; some begin alike, have the same length, or are empty.
TEXTS = st.sampled_from(["", "a", "ab", "ba", "abc", "acb", "Carlsen, M", "Carlsen, N", "1500", "1500?", "é"])


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), TEXTS), min_size=1, max_size=60))
def test_each_game_has_its_own_texts_however_often_they_repeat(games: list[dict[str, str]]) -> None:
    text = "".join(
        '[Site "?"]\n' + "".join(f'[{name} "{value}"]\n' for name, value in tags.items()) + "\n1. e4 *\n\n"
        for tags in games
    )
    read, _ = read_pgn(np.frombuffer(text.encode(), np.uint8))
    for name in NAMES:
        assert text_column(read, name).tolist() == [tags.get(name, "") for tags in games]
    elos = [int(tags.get("WhiteElo", "").strip("?") or 0) if "15" in tags.get("WhiteElo", "") else 0 for tags in games]
    assert read_facts(read).elo[:, 0].tolist() == elos


def test_texts_of_as_many_players_as_games() -> None:
    names = [f"player {number * 7919 % 5000}" for number in range(5000)]
    text = "".join(f'[White "{name}"]\n\n1. d4 *\n\n' for name in names)
    assert text_column(read_pgn(np.frombuffer(text.encode(), np.uint8))[0], "White").tolist() == names


@pytest.mark.parametrize("result", ["1-0", "0-1", "1/2-1/2"])
def test_the_tag_decides_where_the_marker_does_not(result: str) -> None:
    text = f'[Result "*"]\n\n1. e4 {result}\n\n[Result "{result}"]\n\n1. e4 *\n\n[Result "{result}"]\n\n1. e4\n\n'
    marked, tagged, cut = read_facts(read_pgn(np.frombuffer(text.encode(), np.uint8))[0]).outcome
    assert marked == tagged == cut
