"""The pictures of the documents are those that their script draws."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.cases import long_cases
from tests.pipeline.conftest import ROOT

FOLDER = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["epoch", "memory", *long_cases("position", "filters")])
def test_a_picture_is_what_its_script_draws(name: str, drawing: ModuleType, tmp_path: Path) -> None:
    drawn = drawing.PICTURES[name](tmp_path)
    assert drawn == (FOLDER / f"{name}.svg").read_text(encoding="utf-8"), "run 'python docs/pictures/draw.py'"
