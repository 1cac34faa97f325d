"""The interface of a domain's model for training: additive losses and metrics, and their summary."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from outofcore.domains.reading import Reading
from outofcore.errors import ParamsError

Batch = dict[str, Tensor]
"""A batch of a loader: tensors by name, each with one entry per sample along the first axis."""


def doubles(values: Tensor) -> Tensor:
    """The same numbers as float64 for sums, on the CPU if they are on MPS, which lacks float64."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def note(message: str) -> None:
    """Say something about a task in one line, on the first of the ranks that are connected."""
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_rank()):
        sys.stderr.write(f"note: {message}\n")


class Task(nn.Module, ABC):
    """A model with its loss and its metrics.

    Losses and metrics are sums with their counts, never means: they add up exactly over micro-batches, ranks and
    validation batches of unequal size.

    Attributes
    ----------
    columns
        Columns of the sequences that validation batches also have, for :meth:`evaluate` to count by.
    shares
        How the names of figures begin that are shares, from 0 to 1; their intervals end there.
    partly_used
        Whether a batch may leave some parameters unused, as one recording leaves the readouts of the others.
    tally
        Counts of the stream that is evaluated, where the domain streams.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    shares: ClassVar[tuple[str, ...]] = ()
    partly_used: bool = False
    tally: Any = None

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum of the loss over the items of the batch, and their number (positions, tokens, unmasked responses)."""

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss, as modules of torch around the task call it."""
        return self.loss(batch)

    @abstractmethod
    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Sums (scalars or vectors) over a validation batch, to be added to those of the others."""

    @abstractmethod
    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Quality metrics, each with its baseline, from the sums over the whole validation split."""

    def micro_batches(self, batch: Batch, size: int) -> Iterator[Batch]:
        """Cut a batch into micro-batches whose losses add up to that of the batch.

        By default along the first axis of every tensor. A task whose loss compares the samples of a batch with each
        other must override this to choose the cuts, or to return it whole.

        Parameters
        ----------
        batch
            From the loader.
        size
            Most samples that may pass through the model at a time; 0 for the whole batch.
        """
        count = len(next(iter(batch.values())))
        if size <= 0 or count <= size:
            yield batch
            return
        for start in range(0, count, size):
            yield {name: tensor[start : start + size] for name, tensor in batch.items()}

    def reading_for(self, device: torch.device, reading: Reading) -> Reading:
        """The domain's reading or a variant for this device, such as packed tensors widened on an accelerator."""
        del device
        return reading

    def loader_options(self) -> dict[str, Any]:
        """Further keyword arguments for the loaders of both splits (window, part), and ``shuffle`` for training."""
        return {}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """Tables for ``dvc plots`` and the report: file stem -> rows, from the sums over the whole validation split.

        The report draws the other columns of numbers by the first one, a line for each word in a column of words; of
        them it leaves out whole numbers beyond 1, which count the items of a row. Baselines end as for figures.
        """
        del sums
        return {}

    def pictures(self) -> dict[str, bytes]:
        """Pictures of what the trained model has learnt, if any: file stem -> PNG, shown with the tables."""
        return {}

    def works(self) -> dict[str, str]:
        """Generated output of the trained model, if any: file stem -> text, stored with the model."""
        return {}

    def require_vectors(self) -> None:
        """Raise ParamsError unless predictions have the ``vector`` that files are compared by; by default they don't.

        A task whose rows have one overrides this to return.
        """
        raise ParamsError("match: this model gives no vectors; train one with go.train.task: style")

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device


def vectors_of(predictions: Iterable[Mapping[str, Any]]) -> tuple[list[str], Tensor]:
    """Names of files, and their vectors (files, width), of the predictions of a task that gives them."""
    files, vectors = zip(*((row["file"], torch.tensor(row["vector"])) for row in predictions), strict=True)
    return list(files), torch.stack(vectors)


def nearest(
    queries: tuple[list[str], Tensor], candidates: tuple[list[str], Tensor], best: int
) -> Iterator[dict[str, Any]]:
    """The candidates with the highest cosine to each query, around the mean of the candidates, a row for each."""
    mean = candidates[1].mean(0)
    asked, known = (functional.normalize(vectors - mean, dim=1) for _, vectors in (queries, candidates))
    for query, vector in zip(queries[0], asked, strict=True):
        ranked = (known @ vector).sort(descending=True, stable=True)
        pairs = zip(ranked.indices[:best].tolist(), ranked.values[:best].tolist(), strict=True)
        for place, (number, similarity) in enumerate(pairs, 1):
            yield {"query": query, "place": place, "candidate": candidates[0][number], "similarity": similarity}
