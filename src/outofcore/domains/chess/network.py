"""A residual network over the board with a policy and a value head."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.boards.tower import outcome_head, residual_blocks
from outofcore.domains.chess.moves import Vocabulary
from outofcore.domains.chess.widening import COUNTS, HISTORY_PLANES

ELO_PER_BIN, ELO_BINS = 100, 40
"""Ratings are told apart by the hundred, as for Maia (McIlroy-Young et al. 2020); the first bin is of unknown Elo."""


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
