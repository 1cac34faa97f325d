"""Charts: well-formed, in the page's colours, with text that is text."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from outofcore.report.charts import Line, bars, level_bars, lines

LINES = [Line("train", (1, 2, 3), (3.0, 2.0, 1.0)), Line("what is common", (1, 3), (2.5, 2.5), baseline=True)]
CHARTS = {
    "bars": lambda name: bars(name, "Elo", "players <all>", ("1500", "1600"), (3, 4)),
    "many": lambda name: bars(name, "ply", "games", tuple(map(str, range(60))), range(60)),
    "lying": lambda name: level_bars(name, "bytes", [("raw", 10.0, "10 bytes"), ("store", 0.0, "none")]),
    "lines": lambda name: lines(name, "step", "loss", LINES),
    "points": lambda name: lines(name, "predicted", "recorded", LINES, diagonal=True, points=True),
}


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1))


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_is_one_element_without_a_colour_or_a_size_of_its_own(kind: str) -> None:
    svg = CHARTS[kind](kind)
    root = parsed(svg)
    assert root.tag == "svg"
    assert set(root.attrib) == {"viewBox", "aria-hidden"}
    assert "#0" not in svg
    assert "var(--" in svg
    assert all(name.attrib["id"].startswith(f"{kind}-") for name in root.iter() if "id" in name.attrib)


def test_its_words_can_be_read() -> None:
    text = "\n".join(parsed(level_bars("a", "bytes", [("raw & more", 1.0, "1 byte")])).itertext())
    assert {"raw & more", "1 byte", "bytes"} <= {line.strip() for line in text.split("\n")}


def test_words_of_any_script_stay_words() -> None:
    assert "，的" in "".join(parsed(bars("a", "tokens", "times", ("，的",), (3,))).itertext())


def test_large_figures_on_an_axis_have_their_thousands_apart() -> None:
    text = {line.strip() for line in parsed(bars("a", "Elo", "players", ("1500",), (80_000,))).itertext()}
    assert {"20,000", "80,000", "0", "1500"} <= text


def test_a_legend_leaves_out_the_unit_of_the_axis() -> None:
    series = [Line("monday", (0, 1), (0, 1))]
    text = " ".join(parsed(lines("a", "predicted, deviations", "recorded", series, diagonal=True)).itertext())
    assert "recorded = predicted " in f"{text} "


@pytest.mark.parametrize("kind", CHARTS)
def test_it_is_the_same_again(kind: str) -> None:
    assert CHARTS[kind]("a") == CHARTS[kind]("a")
