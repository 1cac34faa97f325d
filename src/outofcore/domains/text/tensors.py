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

SEQUENCE = "sequence"
"""The column that counts documents."""


def make_reading(attributes: Mapping[str, Any], section: TextSection) -> TextReading:
    """The reading of a store or stream; raises ParamsError to separate documents that nothing separates."""
    _, end = ids_of(attributes)
    tensors = section.tensors
    across = tensors.across_documents
    mode = across if isinstance(across, str) else "pack" if across else "never"
    # Inputs and targets share all but one token.
    window = {"length": tensors.seq_len + 1, "stride": tensors.step, "mode": mode, "phase": True}
    if not tensors.reset_at_documents:
        return TextReading(window=window)
    counted = bool(attributes.get("indexed", end is None and section.mode == "store"))
    if end is None and not counted:
        raise ParamsError(
            "text.tensors.reset_at_documents: documents are separated by the token that ends them, and there is none: "
            "text.source.end_of_document is null, or none was given to open_tokens, and no index names them"
        )
    return TextReading(end, window, columns=(SEQUENCE,) if counted else ())


@dataclass(frozen=True)
class TextReading:
    """Windows of tokens as tensors."""

    end: int | None = None  # id after which positions and attention restart; without columns either, they do not
    window: Mapping[str, Any] | None = None
    columns: tuple[str, ...] = ()  # of documents: their number, where no id tells them apart
    memory: Recycler = field(default_factory=Recycler, compare=False, repr=False)

    fields: ClassVar[tuple[str, ...]] = ("tokens",)

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        """Turn windows into tensors; ``draws`` is unused, as the loader chooses the windows.

        ``rows`` hold ``tokens`` (batch, seq_len + 1) uint16 or uint32; targets that are not ``valid``, if that is given
        (of packed documents), are -100; ``sequence`` (batch, seq_len + 1) int64 is the document of each token, if
        ``columns`` asks for it. Returns ``inputs`` and ``targets`` (batch, seq_len) int64, targets one token
        later; if documents are separated also int64 ``positions`` (tokens since the previous document's end or the
        window's start) and ``segments`` (documents ended in the window so far).
        """
        del draws
        tokens = self.memory.empty(rows["tokens"].shape, np.dtype(np.int64))
        tokens[...] = rows["tokens"]
        others = {name: torch.from_numpy(rows[name]) for name in ("valid", SEQUENCE) if name in rows}
        return self._shifted(torch.from_numpy(tokens), others)

    def _shifted(self, tokens: Tensor, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        valid = others.get("valid")
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        if valid is not None:
            targets = torch.where(valid[:, 1:], targets, IGNORED)
        if self.end is None and not self.columns:
            return {"inputs": inputs, "targets": targets}
        opens, follows = openings(inputs, self.end, valid, others.get(SEQUENCE))
        index = torch.arange(inputs.shape[1], device=inputs.device)
        positions = index - (opens * index).cummax(1).values
        targets = targets if follows is None else torch.where(follows, targets, IGNORED)
        return {"inputs": inputs, "targets": targets, "positions": positions, "segments": opens.cumsum(1)}


def openings(
    inputs: Tensor, end: int | None, valid: Tensor | None, sequence: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Which inputs open a document, int64, and which targets may be predicted from their input, all if None.

    ``inputs`` (batch, length); ``valid`` and ``sequence`` (batch, length + 1) or None, as the reading gets them. The id
    ``end`` as an input opens the next document, since its target is that document's first token; as a target it belongs
    to the document that it ends. It opens none that is only the rest of one, nor padding. A document after one
    that has no such end opens with its own first token, which is then no target.
    """
    opens = torch.zeros_like(inputs, dtype=torch.bool) if end is None else inputs == end
    follows = None
    if sequence is not None:
        changes = sequence[:, 1:] != sequence[:, :-1]
        apart = changes & ~opens
        opens = opens & changes
        opens[:, 1:] |= apart[:, :-1]
        follows = ~apart
    if valid is not None:
        parts = valid[:, :-1] & ~valid[:, 1:]  # after these a rest or padding begins
        opens = opens & ~parts
        opens[:, 1:] |= parts[:, :-1]
    return opens.long(), follows
