"""Charts: well-formed, the same again, with text that is text."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from outofcore.domains.gallery import Distribution
from outofcore.report.charts import Line, bars, curve_charts, lines, short_curves
from outofcore.report.collect import DomainRun

LINES = [Line("train", (1, 2, 3), (3.0, 2.0, 1.0)), Line("what is common", (1, 3), (2.5, 2.5), baseline=True)]


def counted(*labels: str, counts: tuple[int, ...] = ()) -> Distribution:
    return Distribution("", "token", "times <all>", labels, counts or tuple(range(1, len(labels) + 1)))


def words(svg: str) -> list[str]:
    return [line for each in ET.fromstring(svg).itertext() if (line := each.strip())]


def test_a_chart_says_what_it_shows_in_words_of_any_script() -> None:
    assert {"raw & more", "，的", "token", "times <all>"} <= set(words(bars(counted("raw & more", "，的"))))
    assert {"step", "loss", "train", "what is common"} <= set(words(lines("step", "loss", LINES)))


def test_many_words_are_all_there_and_of_many_numbers_some() -> None:
    tokens = [f"token{place}" for place in range(20)]
    assert set(tokens) <= set(words(bars(counted(*tokens))))
    numbers = [str(place) for place in range(1000, 1060)]
    assert len(set(numbers) & set(words(bars(counted(*numbers))))) == 8


def test_large_figures_on_an_axis_have_their_thousands_apart() -> None:
    assert {"20,000", "80,000", "0", "1500"} <= set(words(bars(counted("1500", counts=(80_000,)))))


def test_a_legend_leaves_out_the_unit_of_the_axis() -> None:
    drawn = lines("predicted, deviations", "recorded", [Line("monday", (0, 1), (0, 1))], diagonal=True, points=True)
    assert "recorded = predicted" in words(drawn)


def run_of(steps: int) -> DomainRun:
    rows = {
        key: [{"step": str(step), key: str(value / (1 + step))} for step in range(steps)]
        for key, value in (("top1", 0.5), ("top1_most_frequent", 0.1))
    }
    nothing: dict[str, str] = {}
    return DomainRun(
        name="chess",
        store=None,
        convert={},
        train={},
        test={},
        model=None,
        rejects=[],
        curves={("val", key): each for key, each in rows.items()},
        tables={},
        texts=nothing,
        sheets={},
        mistakes=(),
    )


def test_a_curve_is_next_to_its_baseline() -> None:
    (chart,) = curve_charts(run_of(3))
    assert chart.title == "Top 1 while training"
    assert chart.alt == "Top 1 while training: val ends at 0.1667, always the most frequent ends at 0.03333"
    assert {"val", "always the most frequent"} <= set(words(chart.svg))


def test_two_points_are_numbers_and_a_single_one_is_in_the_results() -> None:
    assert list(curve_charts(run_of(2))) == []
    table = short_curves(run_of(2))
    assert table is not None
    assert (table.header, table.cells) == (["figure", "step 0", "step 1"], [["Top 1, val", "0.5", "0.25"]])
    assert list(curve_charts(run_of(1))) == []
    assert short_curves(run_of(1)) is short_curves(run_of(3)) is None
