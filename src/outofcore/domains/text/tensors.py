"""Stored tokens to inputs and targets, with positions and segments that restart with each document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outofcore.domains.reading import Draws
from outofcore.domains.text.cross_entropy import IGNORED
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.schema import ids_of
from outofcore.errors import ParamsError
from outofcore.system.recycling import Recycler


def make_reading(attributes: Mapping[str, Any], section: TextSection) -> TextReading:
    """The reading of a store or stream; raises ParamsError to separate documents that have no end token."""
    dtype, end = ids_of(attributes)
    mask = int(np.iinfo(dtype).max)
    tensors = section.tensors
    across = tensors.across_documents
    mode = across if isinstance(across, str) else "pack" if across else "never"
    # Inputs and targets share all but one token.
    window = {"length": tensors.seq_len + 1, "stride": tensors.step, "mode": mode}
    if not tensors.reset_at_documents:
        return TextReading(mask=mask, window=window, phase=tensors.phase)
    if end is None:
        message = (
            "text.tensors.reset_at_documents: documents are separated by the token that ends them, and there is none: "
            "text.source.end_of_document is null, or none was given to open_tokens"
        )
        raise ParamsError(message)
    return TextReading(end, mask, window, phase=tensors.phase)


@dataclass(frozen=True)
class TextReading:
    """Windows of tokens as tensors."""

    end: int | None = None  # id after which positions and attention restart; None if they do not
    mask: int = 0xFFFF  # bits of a stored id: 0xFFFF or 0xFFFFFFFF
    window: Mapping[str, Any] | None = None
    phase: bool = False  # whether training shifts the windows from epoch to epoch
    memory: Recycler = field(default_factory=Recycler, compare=False, repr=False)

    fields: ClassVar[tuple[str, ...]] = ("tokens",)

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        """Turn windows into tensors; ``draws`` is unused, as the loader chooses the windows.

        ``rows`` hold ``tokens`` (batch, seq_len + 1) uint16 or uint32; targets that are not ``valid``, if that is given
        (of packed documents), are -100. Returns ``inputs`` and ``targets`` (batch, seq_len) int64, targets one token
        later; if documents are separated also int64 ``positions`` (tokens since the previous document's end or the
        window's start) and ``segments`` (documents ended in the window so far).
        """
        del draws
        tokens = self.memory.empty(rows["tokens"].shape, np.dtype(np.int64))
        tokens[...] = rows["tokens"]
        valid = rows.get("valid")
        return self._shifted(torch.from_numpy(tokens), None if valid is None else torch.from_numpy(valid))

    def on_device(self, rows: Mapping[str, Tensor], draws: Draws) -> dict[str, Tensor]:
        """The same from tokens on a device, with unsigned integers as signed ones of the same bits."""
        del draws
        return self._shifted(rows["tokens"].long() & self.mask, rows.get("valid"))

    def _shifted(self, tokens: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        if valid is not None:
            targets = torch.where(valid[:, 1:], targets, IGNORED)
        batch = {"inputs": inputs, "targets": targets}
        if self.end is not None:
            batch["positions"], batch["segments"] = places(inputs, self.end)
        return batch


def places(inputs: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """Position of each token in its document or window, and the document's number, (batch, length) int64.

    The id ``end`` as an input opens the next document, since its target is that document's first token; as a target it
    belongs to the document that it ends.
    """
    begins = (inputs == end).long()
    index = torch.arange(inputs.shape[1], device=inputs.device)
    begin = (begins * index).cummax(1).values
    return index - begin, begins.cumsum(1)
