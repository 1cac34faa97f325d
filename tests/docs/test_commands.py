"""Every command in the documents that is in a ``console`` block, in order, in a copy of the project.

A page is gone through from top to bottom, a section of ``getting-started.md`` at a time; a command that fails, fails
the test; ``pytest -m apart`` does it, as the tests of the pipeline run the same stages. The home folder holds what a
reader would have: games, recordings and texts of their own. Training is short.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.conftest import ROOT, Project, copy_project
from tests.samples import write_sample

OWN = {"games": "chess", "sgf": "go", "texts": "text", "recordings": "neural"}
"""What the reader has, by folder, and of which domain it is."""
PAGES = [path for path in sorted(ROOT.glob("docs/*.md")) if "```console" in path.read_text()]
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)


def chapters() -> list[tuple[str, str]]:
    """Name and text of what is gone through in one go."""
    found = [(path.stem, path.read_text()) for path in PAGES if path.stem != "getting-started"]
    before, *sections = (ROOT / "docs/getting-started.md").read_text().split("\n## ")
    assert "```" not in before
    *own, then = sections
    return [*found, *((section.split(":")[0].split("\n")[0], section) for section in own[1:]), ("Chess", own[0] + then)]


def prepare(folder: Path, text: str) -> Project:
    """A copy of the project that trains for a few steps, and a home folder with the raw files that the text names."""
    (folder / "home").mkdir()
    for name, domain in OWN.items():
        if f"~/{name}" in text:
            home = folder / "home" / name
            home.mkdir()
            write_sample(domain, home, 0)
    project = copy_project(folder / "project")
    (project.folder / "docs").symlink_to(ROOT / "docs")
    params = project.folder / "params.yaml"
    params.write_text(params.read_text().replace("max_steps: -1", "max_steps: 3"))
    project.git("commit", "-q", "-a", "-m", "a few steps")
    return project


@pytest.mark.apart
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "text"), [pytest.param(*chapter, id=chapter[0]) for chapter in chapters()])
def test_commands_do_what_the_page_says(name: str, text: str, tmp_path: Path) -> None:
    del name
    project = prepare(tmp_path, text)
    blocks = BLOCK.findall(text)
    assert blocks
    for kind, block in blocks:
        if kind == "python":
            project.run(sys.executable, "-c", block)
            continue
        for line in block.splitlines():
            assert line.startswith("$ "), line
            project.run("bash", "-ec", line.removeprefix("$ "), HOME=str(tmp_path / "home"))


def test_the_worked_example_is_as_short_as_it_says() -> None:
    lines = [line for path in (ROOT / "docs/example/dna").glob("*.py") for line in path.read_text().splitlines()]
    assert len([line for line in lines if line.strip()]) <= 100


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), ROOT / "docs/llms.txt"]:
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
            if "://" in target:
                continue
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_commands_that_are_named_exist() -> None:
    text = "".join(page.read_text() for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "docs/llms.txt"])
    known = subprocess.run(
        [Path(sys.executable).parent / "outofcore", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for command in set(re.findall(r"`outofcore (\w[\w-]*)", text)):
        assert f"  {command} " in known, command
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`make (\w+)`", text)):
        assert f"\n{target}:" in makefile, target
