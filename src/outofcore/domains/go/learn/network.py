"""Residual networks over the board: a policy and a player encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.boards.tower import PRESETS, residual_blocks

DIMENSIONS = {"test": 64, "small": 64, "medium": 128, "large": 256}
"""Dimensions of a style embedding."""

NEAR = 5
"""Radius of the neighbourhood of a move, in lines."""
PHASES = (0, 8, 16, 30, 60, 100, 160)
"""First move of each phase of a game."""


class Tower(nn.Module):
    """Planes to features of every point; ``preset`` is a key of :data:`outofcore.domains.boards.tower.PRESETS`."""

    def __init__(self, planes: int, frame: int, preset: str) -> None:
        super().__init__()
        channels, _ = PRESETS[preset]
        self.stem = nn.Conv2d(planes, channels, 3, padding=1)
        self.point = nn.Parameter(torch.zeros(channels, frame, frame))  # position on the board
        self.blocks = residual_blocks(preset)

    def forward(self, planes: Tensor) -> Tensor:
        """Planes (batch, planes, frame, frame) of any dtype -> (batch, channels, frame, frame)."""
        board: Tensor = self.blocks(torch.relu(self.stem(planes.to(self.point.dtype)) + self.point))
        return board


class PolicyNetwork(nn.Module):
    """Planes to logits of all points and the pass."""

    def __init__(self, planes: int, frame: int, preset: str) -> None:
        super().__init__()
        channels = PRESETS[preset][0]
        self.tower = Tower(planes, frame, preset)
        self.points = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.ReLU(), nn.Conv2d(channels, 1, 1))
        self.rest = nn.Linear(channels, 1)

    def forward(self, planes: Tensor, on_board: Tensor | None) -> Tensor:
        """Logits (batch, frame * frame + 1); points outside ``on_board`` get the lowest finite value."""
        board = self.tower(planes)
        points = self.points(board).flatten(1)
        if on_board is not None:
            points = points.masked_fill(on_board.flatten(1) == 0, torch.finfo(points.dtype).min)
        return torch.cat([points, self.rest(board.mean((2, 3)))], 1)


class StyleNetwork(nn.Module):
    """Embedding of a position and the move chosen in it, characteristic of the player.

    Two kinds of habits: where somebody plays at which stage of the game (a table), and local shapes (a small residual
    network over the neighbourhood of the move).
    """

    def __init__(self, planes: int, frame: int, preset: str) -> None:
        super().__init__()
        (channels, _), size = PRESETS[preset], DIMENSIONS[preset]
        self.frame = frame
        self.where = nn.Embedding(2 * len(PHASES) * (frame * frame + 1), size)
        self.stem = nn.Conv2d(planes + 1, channels, 3, padding=1)
        self.blocks = residual_blocks(preset)
        last = nn.Linear(2 * size, size)
        self.shape = nn.Sequential(nn.Linear(2 * channels, 2 * size), nn.ReLU(), last)
        # The table starts near zero and the shapes at zero: random values would drown the signal of a few games.
        nn.init.normal_(self.where.weight, std=0.02)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.register_buffer("begins", torch.tensor(PHASES), persistent=False)
        self.begins: Tensor

    def forward(self, planes: Tensor, move: Tensor, to_play: Tensor, number: Tensor, on_board: Tensor | None) -> Tensor:
        """Embeddings (batch, dimensions).

        ``planes`` (batch, planes, frame, frame) of any dtype; ``move``, ``to_play`` (0 Black, 1 White) and ``number``
        (preceding moves) (batch,) int64; ``on_board`` (batch, frame, frame) if boards are smaller than the frame.
        """
        phase = torch.bucketize(number, self.begins, right=True) - 1
        points = self.frame * self.frame + 1
        where: Tensor = self.where((phase * 2 + to_play) * points + move)
        board = torch.relu(self.stem(self._around(planes, move, on_board).to(self.stem.weight.dtype)))
        board = self.blocks(board)
        shape: Tensor = self.shape(torch.cat([board[..., NEAR, NEAR], board.mean((2, 3))], 1))
        return where + shape

    def _around(self, planes: Tensor, move: Tensor, on_board: Tensor | None) -> Tensor:
        """The points up to ``NEAR`` lines from the move, with an on-board plane; zero around a pass."""
        board = planes.new_ones(planes.shape[0], self.frame, self.frame) if on_board is None else on_board
        padded = functional.pad(torch.cat([planes, board[:, None].to(planes.dtype)], 1), (NEAR,) * 4)
        passed = move == self.frame * self.frame
        offsets = torch.arange(2 * NEAR + 1, device=move.device)
        here = torch.where(passed, 0, move)
        rows = (here // self.frame)[:, None, None] + offsets[:, None]
        columns = (here % self.frame)[:, None, None] + offsets
        samples = torch.arange(len(move), device=move.device)[:, None, None]
        around: Tensor = padded[samples, :, rows, columns].movedim(-1, 1)
        return around * ~passed[:, None, None, None]
