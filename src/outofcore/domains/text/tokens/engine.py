"""The engine: ``gigatoken``, a hundred times as fast as ``tokenizers``, which is the fallback and checks documents."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any
from unicodedata import category, is_normalized, normalize

import gigatoken
import numpy as np
import numpy.typing as npt
import psutil

from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer, dumped, reporting_panics

Ids = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.int64]

# A batch call of the engine costs 0.13 ms but releases the GIL; a single call costs 1 us.
_SINGLE_BYTES = 32_768
# The engine caches every word. It is recreated when the process has grown by this much.
MEMORY_BYTES = 128 << 20
_CHECK_BYTES = 4 << 20

# Strings on which tokenizers are likely to differ, compared before an engine is used.
PROBES = (
    "Hello world, it's the 2nd of May 1987; they'LL pay 12345,67 to I'm-not-here.",
    "  two  spaces\n\n\n three newlines \r\n\r\n CRLF \t tab \x0b \x0c \x00 NUL  \n ",
    "\u00a0no-break\u2003em\u3000wide\u200bzero\u200dwidth\ufeff",
    "ångström e\u0301 n\u0303 ﬁ Å \u1e9b\u0323 한국어 \u1112\u1161\u11ab 日本語。中文，标点！ ไทย हिन्दी العربية",
    "😀👩‍👩‍👧‍👦🏳️‍🌈 ½ ² Ⅷ ٣ 𝟙𝓪 \U0010ffff \ue000",
    "<|endoftext|></s><s>[CLS] ▁x Ġy ' ' '' 's'S 'ſ",
    "x" * 300 + " " * 300 + "\n" * 300 + "7" * 300 + "=" * 300,
    "",
)
# Neighbours of an added token: it may need a word's end, or take white space with it.
SPACES = (" ", "  ", "\t", "\n", "\r\n", " \n ", "\u00a0", "\u3000")
SIDES = ("a", "Z", "7", "_", "é", "中", "\u0301", "'", ".", "-", "<", *SPACES)
MOST_OVERLAPS = 4096
# Added tokens of which every beginning is compared, and their characters; of more the probes would take all memory.
MOST_ADDED, MOST_CHARACTERS = 1 << 14, 128
CHECKED_BYTES, UNSURE = 32 << 10, 64
"""Of a longer document the beginning is compared, but for its last ids, which depend on what follows."""
# Contexts of a character: next to letters, digits, quotes, and marks of lower and higher combining classes.
CONTEXTS = "a{0}b {0}{0}1{0}2 e\u0323{0}\u0301 'S{0}'re a\u059a{0}\u0316b"
_UNKNOWN, _ALIKE, _DIFFERENT = range(3)
_PLANES = 0x30000  # code points of the planes that have letters


class ReferenceEngine:
    """``tokenizers`` itself."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def encode(self, texts: Sequence[bytes]) -> tuple[Ids, Lengths]:
        """Concatenated ids of texts (valid UTF-8), and their number per text."""
        encoded = [self.tokenizer.encode(text.decode()) for text in texts]
        lengths = np.array([len(ids) for ids in encoded], np.int64)
        return np.fromiter((number for ids in encoded for number in ids), np.uint32, int(lengths.sum())), lengths

    def difference(self, text: bytes, ids: npt.NDArray[Any]) -> str | None:
        """How the ids of a document, if long of its beginning, differ from those of ``tokenizers``, or None."""
        expected = np.array(self.tokenizer.encode(text[:CHECKED_BYTES].decode(errors="ignore")), np.int64)
        if len(text) > CHECKED_BYTES:
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


