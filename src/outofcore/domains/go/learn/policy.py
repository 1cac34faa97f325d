"""Next-move prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.boards.policy import MovePrediction, accuracies
from outofcore.domains.boards.tower import PRESETS, residual_blocks
from outofcore.domains.go.tensors import GoReading, planes
from outofcore.domains.task import Batch

if TYPE_CHECKING:
    from outofcore.store.reader import Store

MOVES_PER_BIN = 20
CURVES = ("top1", "top5", "top1_most_frequent", "top5_most_frequent")

_ROWS_AT_ONCE = 1 << 20


def count_moves(store: Store, frame: int) -> npt.NDArray[np.int64]:
    """Frequency of each point and the pass in the train split; (frame * frame + 1,) int64."""
    counts = np.zeros(frame * frame + 1, np.int64)
    for rows in store.rows("train").blocks(_ROWS_AT_ONCE, "move"):
        counts += np.bincount(rows["move"], minlength=len(counts))
    return counts


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


class PolicyTask(MovePrediction):
    """Predict the next move: cross-entropy over all points and the pass."""

    headline = ("top1", "top1_most_frequent", "top5", "loss", "loss_frequencies")

    def __init__(self, reading: GoReading, preset: str, frequencies: npt.NDArray[np.int64]) -> None:
        super().__init__(frequencies, MOVES_PER_BIN)
        self.reach = reading.reach
        self.network = PolicyNetwork(planes(reading.section), reading.frame, preset)

    def predict(self, batch: Batch) -> Tensor:
        """Logits of all points and the pass (batch, frame * frame + 1) float32."""
        logits: Tensor = self.network(batch["planes"], batch.get("on_board"))
        return logits.float()

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        loss = functional.cross_entropy(self.predict(batch), batch["move"], reduction="sum")
        return loss, torch.tensor(len(batch["move"]))

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Counts in bins of twenty moves (16,), and summed losses of the model and the frequencies."""
        return self.count_hits(self.predict(batch), batch["move"], batch["number"])

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracies as shares of the positions, losses as means in nats.

        ``top1_most_frequent`` and ``top5_most_frequent`` are accuracies of always predicting the most frequent moves of
        the train split, ``loss_frequencies`` is the cross-entropy of its frequencies.
        """
        count = float(sums["positions"].sum())
        return {
            **accuracies(sums),
            "loss": float(sums["policy_loss"]) / count,
            "loss_frequencies": float(sums["surprise"]) / count,
            "positions": count,
        }

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``accuracy_by_move``: accuracy per twenty moves of the game, with the baseline's."""
        rows: list[dict[str, float | str]] = [
            {"move": float(move), "positions": positions, **{name: shares[name] for name in CURVES}}
            for move, positions, shares in self.accuracy_by_bin(sums)
        ]
        return {"accuracy_by_move": rows}
