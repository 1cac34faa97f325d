"""The text task: predict the next token, with metrics comparable across tokenizers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outofcore.domains.own_network import own_network
from outofcore.domains.task import Batch, Task, doubles, note
from outofcore.domains.text.network import Network, cross_entropy, logits, model_size, size_doubt, token_losses
from outofcore.domains.text.params import TensorSection, TextSection
from outofcore.domains.text.schema import tokenizer_of
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.store.reader import Store, Table
from outofcore.store.schema import Schema

BINS = 64
"""Most places of the window in the plot of losses by place."""
BLOCK = 1 << 20
"""Documents whose lengths are held at a time."""
SPELT_TOKENS = 1 << 22
"""About as many tokens are compared with the bytes of their documents."""


def make_task(store: Store, section: TextSection, evaluated: Store, split: str) -> TextTask:
    """The task of a store or stream, from the ``tensors`` and ``train`` settings; bits per byte are of one split."""
    if not section.tensors.across_documents:
        _note_unread(store.sequences("train"), section.tensors)
    task = TextTask(tokenizer_of(store.attributes), section)
    task.raw_per_spelt = _raw_per_spelt(task.tokenizer, evaluated, split)
    if isinstance(task.network, Network) and (doubt := size_doubt(task.network.size)):
        note(doubt)
    return task


def _raw_per_spelt(tokenizer: Tokenizer, store: Store, split: str) -> float | None:
    """Bytes of the first documents for each byte that their tokens spell; None without documents: text is streamed.

    It is 1 for a byte-level tokenizer that normalizes nothing. Others drop, add or replace characters.
    """
    tokens = raw = 0
    for block in store.sequences(split).blocks(1 << 12, "length", "bytes"):
        tokens, raw = tokens + int(block["length"].sum()), raw + int(block["bytes"].sum())
        if tokens >= SPELT_TOKENS:
            break
    if not tokens:
        return None
    ids = store.rows(split)["tokens"]
    starts = range(0, tokens, BLOCK)
    spelt = sum(int(tokenizer.spelt_bytes[ids.read(start, min(start + BLOCK, tokens))].sum()) for start in starts)
    return raw / spelt


def _note_unread(documents: Table, tensors: TensorSection) -> None:
    """Count what windows inside of documents leave out in an epoch."""
    window, step = tensors.seq_len + 1, tensors.step
    fresh = min(step, window)  # tokens that each window after the first adds
    unread = short = total = 0
    for block in documents.blocks(BLOCK, "length"):
        lengths = block["length"]
        windows = np.maximum((lengths - window) // step + 1, 0)
        read = windows * fresh + (windows > 0) * (window - fresh)
        unread, short = unread + int((lengths - read).sum()), short + int((windows == 0).sum())
        total += int(lengths.sum())
    if unread:
        note(
            f"in an epoch, text.tensors.across_documents: false leaves {unread:,} of {total:,} train tokens "
            f"unread ({unread / total:.1%}): {short:,} of {len(documents):,} documents are shorter than a window of "
            f"{window:,} tokens, and of the others an end remains; a smaller seq_len, or reset_at_documents instead, "
            "reads more"
        )


def planned_task(section: TextSection, schemas: Mapping[str, Schema]) -> TextTask:
    """The task before there is a store."""
    return TextTask(tokenizer_of(schemas[""].attributes), section)


def _network(section: TextSection, vocabulary: int) -> Any:
    name, length = section.train.network, section.tensors.seq_len
    if ":" not in name:
        return Network(model_size(section, vocabulary), section.train.dropout)
    window = ((length,), torch.int64)
    documents = (window, window) if section.tensors.reset_at_documents else ((), ())
    return own_network(
        name,
        (window, *documents),
        lambda network: ((length, *network.tokens.weight[:vocabulary].shape[1:]),),
        vocabulary=vocabulary,
        context=length,
    )


class TextTask(Task):
    """A small GPT. The loss of a token is its cross-entropy in nats.

    ``raw_per_spelt`` are the bytes of documents for each byte that their tokens spell; where they are streamed,
    ``tally`` counts both.
    """

    def __init__(self, tokenizer: Tokenizer, section: TextSection) -> None:
        super().__init__()
        self.raw_per_spelt: float | None = None
        self.tokenizer = tokenizer
        self.section = section
        self.network = _network(section, tokenizer.size)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed cross-entropy of the targets, and their number."""
        hidden, targets = self._hidden(batch)
        return cross_entropy(hidden, self.network.tokens.weight, targets), (targets >= 0).sum()

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Losses by place in the window (seq_len,), targets there, and the count of each id among the targets."""
        hidden, targets = self._hidden(batch)
        losses = doubles(token_losses(hidden, self.network.tokens.weight, targets))
        return {
            "loss_by_place": losses.view(-1, batch["targets"].shape[1]).sum(0),
            "targets_by_place": (batch["targets"] >= 0).sum(0),
            "counts": torch.bincount(targets[targets >= 0], minlength=self.tokenizer.size),
        }

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Mean loss in nats per token, perplexity, and bits per byte, which is independent of the tokenizer.

        Bits per byte are the summed loss by the raw bytes of the evaluated targets: those that their tokens spell,
        times ``raw_per_spelt``, as no table of tokens knows what a tokenizer has dropped, added or replaced. With each,
        as ``..._frequencies``, the value for a model that knows only how frequent each id is in this split: the
        entropy of the ids.
        """
        counts = sums["counts"].double()
        tokens, ratio = float(counts.sum()), self.raw_per_spelt
        if self.tally is not None and self.tally.spelt:
            ratio = self.tally.bytes / self.tally.spelt
        spelt = float(counts.cpu() @ torch.from_numpy(self.tokenizer.spelt_bytes).double())
        share = counts[counts > 0] / tokens
        figures = {}
        for name, loss in (
            ("", float(sums["loss_by_place"].sum()) / tokens),
            ("_frequencies", float(-(share * share.log()).sum())),
        ):
            figures[f"loss{name}"] = loss
            figures[f"perplexity{name}"] = math.exp(min(loss, 700.0))
            if ratio and spelt:
                figures[f"bits_per_byte{name}"] = loss * tokens / math.log(2) / (spelt * ratio)
        return {**figures, "tokens": tokens}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``loss_by_place``: mean loss by the number of preceding tokens in the window."""
        losses = sums["loss_by_place"] / sums["targets_by_place"].clamp(min=1)
        rows: list[dict[str, float | str]] = []
        edges = torch.linspace(0, len(losses), min(BINS, len(losses)) + 1).long().tolist()
        for start, stop in pairwise(edges):
            rows.append({"tokens_before": start + 1, "loss": round(float(losses[start:stop].mean()), 6)})
        return {"loss_by_place": rows}

    def works(self) -> dict[str, str]:
        """``sample``: generated text of at most ``train.sample_tokens`` tokens."""
        train = self.section.train
        return {"sample": self.write("", train.sample_tokens, seed=train.seed)} if train.sample_tokens else {}

    @torch.no_grad()
    def write(self, beginning: str, tokens: int, *, temperature: float = 0.8, seed: int = 0) -> str:
        """Continue ``beginning`` by at most ``tokens`` tokens; at ``temperature`` 0 takes the most likely."""
        begin, end = self.tokenizer.begin_id, self.tokenizer.end_id
        ids = self.tokenizer.encode(beginning)
        # A document begins with its own token, or after the end of another; without such a token, anywhere.
        before = ([] if begin is None else [begin]) + ids or [0 if end is None else end]
        end = begin if end is None else end
        generator = torch.Generator().manual_seed(seed)
        for _ in range(tokens):
            window = torch.tensor([before[-self.section.tensors.seq_len :]], device=self.device)
            scores = logits(self.network, self.network(window)[:, -1])[0].cpu()
            if temperature > 0:
                chosen = int(torch.multinomial((scores / temperature).softmax(0), 1, generator=generator))
            else:
                chosen = int(scores.argmax())
            if chosen == end:
                break
            before = [*before, chosen]
            ids.append(chosen)
        return self.tokenizer.decode(torch.tensor(ids).numpy())

    def _hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        hidden = self.network(batch["inputs"], batch.get("positions"), batch.get("segments"))
        return hidden.flatten(0, 1), batch["targets"].flatten()
