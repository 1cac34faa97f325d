"""What the README must show."""

from __future__ import annotations

import re

from tests.pipeline.conftest import ROOT


def test_two_commands_are_console_lines() -> None:
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.split("#")[0].strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert {"make run", "make test"} <= set(lines)
