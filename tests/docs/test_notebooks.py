"""The notebooks of the documents run from top to bottom, and find what they say."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.conftest import ROOT

FOUND = {
    "chess": "assert figures['top1'] > 3 * figures['top1_most_frequent'], figures",
    "eeg": "assert shown['accuracy'] > shown['chance'] + 0.3 and shown['strongest, Hz'] in (9, 10, 11), shown",
    "recordings": "assert min(shown) > 0.9, shown  # how alike the patches and what was found are",
    "weather": "assert shown['linear'] < shown['persistence'] / 2 and len(seen.unique()) == len(seen), shown",
}


@pytest.mark.parametrize("name", FOUND)
def test_every_cell_was_run_before_it_was_committed(name: str) -> None:
    cells = json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code" and isinstance(ast.parse("".join(cell["source"])).body[-1], ast.Expr):
            assert cell["outputs"]


@pytest.mark.apart
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FOUND)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    cells = json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    *codes, last = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    *lines, shown = ast.parse(last).body
    program = "\n".join([*codes, *map(ast.unparse, lines), f"shown = {ast.unparse(shown)}", FOUND[name]])
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
