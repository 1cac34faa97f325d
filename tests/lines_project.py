"""A project of one small domain, for tests of commands."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner, Result

from outofcore.cli import app
from outofcore.domains.registry import DOMAINS, GROUP
from outofcore.store.reader import Store
from outofcore.store.schema import Columns
from tests.conversion.lines import Lines, convert, write_lines


@dataclass(frozen=True)
class DrawnLines(Lines):
    """Lines of numbers that can be drawn, and a model of 1,000 weights."""

    def task(self, store: Store, section: Any) -> nn.Module:
        del store, section
        return nn.Linear(1000, 1, bias=False)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        assert attributes is not None
        return f"<{rows['number'][0]}>"


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> DrawnLines:
    """The domain, known under its name, and no settings of this machine."""
    module = types.ModuleType("tests.drawn_lines")
    domain = DrawnLines()
    vars(module)["DOMAIN"] = domain
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(DOMAINS, "lines", (EntryPoint("lines", module.__name__, GROUP),))
    for name in list(os.environ):
        if name.startswith("OUTOFCORE_"):
            monkeypatch.delenv(name)
    return domain


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with raw input and params, without DVC."""
    folder = tmp_path / "project"
    write_lines(folder / "raw", np.random.default_rng(5))
    (folder / "params.yaml").write_text("lines:\n  raw: raw\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def store(folder: Path, lines: DrawnLines) -> Path:
    """A store converted from that input."""
    convert(folder / "raw", Path("data/stores"), lines)
    return Path("data/stores/lines.zarr")


def call(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def line_with(text: str, word: str) -> list[str]:
    """The words of the only line that begins with a word."""
    (line,) = [line for line in text.splitlines() if line.startswith(word)]
    return line.split()
