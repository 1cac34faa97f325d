"""Rows of benches become tables that say what is compared with what."""

from __future__ import annotations

import pytest

from outofcore.report.benches import how, machine, one_table, tables_in, versions
from tests.report.results import made


def test_a_table_of_one_bench_has_its_labels_and_ratios() -> None:
    shown = one_table([made("one", 39.6)], "loading")
    assert shown.header == ["measured", "samples/s", "times other", "MB held"]
    assert shown.cells == [["ours", "1.65 million", "39.6", "12.3"]]
    assert tables_in(made("one", 39.6)) == ["loading"]


def test_a_table_of_several_says_whose_rows_they_are() -> None:
    shown = one_table([made("one", 2.0), made("two", 0.5, against="more")], "loading")
    assert shown.header == ["bench", "measured", "samples/s", "compared", "MB held"]
    assert shown.cells == [
        ["title of one", "ours", "1.65 million", "2 times other", "12.3"],
        ["title of two", "ours", "1.65 million", "0.5 times more", "12.3"],
    ]
    assert shown.numeric == [False, False, True, True, True]


def test_it_is_told_how_and_on_what() -> None:
    assert how(made("one", 2.0)) == "7 rows"
    assert machine(made("one", 2.0)) == "2 cores of P, 8 GB of memory, S"
    assert versions([made("one", 2.0), made("two", 2.0)]) == "numpy 2"


def test_a_table_that_a_bench_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="no row for the table 'memory' in one"):
        one_table([made("one", 2.0)], "memory")