class FastEngine(ReferenceEngine):
    """``gigatoken``, one instance per thread, as an instance serves one call at a time.

    Libraries have the tables of different versions of Unicode: each character beyond ASCII is compared when it first
    occurs. Texts that have a character with other ids, and those at which the engine fails, are done by ``tokenizers``.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        content, end = json.loads(tokenizer.plain), tokenizer.end_of_document
        # In a text they are text; the others keep their ids.
        kept = [token for token in tokenizer.added_tokens if not token["special"] and token["content"] != end]
        self._json = dumped(content | {"added_tokens": kept})
        self._local = threading.local()
        self._normalizes = content.get("normalizer") is not None
        self._state = np.full(0x110000, _UNKNOWN, np.uint8)  # of each code point; the probes have those of ASCII

    def encode(self, texts: Sequence[bytes]) -> tuple[Ids, Lengths]:
        if not self._alike(b"".join(texts)):
            if len(texts) == 1:
                return super().encode(texts)
            encoded = [self.encode([text]) for text in texts]
            ids, lengths = zip(*encoded, strict=True)
            return np.concatenate(ids), np.concatenate(lengths)
        try:
            return self.attempt(texts)
        except EncodingError:
            self._local.__dict__.pop("instance", None)  # what a panic leaves of it is not used again
            return super().encode(texts)

    def _alike(self, text: bytes) -> bool:
        """Whether each character of a text beyond ASCII has the ids of ``tokenizers``."""
        data = np.frombuffer(text, np.uint8)
        # The bytes of all characters beyond ASCII, which are UTF-8 without the others, too.
        codes = np.frombuffer(data[data >= 0x80].tobytes().decode().encode("utf-32-le"), "<u4")
        for code in np.unique(codes[self._state[codes] == _UNKNOWN]).tolist():
            self._state[code] = _ALIKE if self._is_alike(chr(code)) else _DIFFERENT
        return bool((self._state[codes] == _ALIKE).all())

    def _is_alike(self, character: str) -> bool:
        """Compare a character in contexts; what one that Python's tables lack forms with others is not known."""
        text = CONTEXTS.format(character)
        if self._normalizes:
            if category(character) == "Cn":
                return False
            text += " ".join(_compositions().get(character, ()))
        try:
            return bool(self.attempt([text.encode()])[0].tolist() == self.tokenizer.encode(text))
        except EncodingError:
            return False

    def attempt(self, texts: Sequence[bytes]) -> tuple[Ids, Lengths]:
        """As :meth:`encode`, but raises EncodingError."""
        size = sum(map(len, texts))
        with reporting_panics(texts):
            instance = self._instance(size)
            if size <= _SINGLE_BYTES:
                parts = [instance.encode(text) for text in texts]
                ids = np.concatenate(parts) if parts else np.empty(0, np.uint32)
                return ids, np.array([len(part) for part in parts], np.int64)
            layout = instance.encode_batch(list(texts), parallel=False).layout
            offsets = np.asarray(layout.offsets.data, np.int64)
            return np.asarray(layout.content.data, np.uint32)[offsets[0] : offsets[-1]], np.diff(offsets)

    def _instance(self, size: int) -> Any:
        """The instance of this thread; recreated when its word cache takes too much memory."""
        local = self._local
        local.unchecked = getattr(local, "unchecked", 0) + size
        if local.unchecked > _CHECK_BYTES and hasattr(local, "instance"):
            local.unchecked = 0
            if resident_bytes() - local.resident > MEMORY_BYTES:
                del local.instance
        if not hasattr(local, "instance"):
            local.instance = gigatoken.Tokenizer.from_json(self._json)
            local.resident = resident_bytes()
        return local.instance


@lru_cache(maxsize=2)
def open_engine(tokenizer: Tokenizer) -> ReferenceEngine:
    """The fastest engine that gives the ids of ``tokenizers`` for this tokenizer."""
    added = _added(tokenizer)
    if len(added) > MOST_ADDED or any(len(token) > MOST_CHARACTERS for token in added):
        return ReferenceEngine(tokenizer)
    engine = FastEngine(tokenizer)
    try:
        alike = all(engine.attempt([text.encode()])[0].tolist() == tokenizer.encode(text) for text in probes(tokenizer))
    except EncodingError:
        alike = False
    return engine if alike else ReferenceEngine(tokenizer)


def probes(tokenizer: Tokenizer) -> Iterator[str]:
    """Texts on which an engine may differ: :data:`PROBES`, ASCII, and added tokens in contexts that flags name."""
    yield from PROBES
    yield from (CONTEXTS.format(chr(code)) for code in range(0x80))
    tokens = _added(tokenizer)
    for token in tokens:
        spellings = {token, token[:-1], token[1:], token * 2, token.lower(), token.upper(), token.title()}
        for text in sorted(spellings | {normalize(form, token) for form in ("NFD", "NFKC")}):
            yield from (text, f"a{text}", f"{text}a", f"a {text} a")
        for side in SIDES:
            yield from (side + token, token + side, side + token + side, f"a{side}{token}", f"{token}{side}a")
    for token, following in zip(tokens, [*tokens[1:], *tokens[:1]], strict=True):
        yield from (token + following, f"{token} {following}", f"{token}\n{following}")
    # Tokens that share characters: which one wins depends on the library.
    heads: dict[str, list[str]] = {}
    for token in tokens:
        for size in range(1, len(token)):
            heads.setdefault(token[:size], []).append(token)
    ends = ((token, token[-size:]) for token in tokens for size in range(1, len(token)))
    overlaps = {token + other[len(end) :] for token, end in ends for other in heads.get(end, ())}
    yield from sorted(overlaps)[:MOST_OVERLAPS]


@cache
def _compositions() -> dict[str, list[str]]:
    """The sequences of characters that Unicode composes to one, by the last of them."""
    by_last: dict[str, list[str]] = {}
    for character in map(chr, range(0x80, _PLANES)):
        if not is_normalized("NFD", character):
            form = normalize("NFD", character)
            by_last.setdefault(form[-1], []).append(form)
    return by_last


def _added(tokenizer: Tokenizer) -> list[str]:
    """The added tokens, and the one that ends a document."""
    added = [token["content"] for token in tokenizer.added_tokens]
    return list(dict.fromkeys(filter(None, [*added, tokenizer.end_of_document])))


def resident_bytes() -> int:
    """Resident memory of this process."""
    size: int = psutil.Process(os.getpid()).memory_info().rss
    return size
