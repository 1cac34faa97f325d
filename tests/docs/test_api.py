"""The API pages can be made, without a warning, and hold what a user's program calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import outofcore
from tests.pipeline.conftest import ROOT


@pytest.mark.long
def test_pages_are_made_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("pdoc")
    command = [sys.executable, "-W", "error", ROOT / "stages" / "api.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    first = (tmp_path / "outofcore.html").read_text(encoding="utf-8")
    for name in outofcore.__all__:
        assert f'id="{name}"' in first
    assert "checked before an epoch is read" in first
    assert (tmp_path / "outofcore" / "domains" / "domain.html").exists()
