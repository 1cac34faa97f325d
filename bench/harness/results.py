"""One shape for the results of all questions, from which the tables of the documents are made.

``bench/results/<name>.json`` holds ``name``, ``title``, ``command``, ``machine``, ``facts`` (a line each) and ``rows``;
under ``details`` whatever else was measured. It names no host and no folder.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from harness.sides import Measured, tell
from outofcore.display.table import figure
from outofcore.settings.hardware import usable_cores
from table import all_of

LIBRARIES = ("numpy", "torch", "zarr")
PLACES = frozenset({"--out", "--folder"})  # options that say where files are, and nothing of what is measured


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure, with its place in a table."""

    label: str  # what was measured: the row
    value: float | str  # the figure, or in words why there is none
    unit: str = ""
    of: str = ""  # with the unit: the column
    ratio: float | None = None  # how many times another figure
    against: str = ""  # which one
    table: str = "loading"


def memory_row(label: str, size: float, budget: float) -> Row:
    """Bytes held, compared with the budget."""
    of = {"unit": "MB held", "against": "the budget", "table": "memory"}
    return Row(label=f"{label}, in {budget / 1e6:,.0f} MB", value=round(size / 1e6, 1), ratio=size / budget, **of)


def speed_rows(
    measured: Mapping[str, Measured],
    unit: str,
    against: Mapping[str, str],
    *,
    memory: bool = True,
    work: str = "",
    short: str = "",
    table: str = "loading",
) -> list[Row]:
    """Medians of all sides, their ratio to the side that ``against`` names for each, its range, and memory.

    The ratio is the median of the ratios of the rounds; ``short`` is what the other sides are called in the header.
    ``work`` names a sample where its time of all cores, and mapped pages, are shown too.
    """
    rows = []
    for name, side in measured.items():
        of: dict[str, Any] = {"label": name, "table": table}
        if not side.rates:
            rows.append(Row(value="could not be run", unit=unit, **of))
            continue
        other = against.get(name)
        if other is not None and measured[other].rates:
            ratios = side.ratios(measured[other])
            rows.append(Row(value=side.rate, unit=unit, ratio=median(ratios), against=short or other, **of))
            if other != name:
                rows.append(Row(value=f"{figure(min(ratios))} to {figure(max(ratios))}", of="range of rounds", **of))
        else:
            rows.append(Row(value=side.rate, unit=unit, **of))
        if memory:
            rows.append(Row(value=round(side.held_bytes / 1e6), unit="MB held", **of))
        if work:
            rows.append(Row(value=median(side.core_us), unit=f"core us per {work}", **of))
            rows.append(Row(value=side.mapped_bytes / 1e6, unit="MB of mapped pages", **of))
    return rows


def arguments(
    description: str | None, *, rounds: int | None = None, seconds: float | None = None
) -> argparse.ArgumentParser:
    """What all questions take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench/results"), help="folder of the result")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds, help="of a turn")
    return parser


def save(
    out: Path,
    name: str,
    title: str,
    rows: Sequence[Row],
    *,
    facts: Sequence[str] = (),
    details: Mapping[str, Any],
    versions: Mapping[str, str] | None = None,
) -> None:
    """Print the tables of a question, and write its file; ``versions`` are those of the libraries compared with."""
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
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(
        json.dumps(result, indent=1, ensure_ascii=False, default=Measured.as_json) + "\n", encoding="utf-8"
    )


def machine(versions: Mapping[str, str]) -> dict[str, Any]:
    """What a reader has to know of this machine."""
    return {
        "processor": _processor(),
        "cores": usable_cores().value,
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}, **versions},
    }


def versions_of(python: Path, names: Iterable[str]) -> dict[str, str]:
    """Versions of the other libraries that their environment has."""
    script = (
        "from importlib.metadata import distributions; [print(each.name, each.version) for each in distributions()]"
    )
    listed = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout
    installed = dict(line.split() for line in listed.splitlines())
    for name in set(names) - installed.keys():
        tell(f"{name} is left out: it is not installed there, see bench/rivals/peers.txt")
    return {name: installed[name] for name in names if name in installed}


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def command(arguments: Sequence[str]) -> str:
    """The command line as somebody else would type it: files by name, no folders of this machine."""
    script, *given = arguments
    path = Path(script)
    rival = path.parent.name == "rivals"
    words = ["PYTHONPATH=bench", "python", "-m", f"rivals.{path.stem}"] if rival else ["python", f"bench/{path.name}"]
    place = False
    for word in given:
        if not place and word not in PLACES:
            words.append(Path(word).name if Path(word).is_absolute() else word)
        place = word in PLACES
    return " ".join(f"'{word}'" if " " in word else word for word in words)
