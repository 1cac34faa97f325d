"""The size of the residual tower, by name or by numbers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.boards.tower import residual_blocks


def test_channels_and_blocks_take_the_place_of_the_preset() -> None:
    assert BoardTrainSection(preset="small").size == (64, 6)
    size = BoardTrainSection(preset="small", channels=96, blocks=3).size
    assert size == (96, 3)
    assert sum(weights.numel() for weights in residual_blocks(*size).parameters()) == 3 * (2 * 96 * 96 * 9 + 4 * 96)


@pytest.mark.parametrize("half", [{"channels": 96}, {"blocks": 3}])
def test_one_without_the_other_is_refused(half: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="expected channels and blocks together, got channels"):
        BoardTrainSection(**half)
