"""How stored rows become tensors: what loading asks of a domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Draws = npt.NDArray[np.uint64]
"""A random word for each sample of a batch, by its place in the epoch."""


class Reading(Protocol):
    """How stored rows become tensors; made by :meth:`outofcore.domains.domain.Domain.reading`.

    Attributes
    ----------
    fields
        Row fields that it needs; no other is read.
    """

    @property
    def fields(self) -> tuple[str, ...]:
        """Row fields that it needs."""
        ...

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, torch.Tensor]:
        """Turn the rows of some samples into tensors, whose first axis is the sample.

        A sample's tensors depend on its rows and its random word alone, not on what it is read together with: batches
        are the same however many are made in one go, on any number of ranks.

        Parameters
        ----------
        rows
            Arrays (samples, ...) by field, or (samples, window, ...) where samples are windows.
        draws
            (samples,) random words, the source of every random choice (augmentation).
        """
        ...
