"""Pictures of text stores: documents cut into tokens; lengths, and the text of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from outofcore.domains.gallery import Distribution, Passage, Picture, binned, column, spread
from outofcore.domains.text.schema import tokenizer_of
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.store.reader import Store

DOCUMENTS, TOKENS = 3, 60
COUNTED_TOKENS = 1 << 20
COMMONEST = 20


def pictures(store: Store) -> Sequence[Picture | Passage]:
    """Tokens from the middle of documents spread over the store."""
    tokenizer = tokenizer_of(store.attributes)
    passages = []
    for split, number, start, length in spread(store, DOCUMENTS):
        first = max(length - TOKENS, 0) // 2
        last = min(first + TOKENS, length)
        ids = store.rows(split)["tokens"].read(start + first, start + last)
        size = int(store.sequences(split)["bytes"].read(number, number + 1)[0])
        title = f"Document {number:,} of {split}: {size:,} bytes, {length:,} tokens, of which {first:,} to {last:,}"
        passages.append(Passage(title, pieces(tokenizer, ids)))
    return passages


def distributions(store: Store) -> Sequence[Distribution]:
    """Document lengths in powers of two, bytes per token, and the most frequent tokens."""
    sizes, lengths = column(store, "bytes").astype(np.int64), column(store, "length").astype(np.int64)
    doublings = np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    low, counts = int(doublings.min()), np.bincount(doublings - int(doublings.min()))
    labels = tuple(f"{2 ** (low + place):,}" for place in range(len(counts)))
    return [
        Distribution("Length of the documents", "bytes, or up to twice", "documents", labels, tuple(counts.tolist())),
        binned("Bytes per token", "bytes per token", "documents", sizes / np.maximum(lengths, 1)),
        _commonest(store),
    ]


def pieces(tokenizer: Tokenizer, ids: npt.NDArray[np.integer]) -> tuple[str, ...]:
    """The text of ids, one piece per id; a character of several tokens is in the piece of the last."""
    parts, shown = [], ""
    for stop in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:stop]).rstrip("\N{REPLACEMENT CHARACTER}")
        parts.append(text[len(shown) :])
        shown = text
    return tuple(parts)


def _commonest(store: Store) -> Distribution:
    """The most frequent tokens among the first million of the first non-empty split."""
    tokenizer = tokenizer_of(store.attributes)
    split = next(split for split in store.splits if len(store.rows(split)))
    ids = store.rows(split)["tokens"].read(0, min(COUNTED_TOKENS, len(store.rows(split))))
    counts = np.bincount(ids)
    order = np.argsort(-counts, kind="stable")[:COMMONEST]
    order = order[counts[order] > 0]
    labels = tuple(_shown(tokenizer.decode(order[place : place + 1])) for place in range(len(order)))
    title = f"The commonest tokens among the first {len(ids):,}"
    return Distribution(title, "token", "times", labels, tuple(counts[order].tolist()))


def _shown(token: str) -> str:
    return token.replace(" ", "␣").replace("\n", "⏎").replace("\r", "␍").replace("\t", "⇥") or "∅"
