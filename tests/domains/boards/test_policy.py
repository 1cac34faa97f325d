"""Figures of predicted moves, next to those of the most frequent ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.boards.policy import BINS, MovePrediction, accuracies
from outofcore.domains.task import Batch

COUNTS = np.array([5, 0, 9, 1, 1, 1, 1], np.int64)
TARGET, NUMBER = torch.tensor([2, 0, 6, 1]), torch.tensor([0, 9, 10, 9999])
BATCH = {"target": TARGET, "number": NUMBER}


class Prediction(MovePrediction):
    target, number, outcomes = "target", "number", ()

    def predict(self, batch: Batch) -> tuple[Tensor, ...]:
        return (batch["logits"],)


@pytest.fixture
def task() -> Prediction:
    return Prediction(BoardTrainSection(), COUNTS, 10)


def test_hits_are_counted_by_bins_of_moves(task: Prediction) -> None:
    logits = torch.eye(7)[[2, 1, 6, 1]]
    logits[1, 0] = 0.5
    sums = task.evaluate({"logits": logits, **BATCH})
    assert sums["positions"].tolist() == [2, 1, *[0] * (BINS - 3), 1]
    assert accuracies(sums) == {"top1": 0.75, "top1_most_frequent": 0.25, "top5": 1.0, "top5_most_frequent": 0.5}
    rows = list(task.accuracy_by_bin(sums))
    assert [(first, count) for first, count, _ in rows] == [(0, 2.0), (10, 1.0), (150, 1.0)]
    assert [shares["top1"] for *_, shares in rows] == [0.5, 1.0, 1.0]
    assert accuracies(sums, slice(0, 1))["top1_most_frequent"] == 0.5


def test_the_loss_of_the_frequencies_is_smoothed_by_one(task: Prediction) -> None:
    sums = task.evaluate({"logits": torch.zeros(4, 7), **BATCH})
    expected = -np.log((COUNTS + 1) / (COUNTS + 1).sum())[TARGET].sum()
    assert float(sums["surprise"]) == pytest.approx(expected, rel=1e-5)
    assert float(sums["policy_loss"]) == pytest.approx(4 * np.log(7), rel=1e-5)


def test_the_baseline_is_stored_with_the_model(task: Prediction) -> None:
    loaded = Prediction(BoardTrainSection(), np.zeros_like(COUNTS), 10)
    loaded.load_state_dict(task.state_dict())
    logits = torch.zeros(4, 7)
    for name, value in task.evaluate({"logits": logits, **BATCH}).items():
        assert torch.equal(loaded.evaluate({"logits": logits, **BATCH})[name], value), name
