"""The page that a new maintainer reads first names files that there are."""

from __future__ import annotations

import ast
import re

import pytest

from tests.pipeline.conftest import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
SOURCES = ROOT / "src/outofcore"


def test_every_file_and_folder_that_it_names_is_there() -> None:
    named = set(re.findall(r"[\w/]+\.py|\b[a-z]+/(?=[`\s])", PAGE))
    assert len(named) > 30
    missing = {name for name in named if not any((top / name).exists() for top in (SOURCES, ROOT))}
    assert not missing


def test_every_package_is_in_its_table() -> None:
    packages = {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    rows = {name for row in re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)/`", row)}
    assert rows - {"stages"} == packages


def imported(package: str) -> set[str]:
    """Packages and modules of outofcore that the files of a package import, inside of functions too."""
    found = set()
    for path in (SOURCES / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outofcore."):
                found.add(str(node.module).split(".")[1])
    return found - {package}


@pytest.mark.parametrize(
    ("package", "never"),
    [
        ("raw", {"conversion", "domains", "loading", "training", "space", "pipeline", "plan", "inspect", "report"}),
        ("store", {"conversion", "domains", "loading", "training", "space", "pipeline", "plan", "inspect", "report"}),
        ("space", {"conversion", "domains", "loading", "training", "pipeline", "plan", "inspect", "report"}),
        ("domains", {"training", "pipeline", "plan", "report"}),
        ("conversion", {"loading", "training", "pipeline", "plan", "inspect", "report"}),
        ("loading", {"conversion", "training", "pipeline", "plan", "inspect", "report"}),
        ("training", {"pipeline", "plan", "report"}),
    ],
)
def test_arrows_point_one_way(package: str, never: set[str]) -> None:
    assert not imported(package) & never
