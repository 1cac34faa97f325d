"""The oracle: ``tokenizers`` checks documents, long ones at their beginning."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.text.tokens.engine import ReferenceEngine
from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer

MOST_BYTES, UNSURE = 32 << 10, 64
"""Of a longer document the beginning is compared, but for its last ids, which depend on what follows."""


class Oracle:
    """Compares ids with the reference's."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._reference = ReferenceEngine(tokenizer)

    def difference(self, text: bytes, ids: npt.NDArray[Any]) -> str | None:
        """How the ids of a document differ from the reference's, or None."""
        try:
            expected = np.array(self._reference.ids(text[:MOST_BYTES].decode(errors="ignore").encode()), np.int64)
        except EncodingError as error:
            return str(error)
        if len(text) > MOST_BYTES:
            expected, ids = expected[:-UNSURE], ids[: max(0, len(expected) - UNSURE)]
        if np.array_equal(expected, ids):
            return None
        common = min(len(expected), len(ids))
        place = int(np.argmax(np.append(expected[:common] != ids[:common], True)))
        return (
            f"{len(ids)} ids against {len(expected)} of tokenizers, different from token {place} on: "
            f"{ids[place : place + 5].tolist()} against {expected[place : place + 5].tolist()}; "
            f"the text begins {text[:60]!r}"
        )
