"""Conversions that are killed, most of them inside a text, go on and end with the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from outofcore.domains.text import source
from outofcore.domains.text.documents import reading
from tests.domains.text.kills import kill, make_text, whole_run


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the runs set for themselves is as before afterwards."""
    for module in (reading, source):
        monkeypatch.setattr(module, "BLOCK_BYTES", reading.BLOCK_BYTES)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.long)])
def test_a_killed_conversion_goes_on_with_the_same_bytes(tmp_path: Path, kills: int):
    make_text(tmp_path)
    units, expected = whole_run(tmp_path)
    assert units > 50
    dice = random.Random(5)
    found = [kill(tmp_path, f"killed{number}", dice, units, expected) for number in range(kills)]
    assert all(each.same for each in found)
    assert sum(each.resumed > 0 for each in found) >= kills // 2
    assert sum(each.whole for each in found) > kills
    # What was finished after the last checkpoint is written again.
    assert sum(each.reused for each in found) > 0.7 * sum(each.whole for each in found)
