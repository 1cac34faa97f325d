"""Results as tables of the documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from outofcore.display.table import DisplayTable, Kind, figure

Result = Mapping[str, Any]
"""A file of ``bench/results/``: ``name``, ``title``, ``command``, ``machine``, ``facts``, ``rows``, ``details``."""


def tables_in(result: Result) -> list[str]:
    """Names of the tables for which a benchmark has rows."""
    return _distinct(row["table"] for row in result["rows"])


def one_table(results: Sequence[Result], name: str) -> DisplayTable:
    """A table from the rows of one benchmark, or of several, then named in the first column."""
    rows = [(result["title"], row) for result in results for row in result["rows"] if row["table"] == name]
    if not rows:
        raise KeyError(f"no row for the table {name!r} in {', '.join(result['name'] for result in results)}")
    words = ("bench", "measured") if len(results) > 1 else ("measured",)
    columns = _distinct(_column(row) for _, row in rows)
    against = {
        column: _distinct(row["against"] for _, row in rows if _column(row) == column and row["against"])
        for column in columns
    }
    columns.sort(key=lambda column: not against[column])  # the compared item comes first
    header: list[tuple[str, Kind]] = [(word, "text") for word in words]
    for column in columns:
        header.append((column, "figure"))
        if against[column]:
            other = f"times {against[column][0]}" if len(against[column]) == 1 else "compared"
            header.append((other, "figure"))
    by_label: dict[tuple[str, str], dict[str, Result]] = {}
    for title, row in rows:
        by_label.setdefault((title, row["label"]), {})[_column(row)] = row
    lines = []
    for place, by_column in by_label.items():
        cells: list[Any] = list(place[-len(words) :])
        for column in columns:
            row = by_column.get(column, {})
            cells.append(row["value"] if row else "")
            if against[column]:
                cells.append(_compared(row, several=len(against[column]) > 1))
        lines.append(cells)
    return DisplayTable(header, lines)


def how(result: Result) -> str:
    """How it was measured, apart from the command."""
    return "; ".join(result["facts"])


def machine(result: Result) -> str:
    """The machine on which it was measured."""
    computer = result["machine"]
    memory = f"{computer['memory_bytes'] / 1e9:.0f} GB of memory"
    return f"{computer['cores']} cores of {computer['processor']}, {memory}, {computer['system']}"


def versions(results: Sequence[Result]) -> list[str]:
    """Each package with its version, of all results."""
    return _distinct(
        f"{name} {version}" for result in results for name, version in result["machine"]["versions"].items()
    )


def _column(row: Result) -> str:
    return ", ".join(part for part in (row["of"], row["unit"]) if part)


def _compared(row: Result, *, several: bool) -> str | float:
    if not row or row["ratio"] is None or (several and row["ratio"] == 1):
        return ""
    ratio: float = row["ratio"]
    return f"{figure(ratio)} times {row['against']}" if several else ratio


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
