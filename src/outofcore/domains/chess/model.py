"""The chess task, predicting the move played and the result, and its network; reported with baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.boards.policy import BINS, MovePrediction, Outcome, accuracies
from outofcore.domains.boards.tower import outcome_head, residual_blocks
from outofcore.domains.chess.codes import CHESS960
from outofcore.domains.chess.moves import Vocabulary, flip_code, vocabulary
from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.squares import as_words
from outofcore.domains.chess.tensors import ChessReading, value_fields, values
from outofcore.domains.chess.widening import COUNTS, HISTORY_PLANES, classify
from outofcore.domains.own_network import own_network
from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch
from outofcore.ndarrays import Ints

if TYPE_CHECKING:
    from outofcore.store.reader import Store
    from outofcore.store.schema import Schema

PLIES_PER_BIN = 10
PHASES = {"opening": slice(0, 2), "middlegame": slice(2, 6), "endgame": slice(6, BINS)}
"""Half-moves 0 to 19, 20 to 59, and from 60 on, as bins of 10; the last bin is open."""

ELO_PER_BIN, ELO_BINS = 100, 40
"""Ratings are told apart by the hundred, as for Maia (McIlroy-Young et al. 2020); the first bin is of unknown Elo."""

_ROWS_AT_ONCE = 1 << 18


def measure_baseline(store: Store, section: TensorSection) -> tuple[Ints, float]:
    """Count of each class of move, (classes,), and mean of the known values, of the train split as tensors give them.

    They predict without looking at the position.
    """
    moves = vocabulary(section.targets)
    table = store.rows("train")
    counts = np.zeros(moves.size, np.int64)
    total, known = 0.0, 0
    chess960 = _has_chess960(store)
    fields = ("move", "state", *value_fields(section), *(("squares",) if chess960 else ()))
    for rows in table.blocks(_ROWS_AT_ONCE, *fields):
        move, state, value = rows["move"], rows["state"], values(rows, section).astype(np.float64)
        black = state[:, 0] if section.view == "mover" else np.zeros(len(move), np.uint8)
        flips = black * np.uint16(flip_code(0))
        if chess960:
            targets = np.empty(len(move), np.int64)
            classify(as_words(rows["squares"]), state, move, flips, moves.index, targets)
        else:
            targets = moves.index[move ^ flips]
        counts += np.bincount(targets, minlength=moves.size)
        total += float(np.nansum(value * (1 - 2 * black.astype(np.float64))))
        known += int(np.count_nonzero(~np.isnan(value)))
    return counts, total / max(known, 1)


def _has_chess960(store: Store) -> bool:
    """Whether the train split has a Chess960 game."""
    games = store.sequences("train")
    return "variant" in games.fields and any(
        CHESS960 in block["variant"] for block in games.blocks(_ROWS_AT_ONCE, "variant")
    )


def make_task(store: Store, section: Any, evaluated: Store, split: str) -> ChessTask:
    """The task of a store, from the ``tensors`` and ``train`` settings."""
    del evaluated, split
    return ChessTask(section.tensors, section.train, *measure_baseline(store, section.tensors))


def planned_task(section: Any, schemas: Mapping[str, Schema]) -> ChessTask:
    """The task before there is a store: no move was played."""
    del schemas
    return ChessTask(section.tensors, section.train, np.zeros(vocabulary(section.tensors.targets).size, np.int64), 0.0)


class PolicyHead(nn.Module):
    """Logits of moves: match of departure and arrival squares, a term per promotion, the lowest off the board."""

    def __init__(self, channels: int, vocabulary: Vocabulary) -> None:
        super().__init__()
        width = max(channels // 2, 16)
        self.departure = nn.Linear(channels, width)
        self.arrival = nn.Linear(channels, width)
        self.promotion = nn.Linear(channels, 5)
        self._scale = width**-0.5
        codes = np.maximum(vocabulary.codes, 0)
        start, end, piece = codes & 63, codes >> 6 & 63, codes >> 12
        self.register_buffer("pairs", torch.from_numpy((start * 64 + end).astype(np.int64)), persistent=False)
        self.register_buffer("pieces", torch.from_numpy((end * 5 + piece).astype(np.int64)), persistent=False)
        off_board = vocabulary.codes < 0
        self.register_buffer("off_board", torch.from_numpy(off_board) if off_board.any() else None, persistent=False)
        self.pairs: Tensor
        self.pieces: Tensor
        self.off_board: Tensor | None

    def forward(self, squares: Tensor) -> Tensor:
        """Squares (batch, 64, channels) -> logits (batch, classes)."""
        fit: Tensor = (self.departure(squares) * self._scale) @ self.arrival(squares).transpose(1, 2)
        promotion: Tensor = self.promotion(squares)
        logits = fit.flatten(1).index_select(1, self.pairs) + promotion.flatten(1).index_select(1, self.pieces)
        if self.off_board is None:
            return logits
        return logits.masked_fill(self.off_board, torch.finfo(logits.dtype).min)


def elo_bins(elo: Tensor) -> Tensor:
    """Bins of 100 Elo, int64, up to 39; 0 is that of unknown Elo."""
    return (elo.long() // ELO_PER_BIN).clamp(0, ELO_BINS - 1)


class Ratings(nn.Module):
    """A vector for the Elo of the mover and one for that of the opponent, by bin, as in Maia-2 (Tang et al. 2024).

    They begin as zeros: a rating that training never meets changes nothing.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.zeros(2 * ELO_BINS, channels))

    def forward(self, elo: Tensor) -> Tensor:
        """Elo (batch, 2) -> their sum (batch, channels)."""
        bins = elo_bins(elo)
        return functional.embedding(bins[:, 0], self.vectors) + functional.embedding(
            bins[:, 1] + ELO_BINS, self.vectors
        )


