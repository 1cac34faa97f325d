"""Rows of benches become tables that say what is compared with what."""

from __future__ import annotations

import pytest

from outofcore.report.benches import figure, how, machine, one_table, tables_in, versions
from tests.report.results import made


def test_a_table_of_one_bench_has_its_labels_and_ratios() -> None:
    shown = one_table([made("one", 39.6)], "loading")
    assert shown.header == ["", "samples/s", "times other", "MB held"]
    assert shown.rows == [["ours", "1.65 million", "39.6", "12.3"]]
    assert tables_in(made("one", 39.6)) == ["loading"]


def test_a_table_of_several_says_whose_rows_they_are() -> None:
    shown = one_table([made("one", 2.0), made("two", 0.5, against="more")], "loading")
    assert shown.header == ["", "", "samples/s", "compared", "MB held"]
    assert shown.rows == [
        ["title of one", "ours", "1.65 million", "2 times other", "12.3"],
        ["title of two", "ours", "1.65 million", "0.5 times more", "12.3"],
    ]
    assert shown.words == 2


def test_it_is_told_how_and_on_what() -> None:
    assert how(made("one", 2.0)) == "7 rows"
    assert machine(made("one", 2.0)) == "2 cores of P, 8 GB of memory, S"
    assert versions([made("one", 2.0), made("two", 2.0)]) == "numpy 2"


def test_a_table_that_a_bench_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="no row for the table 'memory' in one"):
        one_table([made("one", 2.0)], "memory")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.04, "0.04"),
        (39.62, "39.6"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1652341, "1.65 million"),
        (6.7e11, "670 billion"),
        ("could not be run", "could not be run"),
    ],
)
def test_figures_have_three_places(value: float | str, shown: str) -> None:
    assert figure(value) == shown
