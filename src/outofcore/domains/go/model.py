"""Tasks trained on a Go store; the network that predicts the next move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.boards.policy import MovePrediction, Outcome
from outofcore.domains.boards.tower import outcome_head, pooled, residual_blocks
from outofcore.domains.go import players
from outofcore.domains.go.params import GoSection, GoTrainSection
from outofcore.domains.go.style import StyleTask
from outofcore.domains.go.tensors import GLOBALS, GoReading, make_reading, planes
from outofcore.domains.own_network import own_network
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.ndarrays import Ints

if TYPE_CHECKING:
    from outofcore.store.reader import Store
    from outofcore.store.schema import Schema

MOVES_PER_BIN = 20
POINTS = 20
"""Unit of scores in the network, in points."""
CURVES = ("top1", "top5", "top1_most_frequent", "top5_most_frequent")

_ROWS_AT_ONCE = 1 << 20


def planned_task(section: GoSection, schemas: Mapping[str, Schema]) -> Task:
    """The task of :func:`make_task` before there is a store."""
    del schemas
    reading, none = make_reading({"params": section.model_dump(mode="json")}, section), np.empty(0, np.int64)
    if section.train.task == "policy":
        return PolicyTask(reading, section.train, np.zeros(reading.frame**2 + 1, np.int64))
    games = players.PlayedGames(none, none.reshape(0, 2), none, none, none, none.astype(np.bool_))
    return _PlannedStyleTask(reading, section.train, games, players.Panel(none, none, none, none.astype(np.bool_)), [])


def make_task(store: Store, section: GoSection, evaluated: Store, split: str) -> Task:
    """The task of ``train.task``, with its baseline measured on the store."""
    reading = make_reading(store.attributes, section)
    if section.train.task == "policy":
        return PolicyTask(reading, section.train, count_moves(store, reading.frame))
    names = players.find_players(store, section.train)
    panel = players.choose_panel(players.read_games(evaluated, split, names))
    baseline = players.identify(players.opening_maps(evaluated, split, panel, reading.frame), panel)
    if not baseline:
        raise ParamsError(
            f"go.train: none of {len(names)} players has two games in the {split} split, one to be known by and one "
            f"to ask with; raise go.splits.{split}"
        )
    return StyleTask(reading, section.train, players.read_games(store, "train", names), panel, baseline)


class _PlannedStyleTask(StyleTask):
    """Without games there is nothing to contrast; the embeddings take nearly all of the memory."""

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self._embed(batch, slice(None)).sum(), torch.tensor(len(batch["move"]))


def count_moves(store: Store, frame: int) -> Ints:
    """Frequency of each point and the pass in the train split; (frame * frame + 1,) int64."""
    counts = np.zeros(frame * frame + 1, np.int64)
    for rows in store.rows("train").blocks(_ROWS_AT_ONCE, "move"):
        counts += np.bincount(rows["move"], minlength=len(counts))
    return counts


class Tower(nn.Module):
    """Planes to features of every point; ``size`` is the number of channels and of residual blocks."""

    def __init__(self, planes: int, frame: int, size: tuple[int, int], numbers: int = 0) -> None:
        super().__init__()
        channels, blocks = size
        self.stem = nn.Conv2d(planes, channels, 3, padding=1)
        self.point = nn.Parameter(torch.zeros(channels, frame, frame))  # position on the board
        self.blocks = residual_blocks(channels, blocks)
        self.numbers = nn.Linear(numbers, channels, bias=False) if numbers else None

    def forward(self, planes: Tensor, numbers: Tensor | None = None) -> Tensor:
        """Planes (batch, planes, frame, frame) of any dtype, numbers (batch, n) -> (batch, channels, frame, frame)."""
        stem = self.stem(planes.to(self.point.dtype)) + self.point
        if self.numbers is not None:
            stem = stem + self.numbers(numbers)[:, :, None, None]
        board: Tensor = self.blocks(torch.relu(stem))
        return board


class PolicyNetwork(nn.Module):
    """Planes to logits of all points and the pass; with ``value``, also to the expected result."""

    def __init__(
        self, planes: int, frame: int, size: tuple[int, int], numbers: int = 0, *, value: bool = False
    ) -> None:
        super().__init__()
        channels, _ = size
        self.tower = Tower(planes, frame, size, numbers)
        self.points = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.ReLU(), nn.Conv2d(channels, 1, 1))
        self.rest = nn.Linear(channels, 1)
        self.value = outcome_head(channels).append(nn.Tanh()) if value else None
        self.score = outcome_head(channels) if value else None

    def forward(self, planes: Tensor, on_board: Tensor | None, numbers: Tensor | None = None) -> tuple[Tensor, ...]:
        """Logits (batch, frame * frame + 1), and values and scores (batch,) if it has them.

        Points outside ``on_board`` get the lowest finite value; scores are in units of 20 points.
        """
        board = self.tower(planes, numbers)
        points = self.points(board).flatten(1)
        if on_board is not None:
            points = points.masked_fill(on_board.flatten(1) == 0, torch.finfo(points.dtype).min)
        logits = torch.cat([points, self.rest(board.mean((2, 3)))], 1)
        if self.value is None or self.score is None:
            return (logits,)
        features = pooled(board)
        return logits, self.value(features)[:, 0], self.score(features)[:, 0]


class PolicyTask(MovePrediction):
    """Predict the next move, over all points and the pass; with ``value``, the result and the score in points too."""

    target, number = "move", "number"
    outcomes = (
        Outcome("value", "value_loss"),
        Outcome("score", "score_error", functional.l1_loss, functional.huber_loss, POINTS),
    )

    def __init__(self, reading: GoReading, section: GoTrainSection, frequencies: Ints) -> None:
        super().__init__(section, frequencies, MOVES_PER_BIN)
        self.reach, self.frame, self.sizes = reading.reach, reading.frame, reading.sizes
        numbers = len(GLOBALS) if reading.section.features == "planes8" else 0
        value, shown, frame = reading.section.value, planes(reading.section), reading.frame
        if ":" in self.settings.network:
            board = (frame, frame)
            inputs = (
                ((shown, *board), torch.uint8),
                (board, torch.uint8) if len(reading.sizes) > 1 else (),
                ((numbers,), torch.float32) if numbers else (),
            )
            outputs = ((frame * frame + 1,), *(((), ()) if value else ()))
            facts = {"planes": shown, "frame": frame, "numbers": numbers, "value": value}
            self.network = own_network(self.settings.network, inputs, lambda _: outputs, **facts)
        else:
            self.network = PolicyNetwork(shown, frame, self.settings.size, numbers, value=value)

    def predict(self, batch: Batch) -> tuple[Tensor, ...]:
        """Logits (batch, frame * frame + 1), and with ``value`` expected results and scores in points (batch,)."""
        outputs = self.network(batch["planes"], batch.get("on_board"), batch.get("globals"))
        logits, *expected = (outputs,) if isinstance(outputs, Tensor) else outputs
        units = (outcome.unit for outcome in self.outcomes)
        return logits.float(), *(output.float() * unit for output, unit in zip(expected, units, strict=False))

    def sums(self, batch: Batch, logits: Tensor, *expected: Tensor) -> dict[str, Tensor]:
        """How many games were won too, and how often the winner is expected to win."""
        sums = super().sums(batch, logits, *expected)
        if expected:
            won = batch["value"].nan_to_num() != 0
            sums |= {"won": won.sum(), "winner": (won & (expected[0].sign() == batch["value"])).sum()}
        return sums

    def further_figures(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """``winner``: the share of positions whose winner is predicted."""
        return {"winner": float(sums["winner"]) / float(sums["won"])} if sums.get("won", 0) > 0 else {}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``accuracy_by_move``: accuracy per twenty moves of the game, with the baseline's."""
        rows: list[dict[str, float | str]] = [
            {"move": float(move), "positions": positions, **{name: shares[name] for name in CURVES}}
            for move, positions, shares in self.accuracy_by_bin(sums)
        ]
        return {"accuracy_by_move": rows}
