"""Losses that pull together games of one player and push apart those of others."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

TEMPERATURE = 0.1


def ge2e(games: Tensor, player: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Generalised end-to-end loss (Wan et al. 2018), softmax form.

    Each game should be closest to the mean of its player's other games among the means of all players. ``games`` are
    unit vectors (games, dimensions), ``player`` is (games,) int64; ``scale`` (positive) and ``shift`` of the cosines
    are learnt. Returns the sum over games of players with at least two games, and their number.
    """
    _, group, count = torch.unique(player, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(count), games.shape[1], device=games.device).index_add(0, group, games)
    likeness = games @ functional.normalize(sums, dim=1).T
    others = functional.normalize(sums[group] - games, dim=1)
    own = functional.one_hot(group, len(count)).bool()
    likeness = torch.where(own, (games * others).sum(1, keepdim=True), likeness)
    counted = count[group] > 1
    logits = scale * likeness + shift
    return functional.cross_entropy(logits[counted], group[counted], reduction="sum"), counted.sum()


def supcon(games: Tensor, player: Tensor) -> tuple[Tensor, Tensor]:
    """Supervised contrastive loss (Khosla et al. 2020, the sum outside the logarithm); see :func:`ge2e`."""
    self_ = torch.eye(len(games), dtype=torch.bool, device=games.device)
    likeness = (games @ games.T / TEMPERATURE).masked_fill(self_, torch.finfo(games.dtype).min)
    logs = functional.log_softmax(likeness, dim=1)
    positive = (player[:, None] == player[None]) & ~self_
    number = positive.sum(1)
    counted = number > 0
    means = logs.masked_fill(~positive, 0.0).sum(1)[counted] / number[counted]
    return -means.sum(), counted.sum()
