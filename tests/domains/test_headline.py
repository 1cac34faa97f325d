from __future__ import annotations

import json
from pathlib import Path

import pytest

from outofcore.domains.chess.model import ChessTask
from outofcore.domains.go.learn.policy import PolicyTask
from outofcore.domains.neural.model import NeuralTask
from outofcore.domains.task import Task
from outofcore.domains.text.model import TextTask

METRICS = Path(__file__).parents[2] / "metrics"


@pytest.mark.parametrize(
    ("name", "task"), [("chess", ChessTask), ("go", PolicyTask), ("text", TextTask), ("neural", NeuralTask)]
)
def test_the_headline_is_of_figures_that_there_are(name: str, task: type[Task]) -> None:
    figures = json.loads((METRICS / name / "train.json").read_text())
    assert 1 <= len(task.headline) <= 5
    assert set(task.headline) <= figures.keys()
