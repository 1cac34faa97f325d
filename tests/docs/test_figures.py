"""What the documents say in figures is what the benches have measured."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.pipeline.conftest import ROOT

FIGURES = sorted((ROOT / "bench" / "figures").glob("*.json"))


def made(name: str, ratio: float, against: str = "other") -> dict[str, Any]:
    """A result of a bench."""
    row = {"label": "ours", "of": "", "table": "loading"}
    return {
        "name": name,
        "title": f"title of {name}",
        "command": f"python bench/{name}.py",
        "machine": {"processor": "P", "cores": 2, "memory_bytes": 8e9, "system": "S", "versions": {"numpy": "2"}},
        "facts": ["7 rows"],
        "rows": [
            {**row, "value": 1652341, "unit": "samples/s", "ratio": ratio, "against": against},
            {**row, "value": 12.34, "unit": "MB held", "ratio": None, "against": ""},
        ],
    }


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table", ROOT / "bench" / "table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(ROOT / "bench"))  # programs of bench/ import each other by name
    spec.loader.exec_module(module)
    return module


def test_tables_are_those_of_the_figures(table: ModuleType) -> None:
    results = table.read_results(table.FIGURES)
    for path in table.documents():
        text = path.read_text(encoding="utf-8")
        assert table.filled(text, results) == text, f"{path.name}: run 'python bench/table.py'"


def test_every_figure_is_shown_somewhere(table: ModuleType) -> None:
    shown = {
        name.strip()
        for path in table.documents()
        for place in table.PLACE.finditer(path.read_text(encoding="utf-8"))
        for name in place[3].split(",")
    }
    assert {path.stem for path in FIGURES} <= shown


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_a_result_says_how_it_came_about_and_nothing_of_the_place(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["name"] == path.stem
    program = re.match(r"python (bench/\w+\.py)|PYTHONPATH=bench python -m (rivals\.\w+)", result["command"])
    assert program
    assert (ROOT / (program[1] or f"bench/{program[2].replace('.', '/')}.py")).exists()
    assert result["rows"]
    assert {"processor", "cores", "memory_bytes", "system", "versions"} == set(result["machine"])
    assert not re.search(r"(^|[\s\"'=])/[a-z]+/", path.read_text(encoding="utf-8")), "a path of somebody's machine"


def test_how_it_was_measured_is_told_once_in_a_document(table: ModuleType) -> None:
    place = "<!-- figures: loading of one -->\nold\n<!-- end of figures -->\n"
    shown = table.filled(place + place, {"one": made("one", 2.0)})
    assert shown.count("| ours |") == 2
    assert shown.count("7 rows.") == 1
    assert "old" not in shown
    assert table.filled(shown, {"one": made("one", 2.0)}) == shown


def test_rows_and_columns_that_a_document_leaves_out(table: ModuleType) -> None:
    one = made("one", 2.0)
    one["rows"] += [{**row, "label": "minor"} for row in one["rows"]]
    place = "<!-- figures: loading of one\nwithout minor; MB held -->\nold\n<!-- end of figures -->\n"
    shown = table.filled(place, {"one": one})
    assert "| ours | 1.65 million | 2 |" in shown
    assert "minor |" not in shown
    assert "12.3" not in shown


def test_a_machine_and_versions_are_named_once_in_a_document(table: ModuleType) -> None:
    place = "<!-- figures: loading of {} -->\nold\n<!-- end of figures -->\n"
    more, other = made("two", 2.0), made("three", 2.0)
    more["machine"]["versions"]["zarr"] = "3"
    other["machine"]["processor"] = "Q"
    results = {"one": made("one", 2.0), "two": more, "three": other}
    shown = table.filled("".join(map(place.format, results)), results).splitlines()
    assert [line for line in shown if line.startswith(("Measured", "With"))] == [
        "Measured on 2 cores of P, 8 GB of memory, S; numpy 2.",
        "With zarr 3.",
        "Measured on 2 cores of Q, 8 GB of memory, S; numpy 2.",
    ]


def test_a_table_of_several_has_words_to_the_left_and_figures_to_the_right(table: ModuleType) -> None:
    shown = table.one_table([made("one", 2.0), made("two", 0.5, against="more")], "loading").markdown.splitlines()
    assert shown[0] == "| bench | measured | samples/s | compared | MB held |"
    assert shown[1] == "| --- | --- | ---: | ---: | ---: |"
    assert shown[2] == "| title of one | ours | 1.65 million | 2 times other | 12.3 |"


def test_what_nobody_measured_yet_is_said(table: ModuleType) -> None:
    shown = table.filled("<!-- figures: loading of two -->\n<!-- end of figures -->", {"one": made("one", 2.0)})
    assert "Not measured yet." in shown


def test_the_summary_states_both_sides_of_a_comparison(table: ModuleType) -> None:
    results = table.read_results(table.FIGURES)
    chess = next(line for line in table.summary(results).splitlines() if line.startswith("| PGN"))
    (ours,) = (row for row in results["conversion_chess"]["rows"] if row["ratio"] and row["label"].endswith("store"))
    audited = results["conversion_chess"]["details"]["outofcore"]["audited"]
    for part in (f"{ours['ratio']:.2g}", "2 workers", "python-chess", "2 processes", f"{audited} of"):
        assert part in chess


def test_a_side_that_was_not_measured_is_named(table: ModuleType) -> None:
    results = table.read_results(table.FIGURES)
    rows = [row for row in results["loading_chess"]["rows"] if not row["label"].startswith("gather")]
    with pytest.raises(KeyError, match=r"loading_chess\.json: expected a speed of 'gather, 1'"):
        table.summary({**results, "loading_chess": {**results["loading_chess"], "rows": rows}})
