"""The tables of the documents, from the figures that were measured.

    python bench/table.py                   write the tables of README.md and docs/ anew from bench/figures/*.json
    python bench/table.py bench/results     print the tables of the files in a folder

In a document a table stands between ``<!-- figures: TABLE of NAME, NAME -->`` and ``<!-- end of figures -->``: the rows
that the benches of these names have for that table. With several names the first column says whose row it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "bench" / "figures"
PLACE = re.compile(r"(<!-- figures: (.+?) of (.+?) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
Result = Mapping[str, Any]


def documents() -> list[Path]:
    """Where tables may stand."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def read_results(folder: Path) -> dict[str, Result]:
    """The results in a folder, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def filled(text: str, results: Mapping[str, Result]) -> str:
    """A document with its tables made anew; how a bench was measured stands below its first table."""
    told: set[str] = set()

    def table(place: re.Match[str]) -> str:
        begin, name, benches, end = place.groups()
        chosen = [results[bench] for bench in re.split(r",\s*", benches) if bench in results]
        if not chosen:
            return f"{begin}\nNot measured yet.\n\n{end}"
        new = [result for result in chosen if result["name"] not in told]
        told.update(result["name"] for result in new)
        return "\n".join([begin, one_table(chosen, name), *([notes(new)] if new else []), end])

    return PLACE.sub(table, text)


def tables_of(result: Result) -> str:
    """All tables of a bench."""
    tables = [one_table([result], name) for name in _distinct(row["table"] for row in result["rows"])]
    return "\n".join([*tables, notes([result])])


def one_table(results: Sequence[Result], name: str) -> str:
    """A table of Markdown.

    Raises
    ------
    KeyError
        If none of the results has a row for it.
    """
    rows = [(result["title"], row) for result in results for row in result["rows"] if row["table"] == name]
    if not rows:
        message = f"no row for the table {name!r} in {', '.join(result['name'] for result in results)}"
        raise KeyError(message)
    columns = _distinct(_column(row) for _, row in rows)
    compared = {column: _distinct(row["against"] for _, row in rows if _column(row) == column) for column in columns}
    heads = ["", ""] if len(results) > 1 else [""]
    for column in columns:
        heads.append(column)
        if any(compared[column]):
            against = [one for one in compared[column] if one]
            heads.append(f"times {against[0]}" if len(against) == 1 else "compared")
    lines = [heads, [*["---"] * (len(heads) - _figures(heads, results)), *["---:"] * _figures(heads, results)]]
    by_label: dict[tuple[str, str], dict[str, Result]] = {}
    for title, row in rows:
        by_label.setdefault((title, row["label"]), {})[_column(row)] = row
    for (title, label), figures in by_label.items():
        cells = [title, label] if len(results) > 1 else [label]
        for column in columns:
            row = figures.get(column)
            cells.append(number(row["value"]) if row else "")
            against = [one for one in compared[column] if one]
            if against:
                cells.append(_ratio(row, several=len(against) > 1))
        lines.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _figures(heads: Sequence[str], results: Sequence[Result]) -> int:
    return len(heads) - (2 if len(results) > 1 else 1)


def _column(row: Result) -> str:
    return ", ".join(part for part in (row["of"], row["unit"]) if part)


def _ratio(row: Result | None, *, several: bool) -> str:
    if row is None or row["ratio"] is None:
        return ""
    return f"{number(row['ratio'])} times {row['against']}" if several else number(row["ratio"])


def notes(results: Sequence[Result]) -> str:
    """How each was measured, on what; a machine that all share is named once."""
    if not results:
        return ""
    machines = _distinct(_machine(result) for result in results)
    lines = []
    for result in results:
        told = "; ".join(result["facts"])
        on = "" if len(machines) == 1 else f" On {_machine(result)}."
        lines.append(f"`{result['command']}`" + (f": {told}." if told else ".") + on)
    if len(lines) > 1:
        lines = [f"- {line}" for line in lines]
    versions = _distinct(f"{name} {one}" for result in results for name, one in result["machine"]["versions"].items())
    where = f"Measured on {machines[0]}; " if len(machines) == 1 else "With "
    return "\n".join([*lines, "", f"{where}{', '.join(versions)}.", ""])


def _machine(result: Result) -> str:
    found = result["machine"]
    memory = f"{found['memory_bytes'] / 1e9:.0f} GB of memory"
    return f"{found['cores']} cores of {found['processor']}, {memory}, {found['system']}"


def number(value: float | str) -> str:
    """A figure to three places, as people write it.

    >>> number(1_652_341), number(39.62), number(0.04)
    ('1.65 million', '39.6', '0.04')
    """
    if isinstance(value, str):
        return value
    for unit, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(value) >= 0.9995 * unit:
            return f"{value / unit:.3g} {name}"
    if abs(value) >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def main(folder: Path | None) -> None:
    """Print the tables of a folder, or write those of the documents."""
    results = read_results(folder or FIGURES)
    if folder:
        print("\n\n".join(f"## {result['title']}\n\n{tables_of(result)}" for result in results.values()))
        return
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (new := filled(text, results)) != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
