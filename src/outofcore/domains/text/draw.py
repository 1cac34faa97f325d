"""Stored tokens as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outofcore.domains.text.schema import tokenizer_of
from outofcore.store.schema import Columns


def draw(rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
    """The text of the tokens, by the tokenizer in the store's attributes; without one, the ids."""
    if attributes is None:
        return " ".join(map(str, rows["tokens"].tolist()))
    return tokenizer_of(attributes).decode(rows["tokens"])
