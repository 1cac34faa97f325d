"""Print predictions, as they come or as a table."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Any

from rich.console import Console

from outofcore.display.bar import LINE_SECONDS
from outofcore.display.console import visible
from outofcore.display.table import DisplayTable, Kind, print_table

Predictions = Iterable[Mapping[str, Any]]
TOGETHER = 1000
"""Most rows of a table; more are printed in several, so that a recording of hours takes no memory."""


def counted(rows: Predictions) -> Predictions:
    """The same predictions; how many there are so far is said on stderr every 30 s."""
    said = time.monotonic()
    for number, row in enumerate(rows, 1):
        yield row
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            sys.stderr.write(f"{number:,} predictions so far\n")


def print_lines(console: Console, rows: Predictions) -> None:
    """A line of JSON per prediction."""
    del console
    for row in rows:
        sys.stdout.write(f"{json.dumps(row)}\n")


def print_csv(console: Console, rows: Predictions) -> None:
    """CSV with a header; a cell of several values lists them with their names."""
    del console
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow(row)
        writer.writerow(_listed(value, repr) if isinstance(value, Mapping) else value for value in row.values())


def print_aligned(console: Console, rows: Predictions) -> None:
    """A table; a text as it is."""
    rows = iter(rows)
    first = next(rows, {})
    if list(first) == ["text"]:
        for row in chain([first], rows):
            sys.stdout.write(f"{visible(row['text'])}\n")
        return
    kinds: list[tuple[str, Kind]] = [
        (name, "text" if isinstance(value, str | Mapping) else "count") for name, value in first.items()
    ]
    rows = chain([first], rows)
    while group := list(islice(rows, TOGETHER)):
        print_table(console, DisplayTable(kinds, [[_cell(value) for value in row.values()] for row in group]))


FORMS: dict[str, Callable[[Console, Predictions], None]] = {
    "table": print_aligned,
    "csv": print_csv,
    "json": print_lines,
}
"""How predictions are printed, by name."""


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _listed(value, _share)
    if isinstance(value, list):
        return f"{len(value)} numbers, by --csv or --json"
    return _share(value) if isinstance(value, float) else value if value is None else str(value)


def _share(value: float) -> str:
    return f"{value:.3f}"


def _listed(values: Mapping[str, float], shown: Callable[[float], str]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in values.items())
