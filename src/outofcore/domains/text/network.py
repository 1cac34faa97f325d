"""A GPT: decoder-only transformer with tied embeddings (Radford et al. 2019), of a shape or sized to a target.

Its loss is computed without the full table of scores, the largest part of a small GPT: the forward pass computes the
scores of a few thousand tokens at a time, turns them into loss and gradient, and releases them. Memory is bounded by
the chunk and nothing is computed twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.text.params import TextSection
from outofcore.errors import ParamsError

PRESETS = {"test": 150_000, "small": 1_000_000, "medium": 10_000_000, "large": 100_000_000}
"""Target numbers of parameters, by name."""

IGNORED = -100
"""The target of a token that no loss counts, as in torch and in Hugging Face models."""

CHUNK_SCORES = 1 << 23
"""Scores in memory at a time: 32 MiB as float32."""

_HEAD_WIDTH = 32
_MOST_LAYERS = 48
# Width over layers; small and large models alike learn well around it.
_ASPECT = 40.0
_MOST_EMBEDDING = 0.9


@dataclass(frozen=True)
class NetworkShape:
    """The shape of a network."""

    layers: int
    width: int  # length of a token's vector
    heads: int
    vocabulary: int  # number of ids
    context: int  # longest window

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        block = 12 * self.width**2 + 13 * self.width
        return (self.vocabulary + self.context + 2) * self.width + self.layers * block


def model_size(section: TextSection, vocabulary: int) -> NetworkShape:
    """The network shape that the params ask for."""
    train, context = section.train, section.tensors.seq_len
    if train.layers and train.width:
        return _shape(train.layers, train.width, vocabulary, context, train.heads)
    return choose_size(train.parameters or PRESETS[train.preset], vocabulary, context)


def choose_size(parameters: int, vocabulary: int, context: int) -> NetworkShape:
    """The shape whose number of parameters is closest below a target.

    Of the widths (multiples of 8) and layers within 80 to 100 % of it, the one whose width is closest to 40 times its
    layers; otherwise the closest below. Raises ParamsError if the embedding of the vocabulary alone is larger.
    """
    shapes: list[NetworkShape] = []
    for layers in range(1, _MOST_LAYERS + 1):
        width = 8
        while (size := _shape(layers, width, vocabulary, context)).parameters <= parameters:
            shapes.append(size)
            width += 8
    if not shapes:
        least = _shape(1, 8, vocabulary, context).parameters
        raise ParamsError(
            f"text.train: {parameters:,} parameters are too few for {vocabulary:,} ids and windows of {context:,}; "
            f"the least is {least:,}: set text.train.parameters, a larger preset, or a smaller vocabulary"
        )
    near = [size for size in shapes if size.parameters >= 0.8 * parameters]
    if not near:
        return max(shapes, key=lambda size: size.parameters)
    return min(near, key=lambda size: (_oddity(size), -size.parameters))


def size_doubt(size: NetworkShape) -> str | None:
    """Why a size makes no sense: nearly all of it is the embedding of the vocabulary."""
    share = size.vocabulary * size.width / size.parameters
    if share < _MOST_EMBEDDING:
        return None
    return (
        f"text.train: {share:.0%} of {size.parameters:,} parameters embed {size.vocabulary:,} ids at a width of "
        f"{size.width}, which leaves little for layers ({size.layers}); choose a larger model, or a smaller vocabulary"
    )


def _shape(layers: int, width: int, vocabulary: int, context: int, heads: int | None = None) -> NetworkShape:
    heads = heads or max(1, round(width / _HEAD_WIDTH))
    while width % heads:
        heads -= 1
    return NetworkShape(layers, width, heads, vocabulary, context)


def _oddity(size: NetworkShape) -> float:
    ratio = size.width / size.layers / _ASPECT
    return max(ratio, 1 / ratio)


class _DecoderBlock(nn.Module):
    def __init__(self, size: NetworkShape, dropout: float) -> None:
        super().__init__()
        self.heads = size.heads
        self.dropout = nn.Dropout(dropout)
        self.norm_attention = nn.LayerNorm(size.width)
        self.queries_keys_values = nn.Linear(size.width, 3 * size.width)
        self.projection = nn.Linear(size.width, size.width)
        self.norm_mlp = nn.LayerNorm(size.width)
        self.widen = nn.Linear(size.width, 4 * size.width)
        self.narrow = nn.Linear(4 * size.width, size.width)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        hidden = hidden + self._attend(self.norm_attention(hidden), mask)
        widened = functional.gelu(self.widen(self.norm_mlp(hidden)), approximate="tanh")
        mlp: Tensor = self.dropout(self.narrow(widened))
        return hidden + mlp

    def _attend(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = hidden.shape
        split = self.queries_keys_values(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, mask, self.dropout.p if self.training else 0.0, is_causal=mask is None
        )
        projected: Tensor = self.dropout(self.projection(mixed.transpose(1, 2).reshape(batch, length, width)))
        return projected


class Network(nn.Module):
    """Ids of a window to what comes next."""

    def __init__(self, size: NetworkShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_DecoderBlock(size, dropout) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                # Residual contributions are scaled down by their number.
                last = name.endswith(("projection.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * size.layers) ** 0.5 if last else 0.02)

    def forward(self, inputs: Tensor, positions: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The last hidden state of each token, (batch, length, width).

        ``inputs`` (batch, length) int64 ids; ``positions`` (batch, length) in the document, None for the place in the
        window; ``segments`` (batch, length) document numbers that attention does not cross, None for no limit.
        """
        if positions is None:
            positions = torch.arange(inputs.shape[1], device=inputs.device)
        mask = None
        if segments is not None:
            alike = segments[:, None, :, None] == segments[:, None, None, :]
            mask = alike & torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool, device=inputs.device).tril()
        hidden = self.dropout(self.tokens(inputs) + self.places(positions))
        for block in self.blocks:
            hidden = block(hidden, mask)
        last: Tensor = self.norm(hidden)
        return last


def logits(network: Any, hidden: Tensor) -> Tensor:
    """Scores of all ids after each token, float32, (..., vocabulary), by the vectors of the tokens."""
    return functional.linear(hidden, network.tokens.weight).float()


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
