"""The residual blocks of board networks."""

from __future__ import annotations

import pytest
import torch

from outofcore.domains.boards.params import PRESETS
from outofcore.domains.boards.tower import residual_blocks


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_starts_as_the_identity_of_what_is_not_negative(preset: str) -> None:
    channels, blocks = PRESETS[preset]
    tower = residual_blocks(channels, blocks)
    assert len(tower) == blocks
    board = torch.rand(1, channels, 3, 3)
    with torch.no_grad():
        assert torch.equal(tower(board), board)
