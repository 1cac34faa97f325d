"""Stored tokens to inputs and targets, with positions and segments by document, under our names and those of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import default_collate

from outofcore.domains.reading import Draws
from outofcore.domains.text.network import IGNORED
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.schema import separator_of
from outofcore.errors import ParamsError
from outofcore.system.recycling import Recycler

SEQUENCE = "sequence"
"""The column that counts documents."""


def make_reading(attributes: Mapping[str, Any], section: TextSection) -> TextReading:
    """The reading of a store or stream; raises ParamsError to separate documents that nothing separates."""
    end, tensors = separator_of(attributes), section.tensors
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
        wide = self.memory.empty(rows["tokens"].shape, np.dtype(np.int64))
        wide[...] = rows["tokens"]
        tokens = torch.from_numpy(wide)
        valid, sequence = (torch.from_numpy(rows[name]) if name in rows else None for name in ("valid", SEQUENCE))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        if valid is not None:
            targets = torch.where(valid[:, 1:], targets, IGNORED)
        if self.end is None and not self.columns:
            return {"inputs": inputs, "targets": targets}
        opens, follows = openings(inputs, self.end, valid, sequence)
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


def causal_lm(batch: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]], *, packed: bool = False) -> dict[str, Any]:
    """Give a batch of text the names that Hugging Face's causal language models take.

    ::

        for batch in outofcore.loader("text.zarr", "train", 16, tensors=outofcore.reading("text.zarr", seq_len=512)):
            loss = model(**outofcore.causal_lm(batch)).loss

    A window has ``seq_len`` tokens, what a model of this context takes, and ``seq_len`` targets. Those models shift
    ``labels`` themselves, and so lose a window's last target; they take the targets as ``shift_labels`` instead.

    Parameters
    ----------
    batch
        ``inputs`` and ``targets`` (batch, seq_len) int64, of a loader or a stream; ``positions`` where documents are
        kept apart (``reset_at_documents: true``). Or a list of samples, as a ``DataLoader`` passes them to its
        ``collate_fn``, the Trainer of Hugging Face to its ``data_collator``.
    packed
        All windows as one row for variable-length attention, such as ``attn_implementation="flash_attention_2"`` or
        ``flash_attn_varlen_func``: a sequence is a document, or the part of it in a window.

    Returns
    -------
    dict
        ``input_ids``, ``labels`` (the same, for models that shift them) and ``shift_labels`` (the targets), each
        (batch, seq_len) int64; ``attention_mask`` (batch, seq_len) int64, all ones, or ``position_ids`` instead where
        documents are kept apart, as no mask of this shape could tell them from each other. With ``packed`` all have
        the shape (1, tokens), a window's first label is -100, ``position_ids`` is always there, ``cu_seq_lens_q`` and
        ``cu_seq_lens_k`` (sequences + 1,) int32 are where each begins, and ``max_length_q`` and ``max_length_k`` the
        tokens of the longest, an int.

    Raises
    ------
    ParamsError
        If the batch has no ``inputs`` and ``targets``.
    """
    if not isinstance(batch, Mapping):
        batch = dict(default_collate(list(batch)))
    if not {"inputs", "targets"} <= set(batch):
        removed = "" if batch else "; a Trainer needs TrainingArguments(remove_unused_columns=False)"
        raise ParamsError(f"batch: expected the inputs and targets of a text, got {sorted(batch)}{removed}")
    inputs = batch["inputs"]
    named: dict[str, Any] = {
        "input_ids": inputs,
        "labels": torch.cat([inputs[:, :1], batch["targets"][:, :-1]], 1),
        "shift_labels": batch["targets"].contiguous(),
    }
    if "positions" in batch:
        named["position_ids"] = batch["positions"]
    elif packed:
        named["position_ids"] = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)
    else:
        named["attention_mask"] = torch.ones_like(inputs)
    if not packed:
        return named
    named["labels"][:, 0] = IGNORED
    return _packed(named)


def _packed(named: Mapping[str, Tensor]) -> dict[str, Any]:
    row = {name: tensor.reshape(1, -1) for name, tensor in named.items()}
    positions = row["position_ids"][0]
    begins = torch.nonzero(positions == 0).flatten()
    bounds = torch.cat([begins, begins.new_tensor([len(positions)])]).int()
    longest = int(bounds.diff().max())
    return row | {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": longest, "max_length_k": longest}
