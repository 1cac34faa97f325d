"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of published games, texts and recordings; the test is skipped where there is none."""
    named = os.environ.get("OUTOFCORE_REAL_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real input at {folder}; set OUTOFCORE_REAL_DATA to a folder that holds it")
    return folder
