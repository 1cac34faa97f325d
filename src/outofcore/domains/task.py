"""What a domain's model offers to training: a loss that adds up, figures that add up, a summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from outofcore.domains.reading import Reading

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

    def micro_batches(self, batch: Batch, size: int) -> Iterator[Batch]:
        """Cut a batch into pieces whose losses add up to the loss of the whole.

        By default along the first axis of every tensor. A task whose loss compares the samples of a batch with each
        other must say here where a batch may be cut, or give it whole.

        Parameters
        ----------
        batch
            What the loader gave.
        size
            Most samples that may pass through the model at a time; 0 for the whole batch.
        """
        count = len(next(iter(batch.values())))
        if size <= 0 or count <= size:
            yield batch
            return
        for start in range(0, count, size):
            yield {name: tensor[start : start + size] for name, tensor in batch.items()}

    def readings(self, reading: Reading, device: torch.device) -> tuple[Reading, Reading]:
        """The readings for training and for validation, of the one that the domain gives.

        By default the same for both. A domain that augments gives the second without, and one that can widen its
        tensors on an accelerator gives narrow ones for such a device.
        """
        del device
        return reading, reading

    def loader_options(self) -> dict[str, Any]:
        """Further keyword arguments for the loaders of both splits (the window of a sample, the part of the store)."""
        return {}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """Tables for ``dvc plots``: file stem -> rows, from the sums over the whole validation split."""
        del sums
        return {}

    def pictures(self) -> dict[str, bytes]:
        """What the trained model looks for, where that can be seen: file stem -> PNG, shown beside the tables."""
        return {}

    def works(self) -> dict[str, str]:
        """What the trained model makes, where that can be read: file stem -> text, kept beside the model."""
        return {}

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        return next(self.parameters()).device
