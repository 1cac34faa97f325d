"""Stored tokens -> inputs and targets, with positions and segments that begin again where a document does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outofcore.domains.reading import Draws
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.schema import tokenizer_of
from outofcore.errors import ParamsError


def make_reading(attributes: Mapping[str, Any], section: TextSection) -> TextReading:
    """The reading of a store, or a stream, with these attributes.

    Raises
    ------
    ParamsError
        If documents are to be told apart and nothing ends them.
    """
    tokenizer = tokenizer_of(attributes)
    mask = int(np.iinfo(tokenizer.dtype).max)
    if not section.tensors.reset_at_documents:
        return TextReading(mask=mask)
    if tokenizer.end_id is None:
        message = (
            "text.tensors.reset_at_documents: documents are told apart by the token that ends them, and "
            "text.source.end_of_document is null"
        )
        raise ParamsError(message)
    return TextReading(tokenizer.end_id, mask)


@dataclass(frozen=True)
class TextReading:
    """Windows of tokens as tensors.

    Attributes
    ----------
    end
        Id of the token that ends a document, where positions and attention are to begin again after it; else None.
    mask
        Bits of a stored id: 0xFFFF or 0xFFFFFFFF.
    """

    end: int | None = None
    mask: int = 0xFFFF

    fields: ClassVar[tuple[str, ...]] = ("tokens",)

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        """Turn windows into tensors.

        Parameters
        ----------
        rows
            ``tokens`` (batch, seq_len + 1) uint16 or uint32.
        draws
            Not used: which windows there are is the loader's choice.

        Returns
        -------
        dict
            ``inputs`` and ``targets`` (batch, seq_len) int64, the targets one token on; where documents are told apart
            also ``positions`` (batch, seq_len), tokens since the document or the window began, and ``segments`` (batch,
            seq_len), documents that ended in the window before, both int64.
        """
        del draws
        return self._shifted(torch.from_numpy(rows["tokens"].astype(np.int64)))

    def on_device(self, rows: Mapping[str, Tensor], draws: Draws) -> dict[str, Tensor]:
        """The same from tokens on a device, where unsigned integers lie as signed ones of the same bits."""
        del draws
        return self._shifted(rows["tokens"].long() & self.mask)

    def _shifted(self, tokens: Tensor) -> dict[str, Tensor]:
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        batch = {"inputs": inputs, "targets": targets}
        if self.end is not None:
            batch["positions"], batch["segments"] = places(inputs, self.end)
        return batch


def places(inputs: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """Where each token stands in its document.

    Parameters
    ----------
    inputs
        Ids, (batch, length).
    end
        The id that ends a document; it belongs to the document that it ends.

    Returns
    -------
    tuple
        Tokens since the document began in the window, and the number of the document in it, both (batch, length) int64.
    """
    after_end = torch.zeros_like(inputs)
    after_end[:, 1:] = inputs[:, :-1] == end
    index = torch.arange(inputs.shape[1], device=inputs.device)
    begin = (after_end * index).cummax(1).values
    return index - begin, after_end.cumsum(1)