class Network(nn.Module):
    """Planes of a board to logits of moves and an expected result; with ``elo``, of players so rated."""

    def __init__(self, planes: int, size: tuple[int, int], vocabulary: Vocabulary, *, elo: bool = False) -> None:
        super().__init__()
        channels, blocks = size
        self.stem = nn.Conv2d(planes, channels, 3, padding=1)
        self.square = nn.Parameter(torch.zeros(channels, 8, 8))
        scale = torch.ones(planes, 1, 1).index_fill(0, torch.tensor(COUNTS), 0.01) if planes == HISTORY_PLANES else None
        self.register_buffer("scale", scale, persistent=False)
        self.scale: Tensor | None
        self.ratings = Ratings(channels) if elo else None
        self.tower = residual_blocks(channels, blocks)
        self.policy = PolicyHead(channels, vocabulary)
        self.value = outcome_head(channels).append(nn.Tanh())

    def forward(self, planes: Tensor, elo: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Planes (batch, planes, 8, 8) of any dtype -> logits (batch, classes) and values (batch,) from -1 to 1.

        ``elo`` (batch, 2) is that of the mover and the opponent, 0 if unknown.
        """
        planes = planes.to(self.square.dtype)
        board = self.stem(planes if self.scale is None else planes * self.scale) + self.square
        if self.ratings is not None:
            board = board + self.ratings(elo)[:, :, None, None]
        board = self.tower(torch.relu(board))
        squares = board.flatten(2).transpose(1, 2)
        value = self.value(torch.cat([squares.mean(1), squares.amax(1)], 1))
        return self.policy(squares), value[:, 0]


class ChessTask(MovePrediction):
    """Policy and value of a position; with the mask of legal moves in the tensors, others get no probability."""

    columns = ("white_elo", "black_elo")
    target, number = "target", "ply"
    outcomes = (Outcome("value", "value_loss"),)

    def __init__(self, section: TensorSection, train: BoardTrainSection, frequencies: Ints, value_mean: float) -> None:
        super().__init__(train, frequencies, PLIES_PER_BIN, value_mean)
        self.section = section
        moves, planes = vocabulary(section.targets), section.planes
        if ":" in self.settings.network:
            inputs = (((planes, 8, 8), torch.uint8), ((2,), torch.int32) if section.elo else ())
            facts = {"planes": planes, "classes": moves.size, "elo": section.elo}
            self.network = own_network(self.settings.network, inputs, lambda _: ((moves.size,), ()), **facts)
        else:
            self.network = Network(planes, self.settings.size, moves, elo=section.elo)

    def reading_for(self, device: torch.device, reading: Reading) -> Reading:
        """The side to move in addition."""
        del device
        return replace(reading, side=True) if isinstance(reading, ChessReading) else reading

    def predict(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of moves (batch, classes) float32 and expected results (batch,) float32."""
        logits, value = self.network(batch["planes"], batch.get("elo"))
        logits = logits.float()
        if "legal" in batch:
            logits = logits.masked_fill(~batch["legal"], torch.finfo(logits.dtype).min)
        return logits, value.float()

    def sums(self, batch: Batch, logits: Tensor, *expected: Tensor) -> dict[str, Tensor]:
        """Counts in bins of Elo (40,) too, if the batch has ``white_elo``, ``black_elo`` and ``to_move``."""
        sums, target = super().sums(batch, logits, *expected), batch["target"]
        if {*self.columns, "to_move"} <= batch.keys():
            bins = elo_bins(torch.where(batch["to_move"] == 0, batch["white_elo"], batch["black_elo"]))
            hits = {
                "elo": torch.ones_like(target, dtype=torch.bool),
                "elo_top1": logits.argmax(1) == target,
                "elo_frequent1": target == self.frequent[0],
            }
            sums |= {name: torch.bincount(bins[hit], minlength=ELO_BINS) for name, hit in hits.items()}
        return sums

    def further_figures(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracies by phase of the game."""
        figures = {}
        for phase, bins in PHASES.items():
            if sums["positions"][bins].sum() > 0:
                shares = accuracies(sums, bins)
                figures[f"top1_{phase}"] = shares["top1"]
                figures[f"top1_{phase}_most_frequent"] = shares["top1_most_frequent"]
        return figures

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``accuracy_by_ply`` and ``accuracy_by_elo``: per ten half-moves of the game, and per 100 Elo of the mover.

        Each has the baseline's accuracy too. Movers of unknown Elo are left out of the latter.
        """
        rows: list[dict[str, float | str]] = [
            {
                "ply": ply,
                **{name: shares[name] for name in ("top1", "top5", "top1_most_frequent")},
                "positions": int(positions),
            }
            for ply, positions, shares in self.accuracy_by_bin(sums)
        ]
        tables = {"accuracy_by_ply": rows}
        by_elo = list(self._by_elo(sums)) if "elo" in sums else []
        return tables | ({"accuracy_by_elo": by_elo} if by_elo else {})

    def _by_elo(self, sums: Mapping[str, Tensor]) -> Iterator[dict[str, float | str]]:
        for place in range(1, ELO_BINS):
            if positions := float(sums["elo"][place]):
                yield {
                    "elo": place * ELO_PER_BIN,
                    "top1": round(float(sums["elo_top1"][place]) / positions, 6),
                    "top1_most_frequent": round(float(sums["elo_frequent1"][place]) / positions, 6),
                    "positions": int(positions),
                }
