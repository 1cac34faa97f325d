"""Next-move prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.boards.policy import MovePrediction, accuracies
from outofcore.domains.go.learn.network import PolicyNetwork
from outofcore.domains.go.tensors import GoReading, planes
from outofcore.domains.task import Batch

if TYPE_CHECKING:
    from outofcore.store.reader import Store

MOVES_PER_BIN = 20
CURVES = ("top1", "top5", "top1_most_frequent", "top5_most_frequent")

_ROWS_AT_ONCE = 1 << 20


def count_moves(store: Store, frame: int) -> npt.NDArray[np.int64]:
    """Frequency of each point and the pass in the train split; (frame * frame + 1,) int64."""
    moves = store.rows("train")["move"]
    counts = np.zeros(frame * frame + 1, np.int64)
    for start in range(0, len(moves), _ROWS_AT_ONCE):
        counts += np.bincount(moves.read(start, min(start + _ROWS_AT_ONCE, len(moves))), minlength=len(counts))
    return counts


class PolicyTask(MovePrediction):
    """Predict the next move: cross-entropy over all points and the pass.

    ``frequencies`` of the moves in the train split are the baseline.
    """

    def __init__(self, reading: GoReading, preset: str, frequencies: npt.NDArray[np.int64]) -> None:
        super().__init__(frequencies, MOVES_PER_BIN)
        self.reach = reading.reach
        self.network = PolicyNetwork(planes(reading.section), reading.frame, preset)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum of the cross-entropy, and the number of positions."""
        loss = functional.cross_entropy(self._logits(batch), batch["move"], reduction="sum")
        return loss, torch.tensor(len(batch["move"]))

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Counts in bins of twenty moves (16,), and summed losses of the model and the frequencies."""
        return self.count_hits(self._logits(batch), batch["move"], batch["number"])

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

    def _logits(self, batch: Batch) -> Tensor:
        logits: Tensor = self.network(batch["planes"], batch.get("on_board"))
        return logits.float()
