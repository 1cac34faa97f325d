"""The tables of the documents, from the figures that were measured.

    python bench/table.py                   write the tables of README.md and docs/ anew from bench/figures/*.json
    python bench/table.py bench/results     print the tables of the files in a folder

In a document a table is between ``<!-- figures: TABLE of NAME, NAME without PART; PART -->`` and
``<!-- end of figures -->``: the rows that the results of these names have for that table, without those rows and
columns. The table ``summary`` has the lines of ``harness/summary.py``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from harness.summary import summary
from harness.tables import Result, how, machine, one_table, tables_in, versions

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "bench" / "figures"
PLACE = re.compile(r"(<!-- figures: (.+?) of (.+?)(?:\s+without (.+?))? -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def documents() -> list[Path]:
    """The documents with tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def read_results(folder: Path) -> dict[str, Result]:
    """The results in a folder, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def filled(text: str, results: Mapping[str, Result]) -> str:
    """A document with its tables made anew; how it was measured is below the first table of each question.

    A machine and versions that were named further up are not named again.
    """
    described: set[str] = set()

    def place(match: re.Match[str]) -> str:
        begin, name, benches, without, end = match.groups()
        left_out = set(re.split(r";\s*", without)) if without else set()
        chosen = [reduced(results[bench], left_out) for bench in re.split(r",\s*", benches) if bench in results]
        if not chosen:
            return f"{begin}\nNot measured yet.\n\n{end}"
        if name == "summary":
            return "\n".join([begin, summary(results), end])
        new = [result for result in chosen if result["name"] not in described]
        below = [notes(new, described)] if new else []
        described.update(result["name"] for result in new)
        return "\n".join([begin, one_table(chosen, name).markdown, *below, end])

    return PLACE.sub(place, text)


def reduced(result: Result, left_out: AbstractSet[str]) -> Result:
    """A result without some rows and columns."""
    kept = [row for row in result["rows"] if left_out.isdisjoint((row["label"], row["of"], row["unit"]))]
    return {**result, "rows": kept}


def all_of(result: Result) -> str:
    """All tables of a question."""
    return "\n".join([*(one_table([result], name).markdown for name in tables_in(result)), notes([result], set())])


def notes(results: Sequence[Result], named_above: set[str]) -> str:
    """How each was measured, on what; a machine that all share is named once, and joins what was told."""
    machines = dict.fromkeys(machine(result) for result in results)
    lines = []
    for result in results:
        facts = f": {how(result)}." if result["facts"] else "."
        on = "" if len(machines) == 1 else f" On {machine(result)}."
        lines.append(f"`{result['command']}`{facts}{on}")
    if len(lines) > 1:
        lines = [f"- {line}" for line in lines]
    new = machines.keys() - named_above
    named = [line for line in versions(results) if new or line not in named_above]
    where = f"Measured on {next(iter(machines))};" if new and len(machines) == 1 else "With"
    named_above.update(machines, named)
    return "\n".join([*lines, "", *([f"{where} {', '.join(named)}.", ""] if named else [])])


def main(folder: Path | None) -> None:
    """Print the tables of a folder, or write those of the documents."""
    results = read_results(folder or FIGURES)
    if folder:
        print("\n".join(f"## {result['title']}\n\n{all_of(result)}" for result in results.values()))
        return
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (new := filled(text, results)) != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
