"""The documents as a site: every page in its navigation, nothing fetched from the network."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.pipeline.conftest import ROOT


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = re.findall(r"([\w-]+\.md)$", navigation, re.MULTILINE)
    pages = [path.name for path in ROOT.glob("docs/*.md")]
    pages += [f"{path.stem}.md" for path in ROOT.glob("docs/notebooks/*.ipynb")]
    assert sorted(named) == sorted([*pages, "index.md", "CONTRIBUTING.md", "CHANGELOG.md"])


def test_every_column_of_a_table_has_a_header() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        lines = page.read_text(encoding="utf-8").splitlines()
        for header, rule in pairwise(lines):
            if re.fullmatch(r"\|( :?-+:? \|)+", rule):
                assert all(cell.strip() for cell in header.strip("|").split("|")), f"{page.name}: {header}"


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="'make docs' installs mkdocs-material")
def test_the_site_is_built_and_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img|source)[^>]*(src|href|srcset)=[\"']?(https?:)?//", text), page
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="chess.html"' in first
    assert (tmp_path / "notebooks/recordings.html").read_text(encoding="utf-8").count("data:image/png") == 1
    assert 'role="dialog" aria-label="Search"' in first
    assert (tmp_path / "api/outofcore.html").exists()
    assert "memory budget" in (tmp_path / "search/search_index.js").read_text(encoding="utf-8")
