"""One shape for what every bench finds, so that one script makes the tables of the documents from all of them.

``bench/results/<name>.json`` holds ``name``, ``title``, ``command``, ``machine``, ``facts`` (a line each) and ``rows``;
under ``details`` whatever else was measured. It names no host and no folder.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from outofcore.hardware import usable_cores
from table import all_of

PLACES = frozenset({"--out", "--work", "--folder"})
"""Options that say where files lie, and nothing of what is measured."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure.

    Attributes
    ----------
    label
        What was measured: the row of the table.
    value
        The figure, or in words why there is none.
    unit, of
        What the figure counts, and where a row has several of one unit, which of them: the column of the table.
    ratio, against
        How many times another figure it is, and of what.
    table
        Which table it belongs to.
    """

    label: str
    value: float | str
    unit: str = ""
    of: str = ""
    ratio: float | None = None
    against: str = ""
    table: str = "loading"


def memory_row(label: str, held: float, budget: float) -> Row:
    """Bytes that were held where so many were allowed."""
    of = {"unit": "MB held", "against": "the budget", "table": "memory"}
    return Row(label=f"{label}, in {budget / 1e6:,.0f} MB", value=round(held / 1e6, 1), ratio=held / budget, **of)


def save(
    out: Path | None,
    name: str,
    title: str,
    rows: Sequence[Row],
    *,
    facts: Sequence[str] = (),
    details: Mapping[str, Any],
    versions: Mapping[str, str] | None = None,
) -> None:
    """Print the tables of a bench, and write its file.

    Parameters
    ----------
    out
        Folder of the file; None for none.
    name, title
        Of the file, and for a person.
    rows, facts, details
        See the module.
    versions
        Of the libraries that it was measured beside.
    """
    result = {
        "name": name,
        "title": title,
        "command": command(sys.argv),
        "machine": machine(versions or {}),
        "facts": list(facts),
        "rows": [asdict(row) for row in rows],
        "details": details,
    }
    print(all_of(result))
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def machine(versions: Mapping[str, str]) -> dict[str, Any]:
    """What a reader has to know of this machine."""
    return {
        "processor": _processor(),
        "cores": usable_cores().value,
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "Python": platform.python_version(),
            **{library: version(library) for library in ("numpy", "torch", "zarr")},
            **versions,
        },
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def command(arguments: Sequence[str]) -> str:
    """The command line as somebody else would type it: files by name, no folders of this machine."""
    script, *given = arguments
    words = ["python", f"bench/{Path(script).name}"]
    place = False
    for word in given:
        if not place and word not in PLACES:
            words.append(Path(word).name if Path(word).is_absolute() else word)
        place = word in PLACES
    return " ".join(f"'{word}'" if " " in word else word for word in words)
