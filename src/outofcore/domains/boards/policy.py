"""Predicting the move played: accuracy over the course of the game, next to that of the most frequent moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.task import Task

BINS = 16
"""Figures are counted in bins of moves; the last bin is open."""

_TOP = 5


class MovePrediction(Task):
    """A task with a distribution over moves; its baseline is how often each move was played in the train split."""

    shares = ("top1", "top5", "winner")

    def __init__(self, frequencies: npt.NDArray[np.int64], moves_per_bin: int) -> None:
        super().__init__()
        self.moves_per_bin = moves_per_bin
        counts = torch.from_numpy(frequencies)
        # Add-one smoothing, so that moves absent from the train split have a probability.
        surprise = -torch.log((counts + 1.0) / (counts + 1.0).sum())
        # Saved with the weights: a model that is loaded without its store still states its baseline.
        self.register_buffer("surprise", surprise.float())
        self.register_buffer("frequent", counts.argsort(descending=True, stable=True)[:_TOP])
        self.surprise: Tensor
        self.frequent: Tensor

    def count_hits(self, logits: Tensor, target: Tensor, number: Tensor) -> dict[str, Tensor]:
        """Counts per bin (16,), and summed losses of the model and the frequencies.

        ``logits`` (batch, classes), ``target`` (batch,) classes, ``number`` (batch,) preceding moves.
        """
        bins = (number // self.moves_per_bin).clamp(0, BINS - 1).long()
        best = logits.topk(_TOP).indices
        hits = {
            "top1": best[:, 0] == target,
            "top5": (best == target[:, None]).any(1),
            "frequent1": target == self.frequent[0],
            "frequent5": (target[:, None] == self.frequent).any(1),
        }
        return {
            "positions": torch.bincount(bins, minlength=BINS),
            **{name: torch.bincount(bins[hit], minlength=BINS) for name, hit in hits.items()},
            "policy_loss": functional.cross_entropy(logits, target, reduction="sum"),
            "surprise": self.surprise[target].sum(),
        }

    def accuracy_by_bin(self, sums: Mapping[str, Tensor]) -> Iterator[tuple[int, float, dict[str, float]]]:
        """First move of each bin that has positions, their number, and the accuracies."""
        for place in torch.nonzero(sums["positions"]).flatten().tolist():
            shares = {name: round(share, 6) for name, share in accuracies(sums, slice(place, place + 1)).items()}
            yield self.moves_per_bin * place, float(sums["positions"][place]), shares


def accuracies(sums: Mapping[str, Tensor], bins: slice = slice(None)) -> dict[str, float]:
    """Shares of positions whose move is first, or among the first five, of the model's and of the most frequent."""
    names = {"top1": "top1", "frequent1": "top1_most_frequent", "top5": "top5", "frequent5": "top5_most_frequent"}
    count = float(sums["positions"][bins].sum())
    return {shown: float(sums[name][bins].sum()) / count for name, shown in names.items()}


def outcome_error(value: Tensor, wanted: Tensor, error: Callable[..., Tensor] = functional.mse_loss) -> Tensor:
    """Summed error of expected results, squared by default, without a gradient where the wanted value is NaN."""
    return error(value, torch.where(wanted.isnan(), value.detach(), wanted), reduction="sum")
