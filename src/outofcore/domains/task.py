"""What a domain's model offers to training: a loss that adds up, figures that add up, a summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

Batch = dict[str, Tensor]


class Task(nn.Module, ABC):
    """A model with its loss and its figures.

    Losses and figures are sums with their counts, never means: they add up exactly over micro-batches, ranks and
    validation batches of unequal size.
    """

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum of the loss over what counts in the batch, and that count (positions, tokens, spikes' bins)."""

    @abstractmethod
    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Sums (scalars or vectors) over a validation batch, to be added to those of the others."""

    @abstractmethod
    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """The quality figures, each beside its baseline, from the sums over the whole validation split."""

    def loader_options(self) -> dict[str, Any]:
        """Keyword arguments for the training loader that this task needs (windows, a balanced sampler)."""
        return {}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """Tables for ``dvc plots``: file stem -> rows, from the sums over the whole validation split."""
        del sums
        return {}

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        return next(self.parameters()).device
