"""What the README must show."""

from __future__ import annotations

import re

from tests.pipeline.conftest import ROOT


def test_two_commands_are_console_lines() -> None:
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.split("#")[0].strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert {"make run", "make test"} <= set(lines)


def test_what_people_search_for_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    begun = text.partition("```")[0]
    for word in ("Lichess", "Maia", "EEG", "HDF5", "month", "nanoGPT", "Packing", "GPUs"):
        assert word in begun, word
    assert len(begun.splitlines()) <= 40  # one screen
