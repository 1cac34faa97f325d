"""The oracle: ``tokenizers`` checks documents, whole or as far as its memory allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.text.tokens.cuts import Cutter
from outofcore.domains.text.tokens.engine import Engine, ReferenceEngine
from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer

# A document is compared up to a safe cut within the first of these; without one, whole up to the second, which takes
# half a second and about 100 MB of memory.
CUT_BYTES, WHOLE_BYTES = 32 << 10, 512 << 10


class Oracle:
    """Compares ids with the reference's; ``engine`` tokenizes the context of a piece and tests cuts."""

    def __init__(self, tokenizer: Tokenizer, engine: Engine) -> None:
        self._engine = engine
        self._reference = ReferenceEngine(tokenizer)
        self._cutter = Cutter(engine.ids, safe=tokenizer.cuttable)

    def reach(self, text: bytes) -> int:
        """Bytes of a text to compare; 0 if there is no safe cut and the text is too long to be read whole."""
        if len(text) <= CUT_BYTES:
            return len(text)
        cut = self._cutter.last(text, 0, CUT_BYTES)
        if cut is None and len(text) > WHOLE_BYTES:
            cut = self._cutter.last(text, CUT_BYTES, WHOLE_BYTES) or 0
        return len(text) if cut is None else cut

    def difference(self, text: bytes, ids: npt.NDArray[Any], before: bytes = b"") -> str | None:
        """How the ids of a document or piece differ from the reference's, or None.

        ``text`` is UTF-8, ``ids`` are the engine's. ``before`` is the end of the previous piece: the reference gets
        both joined, so that the cut between them is checked.
        """
        compared = self.reach(text)
        try:
            expected = np.array(self._reference.ids(before + text[:compared]), np.int64)
        except EncodingError as error:
            return str(error)
        actual = np.concatenate([np.array(self._engine.ids(before), np.int64), ids.astype(np.int64)])
        if compared < len(text):
            actual = actual[: len(expected)]
        if np.array_equal(expected, actual):
            return None
        common = min(len(expected), len(actual))
        place = int(np.argmax(np.append(expected[:common] != actual[:common], True)))
        return (
            f"{len(actual)} ids against {len(expected)} of tokenizers, different from token {place} on: "
            f"{actual[place : place + 5].tolist()} against {expected[place : place + 5].tolist()}; "
            f"the text begins {text[:60]!r}"
        )
