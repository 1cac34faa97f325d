"""The page of licences: every package that an extra installs is on it, with the licence that it states."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| \**(\w[\w.-]*)\** \| \**([\w.-]+)\**.*? \| (outofcore|`\[.+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs/licences.md").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Packages whose metadata name no licence; the page says where theirs comes from.
SILENT = {"rust-pgn-reader-python-binding"}


def test_every_dependency_of_a_user_is_listed():
    extras = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name not in ("all", "dev")}
    stated = {"outofcore": PROJECT["dependencies"], **{f"`[{name}]`": lines for name, lines in extras.items()}}
    needed = {(Requirement(line).name, extra) for extra, lines in stated.items() for line in lines}
    listed = {(package, extra) for package, _, extras in ROWS for extra in extras.split(", ")}
    assert listed == {(package, extra) for package, extra in needed if package != "outofcore"}


@pytest.mark.parametrize(("package", "licence"), [row[:2] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_licence_is_the_one_that_the_package_states(package, licence):
    try:
        stated = metadata(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    fields = [stated.get("License-Expression"), stated.get("License"), *stated.get_all("Classifier", [])]
    words = " ".join(field.partition("\n")[0] for field in fields if field)  # some state the text of their licence
    family = {"GPL": "GPL", "PSF": "Python Software Foundation"}.get(licence.split("-")[0], licence.split("-")[0])
    assert (family in words) is (package not in SILENT)
    assert ("GPL" in words) is ("GPL" in licence and package not in SILENT)
