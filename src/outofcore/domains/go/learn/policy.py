"""Next-move prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.go.learn.network import PolicyNetwork
from outofcore.domains.go.tensors import GoReading, planes
from outofcore.domains.task import Batch, Task

if TYPE_CHECKING:
    from outofcore.store.reader import Store

MOVES_PER_BIN = 20
BINS = 16
"""Moves 0 to 19, 20 to 39 and so on; the last bin is open."""

_ROWS_AT_ONCE = 1 << 20


def count_moves(store: Store, frame: int) -> npt.NDArray[np.int64]:
    """Frequency of each point and the pass in the train split; (frame * frame + 1,) int64."""
    moves = store.rows("train")["move"]
    counts = np.zeros(frame * frame + 1, np.int64)
    for start in range(0, len(moves), _ROWS_AT_ONCE):
        counts += np.bincount(moves.read(start, min(start + _ROWS_AT_ONCE, len(moves))), minlength=len(counts))
    return counts


class PolicyTask(Task):
    """Predict the next move: cross-entropy over all points and the pass.

    ``frequencies`` of the moves in the train split are the baseline.
    """

    def __init__(self, reading: GoReading, preset: str, frequencies: npt.NDArray[np.int64]) -> None:
        super().__init__()
        self.reach = reading.reach
        self.network = PolicyNetwork(planes(reading.section), reading.frame, preset)
        counts = torch.from_numpy(frequencies)
        # Add-one smoothing, so that moves absent from the train split have a probability.
        surprise = -torch.log((counts + 1.0) / (counts + 1.0).sum())
        self.register_buffer("surprise", surprise.float(), persistent=False)
        self.register_buffer("frequent", counts.argsort(descending=True, stable=True)[:5], persistent=False)
        self.surprise: Tensor
        self.frequent: Tensor

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum of the cross-entropy, and the number of positions."""
        return functional.cross_entropy(self._logits(batch), batch["move"], reduction="sum"), torch.tensor(
            len(batch["move"])
        )

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Counts in bins of twenty moves (16,), and summed losses of the model and the frequencies."""
        logits, move = self._logits(batch), batch["move"]
        bins = (batch["number"] // MOVES_PER_BIN).clamp(0, BINS - 1)
        best = logits.topk(5).indices

        def by_number(counted: Tensor) -> Tensor:
            return torch.bincount(bins[counted], minlength=BINS)

        return {
            "positions": torch.bincount(bins, minlength=BINS),
            "top1": by_number(best[:, 0] == move),
            "top5": by_number((best == move[:, None]).any(1)),
            "frequent1": by_number(move == self.frequent[0]),
            "frequent5": by_number((move[:, None] == self.frequent).any(1)),
            "loss": functional.cross_entropy(logits, move, reduction="sum"),
            "surprise": self.surprise[move].sum(),
        }

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracies as shares of the positions, losses as means in nats.

        ``top1_most_frequent`` and ``top5_most_frequent`` are accuracies of always predicting the most frequent moves of
        the train split, ``loss_frequencies`` is the cross-entropy of its frequencies.
        """
        count = float(sums["positions"].sum())
        figures = {
            "top1": float(sums["top1"].sum()) / count,
            "top1_most_frequent": float(sums["frequent1"].sum()) / count,
            "top5": float(sums["top5"].sum()) / count,
            "top5_most_frequent": float(sums["frequent5"].sum()) / count,
            "loss": float(sums["loss"]) / count,
            "loss_frequencies": float(sums["surprise"]) / count,
        }
        return {**figures, "positions": count}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``accuracy_by_move``: accuracy per twenty moves of the game, with the baseline's."""
        rows: list[dict[str, float | str]] = []
        for place in range(BINS):
            count = float(sums["positions"][place])
            if count:
                names = {
                    "top1": "top1",
                    "top5": "top5",
                    "frequent1": "top1_most_frequent",
                    "frequent5": "top5_most_frequent",
                }
                rows.append(
                    {
                        "move": float(place * MOVES_PER_BIN),
                        "positions": count,
                        **{shown: round(float(sums[name][place]) / count, 6) for name, shown in names.items()},
                    }
                )
        return {"accuracy_by_move": rows}

    def _logits(self, batch: Batch) -> Tensor:
        logits: Tensor = self.network(batch["planes"], batch.get("on_board"))
        return logits.float()
