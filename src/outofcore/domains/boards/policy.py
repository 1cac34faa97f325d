"""Predicting the move played: accuracy over the course of the game, next to that of the most frequent moves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.task import Batch, Task
from outofcore.ndarrays import Ints

BINS = 16
"""Figures are counted in bins of moves; the last bin is open."""

_TOP = 5


class Outcome(NamedTuple):
    """A number that a network predicts of how a game ends, (batch,); NaN in a batch where it is unknown."""

    name: str  # in a batch
    figure: str  # name of its mean error
    error: Callable[..., Tensor] = functional.mse_loss  # that the figure states
    loss: Callable[..., Tensor] = functional.mse_loss  # that is trained
    unit: float = 1.0  # in which the loss is computed


class MovePrediction(Task):
    """Predict the move played, and the outcomes.

    The loss of a position is the cross-entropy of the move plus the losses of the outcomes, 0 where one is unknown. The
    baselines are how often each move was played in the train split, and ``value_mean``, else 0, for each outcome.

    Attributes
    ----------
    target, number
        Names in a batch of the class of the move, and of the preceding moves.
    outcomes
        What :meth:`predict` returns after the logits; a network may have none of them.
    """

    shares = ("top1", "top5", "winner")
    target: ClassVar[str]
    number: ClassVar[str]
    outcomes: ClassVar[tuple[Outcome, ...]]

    def __init__(
        self, settings: BoardTrainSection, frequencies: Ints, moves_per_bin: int, value_mean: float | None = None
    ) -> None:
        super().__init__()
        self.settings, self.moves_per_bin = settings, moves_per_bin
        counts = torch.from_numpy(frequencies)
        # Add-one smoothing, so that moves absent from the train split have a probability.
        surprise = -torch.log((counts + 1.0) / (counts + 1.0).sum())
        # Saved with the weights: a model that is loaded without its store still states its baseline.
        self.register_buffer("surprise", surprise.float())
        self.register_buffer("frequent", counts.argsort(descending=True, stable=True)[:_TOP])
        self.register_buffer("value_mean", None if value_mean is None else torch.tensor(value_mean))
        self.surprise: Tensor
        self.frequent: Tensor
        self.value_mean: Tensor | None

    @abstractmethod
    def predict(self, batch: Batch) -> tuple[Tensor, ...]:
        """Logits (batch, classes) float32, the lowest one for a class that cannot be; expected outcomes (batch,)."""

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, *expected = self.predict(batch)
        policy = functional.cross_entropy(logits, batch[self.target], reduction="sum")
        return self._with_outcomes(policy, batch, expected), torch.tensor(len(logits))

    def _with_outcomes(self, loss: Tensor, batch: Batch, expected: Sequence[Tensor]) -> Tensor:
        """A summed loss, and those of the expected outcomes."""
        for outcome, value in zip(self.outcomes, expected, strict=False):
            wanted = batch[outcome.name] / outcome.unit
            loss = loss + outcome_error(value / outcome.unit, wanted, outcome.loss)
        return loss

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """:meth:`sums` of what is predicted."""
        return self.sums(batch, *self.predict(batch))

    def sums(self, batch: Batch, logits: Tensor, *expected: Tensor) -> dict[str, Tensor]:
        """Counts per bin of moves (16,), and summed errors of the model and the baselines."""
        target = batch[self.target]
        bins = (batch[self.number] // self.moves_per_bin).clamp(0, BINS - 1).long()
        best, policy = logits.topk(_TOP).indices, functional.cross_entropy(logits, target, reduction="sum")
        hits = {
            "top1": best[:, 0] == target,
            "top5": (best == target[:, None]).any(1),
            "frequent1": target == self.frequent[0],
            "frequent5": (target[:, None] == self.frequent).any(1),
        }
        sums = {
            "positions": torch.bincount(bins, minlength=BINS),
            **{name: torch.bincount(bins[hit], minlength=BINS) for name, hit in hits.items()},
            "loss": self._with_outcomes(policy, batch, expected),
            "policy_loss": policy,
            "surprise": self.surprise[target].sum(),
        }
        for outcome, value in zip(self.outcomes, expected, strict=False):
            wanted = batch[outcome.name]
            constant = value.new_zeros(()) if self.value_mean is None else self.value_mean
            sums |= {
                f"{outcome.name}s": (~wanted.isnan()).sum(),
                outcome.figure: outcome_error(value, wanted, outcome.error),
                f"{outcome.figure}_constant": outcome_error(constant.expand_as(value), wanted, outcome.error),
            }
        return sums

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracies as shares of the positions, losses in nats, and mean errors of the outcomes where known.

        ``loss`` is that of training; with outcomes it has more than the cross-entropy, which is ``policy_loss`` then.
        ``_most_frequent`` is that of always predicting the most frequent moves of the train split, ``_frequencies`` the
        cross-entropy of its frequencies, ``_constant`` the error of the mean value, or of 0.
        """
        count = float(sums["positions"].sum())
        policy = "policy_loss" if any(f"{outcome.name}s" in sums for outcome in self.outcomes) else "loss"
        figures = {
            **accuracies(sums),
            policy: float(sums["policy_loss"]) / count,
            f"{policy}_frequencies": float(sums["surprise"]) / count,
        }
        for outcome in self.outcomes:
            if known := float(sums.get(f"{outcome.name}s", 0)):
                figures |= {name: float(sums[name]) / known for name in (outcome.figure, f"{outcome.figure}_constant")}
        figures["loss"] = float(sums["loss"]) / count
        return {**figures, **self.further_figures(sums), "positions": count}

    def further_figures(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Figures of this game alone."""
        del sums
        return {}

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
