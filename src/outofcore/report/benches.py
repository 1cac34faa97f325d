"""Benchmark results as tables, for the report and, by ``bench/table.py``, for the documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Result = Mapping[str, Any]
"""A file of ``bench/results/``: ``name``, ``title``, ``command``, ``machine``, ``facts``, ``rows``, ``details``."""
_MAGNITUDES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


@dataclass(frozen=True)
class Table:
    """Rows of one or several benchmarks; the first ``words`` columns are text, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int


def tables_in(result: Result) -> list[str]:
    """Names of the tables for which a benchmark has rows."""
    return _distinct(row["table"] for row in result["rows"])


def one_table(results: Sequence[Result], name: str) -> Table:
    """A table from the rows of one benchmark, or of several, then named in the first column.

    Raises KeyError if no result has a row for it.
    """
    rows = [(result["title"], row) for result in results for row in result["rows"] if row["table"] == name]
    if not rows:
        message = f"no row for the table {name!r} in {', '.join(result['name'] for result in results)}"
        raise KeyError(message)
    words = 2 if len(results) > 1 else 1
    columns = _distinct(_column(row) for _, row in rows)
    against = {
        column: _distinct(row["against"] for _, row in rows if _column(row) == column and row["against"])
        for column in columns
    }
    columns.sort(key=lambda column: not against[column])  # the compared item comes first
    header = [""] * words
    for column in columns:
        header.append(column)
        if against[column]:
            header.append(f"times {against[column][0]}" if len(against[column]) == 1 else "compared")
    by_label: dict[tuple[str, str], dict[str, Result]] = {}
    for title, row in rows:
        by_label.setdefault((title, row["label"]), {})[_column(row)] = row
    lines = []
    for place, found in by_label.items():
        cells = list(place[-words:])
        for column in columns:
            row = found.get(column, {})
            cells.append(figure(row["value"]) if row else "")
            if against[column]:
                cells.append(_compared(row, several=len(against[column]) > 1))
        lines.append(cells)
    return Table(header, lines, words)


def how(result: Result) -> str:
    """How it was measured, apart from the command."""
    return "; ".join(result["facts"])


def machine(result: Result) -> str:
    """The machine on which it was measured."""
    found = result["machine"]
    memory = f"{found['memory_bytes'] / 1e9:.0f} GB of memory"
    return f"{found['cores']} cores of {found['processor']}, {memory}, {found['system']}"


def versions(results: Sequence[Result]) -> str:
    """Versions of the libraries."""
    return ", ".join(
        _distinct(f"{name} {version}" for result in results for name, version in result["machine"]["versions"].items())
    )


def figure(value: float | str) -> str:
    """A readable figure to three digits: 1_652_341 is ``1.65 million``, 0.04 is ``0.04``."""
    if isinstance(value, str):
        return value
    for unit, name in _MAGNITUDES:
        if abs(value) >= 0.9995 * unit:
            return f"{value / unit:.3g} {name}"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _column(row: Result) -> str:
    return ", ".join(part for part in (row["of"], row["unit"]) if part)


def _compared(row: Result, *, several: bool) -> str:
    if not row or row["ratio"] is None or (several and row["ratio"] == 1):
        return ""
    return f"{figure(row['ratio'])} times {row['against']}" if several else figure(row["ratio"])


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
