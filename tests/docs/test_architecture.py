"""The page that a new maintainer reads first names files that there are."""

from __future__ import annotations

import ast
import re
import sys

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
    """Modules of outofcore outside of a package that its files import, inside of functions too."""
    found = set()
    for path in (SOURCES / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outofcore."):
                found.add(str(node.module))
    return {each for each in found if each.split(".")[1] != package}


def place(module: str) -> str:
    """The folder or file of a module of outofcore."""
    path = "/".join(module.split(".")[1:3])
    return f"{path}.py" if (SOURCES / f"{path}.py").is_file() else f"{path}/"


def test_its_table_states_what_each_package_imports() -> None:
    anywhere = set(re.findall(r"`([\w/.]+)`", PAGE.partition(" are imported anywhere")[0].rpartition("\n\n")[2]))
    assert anywhere
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(list(SOURCES.glob("*/__init__.py")))
    for package, cell in rows:
        stated = set(re.findall(r"`([\w/.]+)`", cell))
        others = [module for module in imported(package) if f"{module.split('.')[1]}/" not in anywhere]
        real = {place(module) for module in others} - anywhere
        shown = {each if each in stated else re.sub(r"/.*", "/", each) for each in real}
        assert shown == stated, package
        assert stated or cell == "nothing of the rest"


@pytest.mark.parametrize(
    ("package", "never"),
    [
        ("settings", {"system", "display", "store", "raw", "domains", "params"}),
        ("system", {"store", "raw", "domains", "params"}),
        ("display", {"system", "store", "raw", "domains", "params"}),
        ("raw", {"conversion", "domains", "loading", "training", "space", "pipeline", "plan", "inspect", "report"}),
        ("store", {"conversion", "domains", "loading", "training", "space", "pipeline", "plan", "inspect", "report"}),
        ("space", {"conversion", "domains", "loading", "training", "pipeline", "plan", "inspect", "report"}),
        ("order", {"raw", "store", "conversion", "domains", "loading", "training", "space", "pipeline", "plan"}),
        ("domains", {"conversion", "loading", "training", "pipeline", "plan", "inspect", "report"}),
        ("conversion", {"loading", "training", "pipeline", "plan", "inspect", "report"}),
        ("loading", {"conversion", "training", "pipeline", "plan", "inspect", "report"}),
        ("training", {"pipeline", "plan", "inspect", "report"}),
    ],
)
def test_arrows_point_one_way(package: str, never: set[str]) -> None:
    assert not {each.split(".")[1] for each in imported(package)} & never


def test_the_order_needs_numpy_alone() -> None:
    trees = [ast.parse(path.read_text()) for path in (SOURCES / "order").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"numpy", "outofcore"}
