"""What the documents say in figures is what the benches have measured."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.pipeline.conftest import ROOT

FIGURES = sorted((ROOT / "bench" / "figures").glob("*.json"))


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table", ROOT / "bench" / "table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
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
    script = ROOT / re.match(r"python (bench/\w+\.py)", result["command"])[1]  # type: ignore[index]
    assert script.exists()
    assert result["rows"]
    assert {"processor", "cores", "memory_bytes", "system", "versions"} == set(result["machine"])
    assert not re.search(r"(^|[\s\"'=])/[a-z]+/", path.read_text(encoding="utf-8")), "a path of somebody's machine"


def test_a_table_of_one_bench_has_its_labels_and_ratios(table: ModuleType) -> None:
    shown = table.one_table([made("one", 39.6)], "loading").splitlines()
    assert shown[0] == "|  | samples/s | times other | MB held |"
    assert shown[2] == "| ours | 1.65 million | 39.6 | 12.3 |"
    assert table.notes([made("one", 39.6)]) == (
        "`python bench/one.py`: 7 rows.\n\nMeasured on 2 cores of P, 8 GB of memory, S; numpy 2.\n"
    )


def test_how_it_was_measured_is_told_once_in_a_document(table: ModuleType) -> None:
    place = "<!-- figures: loading of one -->\nold\n<!-- end of figures -->\n"
    shown = table.filled(place + place, {"one": made("one", 2.0)})
    assert shown.count("| ours |") == 2
    assert shown.count("7 rows.") == 1
    assert "old" not in shown
    assert table.filled(shown, {"one": made("one", 2.0)}) == shown


def test_a_table_of_several_says_whose_rows_they_are(table: ModuleType) -> None:
    shown = table.one_table([made("one", 2.0), made("two", 0.5, against="more")], "loading").splitlines()
    assert shown[0] == "|  |  | samples/s | compared | MB held |"
    assert [line.split("|")[1].strip() for line in shown[2:4]] == ["title of one", "title of two"]
    assert [line.split("|")[4].strip() for line in shown[2:4]] == ["2 times other", "0.5 times more"]


def test_what_nobody_measured_yet_is_said(table: ModuleType) -> None:
    shown = table.filled("<!-- figures: loading of two -->\n<!-- end of figures -->", {"one": made("one", 2.0)})
    assert "Not measured yet." in shown


def test_a_table_that_a_bench_does_not_have_is_an_error(table: ModuleType) -> None:
    with pytest.raises(KeyError, match="no row for the table 'memory' in one"):
        table.one_table([made("one", 2.0)], "memory")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.04, "0.04"),
        (39.62, "39.6"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1652341, "1.65 million"),
        (6.7e11, "670 billion"),
    ],
)
def test_figures_have_three_places(table: ModuleType, value: float, shown: str) -> None:
    assert table.number(value) == shown


def made(name: str, ratio: float, against: str = "other") -> dict[str, object]:
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
