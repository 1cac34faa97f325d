"""Charts of a run."""

from __future__ import annotations

from outofcore.report.collect import DomainRun
from outofcore.report.figures import curve_charts
from outofcore.report.tables import thinned
from outofcore.table import Table, columns


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
        convert_run={},
        train_run={},
        rejects=[],
        curves={("val", key): each for key, each in rows.items()},
        tables={},
        texts=nothing,
        sheets={},
    )


def test_a_curve_stands_beside_its_baseline() -> None:
    (chart,) = curve_charts(run_of(3))
    assert chart.title == "Top 1 while training"
    assert chart.table.header == ["step", "val", "always the most frequent"]
    assert len(chart.table.rows) == 3


def test_of_a_long_table_evenly_spaced_rows_are_shown() -> None:
    whole = Table(columns("count", "step"), [(step,) for step in range(1, 102)])
    shown = thinned(whole)
    assert [step for (step,) in shown.rows] == [*range(1, 101, 3), 101]
    assert shown.notes == ("35 of 101 rows; the CSV file has all.",)
    assert thinned(Table(columns("count", "step"), [(1,)])).notes == ()


def test_a_single_point_is_no_curve() -> None:
    assert list(curve_charts(run_of(1))) == []
