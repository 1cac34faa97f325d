"""Pictures and distributions show what is in the store."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.gallery import MOST_BARS, Passage, Picture, binned
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.domains.text.schema import tokenizer_of
from outofcore.store.reader import Store, open_store

pytestmark = [pytest.mark.xdist_group("report"), pytest.mark.timeout(900)]
SVG = "{http://www.w3.org/2000/svg}"


def store(project: Path, name: str) -> Store:
    return open_store(project / "data" / "stores" / f"{name}.zarr")


def pictures(project: Path, name: str) -> list[Picture]:
    found = [each for each in get_domain(name).pictures(store(project, name)) if isinstance(each, Picture)]
    assert found
    return found


@pytest.mark.parametrize("name", DOMAINS)
def test_distributions_count_what_there_is(project: Path, name: str) -> None:
    domain = get_domain(name)
    opened = store(project, name)
    found = domain.distributions(opened)
    sequences = f"{opened.attributes['sequence']}s"
    counted = [each for each in found if each.of == sequences]
    assert counted
    number = sum(opened.attributes["sequences"].values())
    for chart in counted:
        unknown = 0
        if chart.title == "Komi":
            unknown = sum(int(np.isnan(opened.sequences(split)["komi"].read()).sum()) for split in opened.splits)
            assert unknown
        assert sum(chart.counts) == number - unknown, chart.title


def test_chess_moves_are_legal_where_they_are_drawn(project: Path) -> None:
    for picture in pictures(project, "chess"):
        side = "w" if "White to move" in picture.alt else "b"
        placement, move = re.search(r"position (\S+), .* plays (\S+)", picture.alt).groups()
        for rights in ("-", "KQkq"):
            board = chess.Board(f"{placement} {side} {rights} - 0 1")
            if move in {board.san(each) for each in board.legal_moves}:
                break
        else:
            pytest.fail(f"{move} is not legal: {picture.alt}")
        assert ET.fromstring(picture.svg).tag == f"{SVG}svg"


def test_go_boards_have_the_stones_that_are_told(project: Path) -> None:
    for picture in pictures(project, "go"):
        black, white = map(int, re.search(r"(\d+) black and (\d+) white", picture.alt).groups())
        passes = picture.alt.endswith("passes")
        stones = [each for each in ET.fromstring(picture.svg).iter(f"{SVG}circle") if each.get("r") == "9.4"]
        assert len(stones) == black + white + (not passes)


def test_pieces_of_a_text_are_its_tokens(project: Path) -> None:
    opened = store(project, "text")
    tokenizer = tokenizer_of(opened.attributes)
    for passage in get_domain("text").pictures(opened):
        assert isinstance(passage, Passage)
        told = re.search(r"Document ([\d,]+) of (\w+): .* of which ([\d,]+) to ([\d,]+)", passage.title)
        split = told[2]
        number, first, last = (int(told[place].replace(",", "")) for place in (1, 3, 4))
        start = int(opened.sequences(split)["start"].read(number, number + 1)[0])
        ids = opened.rows(split)["tokens"].read(start + first, start + last)
        assert len(passage.pieces) == last - first > 0
        assert "".join(passage.pieces) == tokenizer.decode(ids)


def test_responses_that_do_not_count_are_hatched(project: Path) -> None:
    for picture in pictures(project, "neural"):
        told = int(re.search(r"([\d,]+) responses do not count", picture.alt)[1].replace(",", ""))
        hatched = [each for each in ET.fromstring(picture.svg).iter() if each.get("fill") == "url(#h)"]
        assert len(hatched) == told


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=200))
def test_every_number_is_in_one_class(values: list[float]) -> None:
    found = binned("", "", "", np.array(values))
    assert sum(found.counts) == len(values)
    assert len(found.counts) <= MOST_BARS + 1


def test_whole_numbers_have_whole_classes() -> None:
    found = binned("", "", "", np.array([3, 4, 4, 6]))
    assert (found.labels, found.counts) == (("3", "4", "5", "6"), (1, 2, 0, 1))
