r"""Where a text may be cut so that the ids of the parts, end to end, are the ids of the whole.

A byte-level BPE first splits a text into pre-tokens by a regular expression and then merges bytes inside each of them.
So a cut is safe if it is a boundary of pre-tokens in any context, and if the left part
alone is split as it is in the whole. The expressions of GPT-2, cl100k (Llama 3), Qwen and o200k share three properties:

1. They have no look-behind, and their alternatives together match any character. Matching continues at the end of the
   last match; so from a boundary on, the right part is split as if the text began there.
2. A run of letters or of numbers ends with the first character that is neither letter, number, mark nor apostrophe;
   no match holds a letter or number followed by such a character. No match at all holds a character that is not white
   space followed by a space: white space is at the front of a match, or is all of it, except for the line ends
   that may follow punctuation.
3. Whether a match may end after a letter, a number or other non-space is decided by the next character only in that it
   does or does not continue the run (or begin a contraction, by its apostrophe). There, the end of the text decides
   as such a character does. The one look-ahead, ``\s+(?!\S)``, belongs to white space.

Hence two kinds of places are boundaries in every context, whether or not the text continues:

* after a letter or number, before white space or punctuation other than an apostrophe;
* after any character that is not white space, before a space (U+0020).

The first kind depends on what is a letter, and libraries follow different versions of Unicode: only letters and
numbers of Unicode 3.2 and the punctuation listed here count. The second kind needs white space only, which is settled.

Not safe are the places that come to mind first, after a newline or a blank line: GPT-2 gives the last white space of a
run to a pre-token of its own, and the others glue newlines to the punctuation before them.

A BPE without merges and pre-tokens gives each character its own id: any place between two is safe.

What the argument does not cover, added tokens that are matched in the raw text and may contain a space, is
tested at each cut: a window around it must have the ids of its halves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import ucd_3_2_0

WINDOW_BYTES = 512
"""Bytes tokenized on each side of a cut to test it; longer than any added token."""

PUNCTUATION = '.,;:!?()[]{}<>"/\\|-_*+=#%&@~^`$«»…—–“”„、。〈〉《》「」『』【】〔〕！（），．：；？｛｝～'
_PLACE = re.compile(
    # Python's white space is a superset of Unicode's; U+180E once was white space.
    rf"(?s).*(?:[^\s\u180e\u200b](?= )|[^\W_](?=[ \t\r\n{re.escape(PUNCTUATION)}]))"
)
_STEP_BYTES = 4096

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    "qwen": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    "o200k": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    ),
}
"""The regular expressions for which the argument holds, as in published tokenizers."""


def cuttable(tokenizer: Mapping[str, Any]) -> bool:
    """Whether the argument above holds for a tokenizer, given the content of its ``tokenizer.json``."""
    model = tokenizer["model"]
    plain = (
        model.get("type") == "BPE"
        and not model.get("dropout")
        and not model.get("byte_fallback")
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
    )
    # NFC neither joins nor reorders characters across white space or punctuation.
    normalizer = tokenizer.get("normalizer") or {"type": "NFC"}
    added = tokenizer.get("added_tokens") or []
    short = all(token["special"] or len(token["content"].encode()) < WINDOW_BYTES // 2 for token in added)
    split = tokenizer.get("pre_tokenizer")
    alone = not (split or model.get("merges") or model.get("ignore_merges"))
    return bool(plain and short and normalizer["type"] == "NFC" and (alone or _splits_as_known(split)))


def _splits_as_known(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    if not pre_tokenizer:
        return False
    steps = list(pre_tokenizer.get("pretokenizers", [pre_tokenizer]))
    last = steps.pop()
    if last["type"] != "ByteLevel" or last.get("add_prefix_space", True):
        return False
    if last.get("use_regex", True):
        return not steps
    if len(steps) != 1 or steps[0]["type"] != "Split":
        return False
    step = steps[0]
    expression = step.get("pattern", {}).get("Regex")
    return step.get("behavior") == "Isolated" and not step.get("invert") and expression in EXPRESSIONS.values()


class Cutter:
    """Finds safe cuts; ``safe`` is :func:`cuttable`, ``ids`` tokenizes a short text to test a cut."""

    def __init__(self, ids: Callable[[bytes], list[int]], *, safe: bool) -> None:
        self._ids = ids
        self._safe = safe

    def last(self, text: bytes | bytearray, low: int, high: int) -> int | None:
        """The last safe cut ``low < cut <= high`` of valid UTF-8 with ``WINDOW_BYTES`` beyond ``high``, or None."""
        stop = high if self._safe else low
        while stop > low:
            # One more character is visible on the right; a step begins between characters.
            start = at_character(text, max(low, stop - _STEP_BYTES))
            cut = self._last_in_step(text, start, stop)
            if cut is not None and cut > low:
                return cut
            stop = start if start < stop else low
        return None

    def _last_in_step(self, text: bytes | bytearray, start: int, stop: int) -> int | None:
        piece = text[start : at_character(text, min(stop + 4, len(text)))].decode()
        while match := _PLACE.match(piece):
            # The match ends with the character before the cut.
            cut = start + len(piece[: match.end()].encode())
            if (
                cut <= stop
                and (piece[match.end()] == " " or _settled(piece[match.end() - 1]))
                and self.holds(text, cut)
            ):
                return cut
            piece = piece[: match.end()]
        return None

    def holds(self, text: bytes | bytearray, cut: int) -> bool:
        """Whether the ids of a window around a cut are those of its halves."""
        left = bytes(text[at_character(text, max(0, cut - WINDOW_BYTES)) : cut])
        right = bytes(text[cut : at_character(text, min(len(text), cut + WINDOW_BYTES))])
        return self._ids(left + right) == self._ids(left) + self._ids(right)


def _settled(character: str) -> bool:
    return ucd_3_2_0.category(character)[0] in "LN"


def at_character(text: bytes | bytearray, place: int) -> int:
    """The byte offset, moved back to the start of a character (or the end of the text)."""
    while 0 < place < len(text) and text[place] & 0xC0 == 0x80:
        place -= 1
    return place
