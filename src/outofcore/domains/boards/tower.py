"""The residual tower of the networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_GROUPS = 8


class _ResidualBlock(nn.Module):
    """Residual block of two convolutions; norms are per sample, so results do not depend on the micro-batch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        last = nn.GroupNorm(_GROUPS, channels)
        nn.init.zeros_(last.weight)  # starts as the identity, which lets deep networks learn
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(_GROUPS, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            last,
        )

    def forward(self, board: Tensor) -> Tensor:
        return torch.relu(board + self.body(board))


def residual_blocks(channels: int, blocks: int) -> nn.Sequential:
    """So many blocks: (batch, channels, rows, columns) -> the same shape."""
    return nn.Sequential(*(_ResidualBlock(channels) for _ in range(blocks)))


def outcome_head(channels: int) -> nn.Sequential:
    """One number of a position, from its :func:`pooled` features."""
    return nn.Sequential(nn.Linear(2 * channels, 64), nn.ReLU(), nn.Linear(64, 1))


def pooled(board: Tensor) -> Tensor:
    """Mean and maximum over all points: (batch, channels, points...) -> (batch, 2 * channels)."""
    points = board.flatten(2)
    return torch.cat([points.mean(2), points.amax(2)], 1)
