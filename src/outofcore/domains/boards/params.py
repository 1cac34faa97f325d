"""Training settings that chess and Go share: the size of the residual tower."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from outofcore.domains.own_network import network_setting
from outofcore.domains.sections import TrainSection

PRESETS = {"test": (16, 2), "small": (64, 6), "medium": (128, 10), "large": (256, 20), "huge": (384, 30)}
"""Channels and residual blocks by name."""


class BoardTrainSection(TrainSection):
    """Training of a residual network over the board."""

    sized_by: ClassVar[tuple[str, ...]] = ("channels", "blocks")

    network: str = network_setting("residual")
    channels: int | None = Field(
        None, ge=8, le=2**12, multiple_of=8, description="width of the network; with blocks, in place of preset"
    )
    blocks: int | None = Field(None, ge=1, le=1000, description="residual blocks, of two convolutions each")

    @model_validator(mode="after")
    def _both(self) -> BoardTrainSection:
        if (self.channels is None) != (self.blocks is None):
            raise ValueError(
                f"expected channels and blocks together, got channels {self.channels}, blocks {self.blocks}"
            )
        return self

    @property
    def size(self) -> tuple[int, int]:
        """Channels and residual blocks."""
        return (self.channels, self.blocks) if self.channels and self.blocks else PRESETS[self.preset]
