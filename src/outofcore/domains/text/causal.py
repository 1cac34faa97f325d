"""Batches of text under the names of Hugging Face models, and as variable-length attention takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from outofcore.domains.text.cross_entropy import IGNORED
from outofcore.errors import ParamsError


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
