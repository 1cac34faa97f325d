"""A table: made once, shown on a terminal, in Markdown, on the page of the report, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as RichTable

from outofcore.settings.sizes import format_bytes

Kind = Literal["text", "count", "bytes", "figure"]
"""How the values of a column are shown; all but text are aligned to the right."""
_MAGNITUDES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


@dataclass(frozen=True)
class DisplayTable:
    """Rows of values under named columns."""

    columns: Sequence[tuple[str, Kind]]
    # Values by position, or by column. None is shown as "-", text in a column of numbers as it is.
    rows: Sequence[Sequence[Any] | Mapping[str, Any]]
    name: str = ""  # its key in JSON
    title: str = ""  # line above it
    notes: tuple[str, ...] = ()  # lines below it

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self.columns]

    @property
    def numeric(self) -> list[bool]:
        """Which columns are aligned to the right."""
        return [kind != "text" for _, kind in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """The rows as text."""
        names = self.header
        rows = [[row.get(name) for name in names] if isinstance(row, Mapping) else row for row in self.rows]
        return [[_shown(value, kind) for value, (_, kind) in zip(row, self.columns, strict=True)] for row in rows]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows as JSON values by column."""
        return [dict(row if isinstance(row, Mapping) else zip(self.header, row, strict=True)) for row in self.rows]

    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        rule = ["---:" if right else "---" for right in self.numeric]
        lines = (self.header, rule, *self.cells)
        return "".join(f"| {' | '.join(map(_one_cell, cells))} |\n" for cells in lines)


def columns(kind: Kind, *names: str) -> list[tuple[str, Kind]]:
    """Columns of one kind."""
    return [(name, kind) for name in names]


def print_table(console: Console, table: DisplayTable) -> None:
    """Print aligned columns, without a header if no column has a name; plain lines where there is no terminal."""
    named = any(table.header)
    drawn = RichTable(box=None, show_header=named, pad_edge=False, header_style="bold")
    for name, right in zip(table.header, table.numeric, strict=True):
        # Numbers are never cut; what is too long for the terminal is broken within its column.
        drawn.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in table.cells:
        drawn.add_row(*row)
    if named:
        console.print()
    if table.title:
        console.print(table.title, style="bold")
    if console.is_terminal:
        console.print(drawn)
    else:
        with console.capture() as captured:
            console.print(drawn)
        for line in captured.get().splitlines():
            console.print(line.rstrip())
    for note in table.notes:
        console.print(note, style="dim")


def number(value: float) -> str:
    """A number to four digits, integers in full."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def figure(value: float) -> str:
    """A measured value to three digits: 1_652_341 is ``1.65 million``, 0.04 is ``0.04``."""
    unit, name = next((magnitude for magnitude in _MAGNITUDES if abs(value) >= 0.9995 * magnitude[0]), (1, ""))
    value /= unit
    shown = f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return f"{shown} {name}".rstrip()


_FORMS: dict[Kind, Callable[[Any], str]] = {"text": str, "count": number, "bytes": format_bytes, "figure": figure}


def _one_cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", r"\|")


def _shown(value: Any, kind: Kind) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else _FORMS[kind](value)
