"""A few comparisons for readers in a hurry, each a line: the work, both sides, rows, audits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.tables import Result
from outofcore.display.table import DisplayTable, Kind, figure


@dataclass(frozen=True)
class Comparison:
    """Two rows of a result, by the beginnings of their labels."""

    work: str
    bench: str
    ours: str
    other: str
    other_work: str  # what the other side does, for somebody who has not read the bench


COMPARISONS = (
    Comparison(
        "PGN to a sealed store",
        "conversion_chess",
        "outofcore:",
        "python-chess",
        "python-chess: read, replay, twelve bitboards",
    ),
    Comparison(
        "SGF to a sealed store", "conversion_go", "outofcore:", "sgfmill", "sgfmill: parse, play, board to array"
    ),
    Comparison("text to a sealed store", "conversion_text", "outofcore:", "tokenizers", "tokenizers: ids to an array"),
    Comparison("shuffled batches of chess", "loading_chess", "streamed", "gather, 1", "gathered from arrays in memory"),
    Comparison(
        "shuffled batches of chess", "loading_chess", "streamed", "items, 2", "`DataLoader` over a memory-mapped file"
    ),
    Comparison(
        "shuffled batches of text", "loading_text", "zstd, streamed", "gather, 1", "gathered from arrays in memory"
    ),
)
ROWS = re.compile(r"([\d,]+) (positions|tokens|rows)")
WORKERS = re.compile(r"(\d+) (processes|workers|threads?)|in all threads")


def summary(results: Mapping[str, Result]) -> str:
    """The comparisons as a table in Markdown."""
    lines = []
    for comparison in COMPARISONS:
        result = results[comparison.bench]
        ours, other = (speed_row(result, label) for label in (comparison.ours, comparison.other))
        cores, unit = result["machine"]["cores"], "workers" if comparison.ours == "outofcore:" else "threads"
        own = next((match[0] for fact in result["facts"] if (match := WORKERS.search(fact))), f"{cores} {unit}")
        lines.append(
            [
                f"{comparison.work}: {rows_of(result)}",
                f"{speed(ours)}, {own}",
                f"{comparison.other_work}; {speed(other)}, {workers(other['label'])}",
                f"{ours['ratio'] / other['ratio']:.2g}",
                audited(result),
            ]
        )
    header: list[tuple[str, Kind]] = [
        ("work", "text"),
        ("outofcore", "text"),
        ("compared with", "text"),
        ("times as fast", "figure"),
        ("audited", "figure"),
    ]
    return DisplayTable(header, lines).markdown


def speed_row(result: Result, label: str) -> Result:
    """The first row of a result with a speed whose label begins so."""
    for row in result["rows"]:
        if row["label"].startswith(label) and row["ratio"] and row["unit"].endswith("/s"):
            return row
    raise KeyError(f"bench/figures/{result['name']}.json: expected a speed of {label!r}, found none")


def speed(row: Result) -> str:
    return f"{figure(row['value'])} {row['unit'].replace('MB of text', 'MB')}"


def workers(label: str) -> str:
    match = WORKERS.search(label)
    return match[0].removeprefix("in ") if match else "1 thread"


def rows_of(result: Result) -> str:
    match = next(match for fact in result["facts"] if (match := ROWS.search(fact)))
    return f"{figure(int(match[1].replace(',', '')))} {match[2]}"


def audited(result: Result) -> str:
    """How many records the reference library of the field has also read; all were the same."""
    runs = [run for run in result["details"].values() if isinstance(run, Mapping) and "audited" in run]
    if not runs:
        return "-"
    records = runs[0].get("accepted", runs[0]["found"])
    return f"{runs[0]['audited']:,} of {records:,}"
