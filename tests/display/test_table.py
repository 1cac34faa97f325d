"""One table for a terminal, a document, a page and a program."""

from __future__ import annotations

import pytest
from rich.console import Console

from outofcore.display.table import DisplayTable, number, print_table
from outofcore.report.render import environment

COLUMNS = (("name", "text"), ("files", "count"), ("size", "bytes"))
TABLE = DisplayTable(
    COLUMNS, [("a & b", 12_345, 1_520_000_000), ("c", None, "about 2 MB")], title="what there is", notes=("so",)
)


def printed(table: DisplayTable, **options: object) -> list[str]:
    console = Console(markup=False, highlight=False, **options)
    with console.capture() as captured:
        print_table(console, table)
    return captured.get().splitlines()


def test_numbers_stand_to_the_right_below_their_names() -> None:
    assert printed(TABLE, width=10_000) == [
        "",
        "what there is",
        "name    files        size",
        "a & b  12,345     1.52 GB",
        "c           -  about 2 MB",
        "so",
    ]


def test_columns_without_names_have_no_header() -> None:
    facts = DisplayTable((("", "text"), ("", "text")), [("domain", "chess"), ("digest", "0a")])
    assert printed(facts, width=10_000) == ["domain  chess", "digest  0a"]


def test_a_table_wider_than_the_terminal_is_folded_and_loses_no_character() -> None:
    long = "x" * 200
    lines = printed(DisplayTable(COLUMNS, [(long, 1, 2)]), width=80, force_terminal=True, color_system=None)
    assert max(map(len, lines)) <= 80
    assert sum(line.count("x") for line in lines) == len(long)


def test_markdown_aligns_numbers_to_the_right() -> None:
    assert TABLE.markdown.splitlines() == [
        "| name | files | size |",
        "| --- | ---: | ---: |",
        "| a & b | 12,345 | 1.52 GB |",
        "| c | - | about 2 MB |",
    ]


def test_text_does_not_leave_its_cell_of_markdown() -> None:
    table = DisplayTable((("a|b", "text"), ("c", "text")), [("x | y", "one\ntwo")])
    assert table.markdown.splitlines() == [r"| a\|b | c |", "| --- | --- |", r"| x \| y | one two |"]


def test_programs_get_values_by_column() -> None:
    assert TABLE.records[0] == {"name": "a & b", "files": 12_345, "size": 1_520_000_000}
    by_column = DisplayTable(COLUMNS, [{"name": "a", "size": 2, "hidden": 3}])
    assert by_column.cells == [["a", "-", "2 B"]]
    assert by_column.records == [{"name": "a", "size": 2, "hidden": 3}]


def test_the_page_escapes_text() -> None:
    page = environment().get_template("macros.html").module.table("files", TABLE)
    assert '<th scope="row">a &amp; b</th><td class="n">12,345</td><td class="n">1.52 GB</td>' in page
    assert '<p class="soft">so</p>' in page


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (12345, "12,345"), (0.22916, "0.2292"), (26.146, "26.15"), (1652345.5, "1,652,346"), (-0.5, "-0.5")],
)
def test_numbers_have_four_figures_or_are_whole(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.04, "0.04"),
        (39.62, "39.6"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1652341, "1.65 million"),
        (6.7e11, "670 billion"),
        (999.6e9, "1 trillion"),
        (999.6e12, "1,000 trillion"),
        ("could not be run", "could not be run"),
    ],
)
def test_figures_have_three_places(value: float | str, shown: str) -> None:
    table = DisplayTable((("value", "figure"),), [(value,)])
    assert table.cells == [[shown]]
