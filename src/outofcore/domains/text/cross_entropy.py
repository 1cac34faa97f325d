"""Cross-entropy over a vocabulary without the full table of scores, the largest part of a small GPT.

The forward pass computes the scores of a few thousand tokens at a time, turns them into loss and gradient, and releases
them; memory is bounded by the chunk and nothing is computed twice.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

IGNORED = -100
"""The target of a token that no loss counts, as in torch and in Hugging Face models."""

CHUNK_SCORES = 1 << 23
"""Scores in memory at a time: 32 MiB as float32."""


def cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Summed cross-entropy of the targets in nats.

    ``hidden`` (tokens, width) float32 or bfloat16; ``weight`` (vocabulary, width): the scores of a token are ``weight @
    hidden``; ``targets`` (tokens,) int64, of which negative ones count nothing.
    """
    loss: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, targets)  # type: ignore[no-untyped-call]
    return loss


def token_losses(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each target in nats, (tokens,) float32, without gradients."""
    with torch.no_grad():
        parts = [
            functional.cross_entropy(_scores(part, weight), aims, reduction="none", ignore_index=IGNORED)
            for part, aims in _chunks(hidden, weight, targets)
        ]
    return torch.cat(parts)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        ctx.dtypes = hidden.dtype, weight.dtype
        loss = torch.zeros((), device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32)
        start = 0
        for part, aims in _chunks(hidden, weight, targets):
            scores = _scores(part, weight)
            ignored, places = (aims < 0)[:, None], aims.clamp(min=0)[:, None]
            chosen = scores.gather(1, places)
            total = scores.logsumexp(1, keepdim=True)
            loss += (total - chosen).masked_fill(ignored, 0).sum()
            # The gradient of the scores: probabilities minus one at the target, or 0.
            scores.sub_(total.masked_fill(ignored, math.inf)).exp_()
            scores.scatter_add_(1, places, ignored.to(scores.dtype) - 1)
            gradient = scores.to(part.dtype)
            hidden_gradient[start : start + len(aims)] = gradient @ weight.to(part.dtype)
            weight_gradient += (gradient.T @ part).float()
            start += len(aims)
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        hidden_dtype, weight_dtype = ctx.dtypes
        (outer,) = gradients
        return (hidden_gradient * outer).to(hidden_dtype), (weight_gradient * outer).to(weight_dtype), None


def _scores(part: Tensor, weight: Tensor) -> Tensor:
    return functional.linear(part, weight.to(part.dtype)).float()


def _chunks(hidden: Tensor, weight: Tensor, targets: Tensor) -> zip[tuple[Tensor, Tensor]]:
    rows = max(1, CHUNK_SCORES // len(weight))
    return zip(torch.split(hidden, rows), torch.split(targets, rows), strict=True)
