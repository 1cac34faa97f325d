"""How much text a tokenizer's normalizer makes of a byte, from its definition: the library needs 17 times as much."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

MOST_GROWTH = 32
"""Most bytes that a normalizer may make of one, not counting Unicode forms (at most 11) and letter case."""

_MOST_FORM = 64
"""Bytes of the longest Unicode form, at most; a table of SentencePiece's has the forms of its characters."""


def most_growth(normalizer: Mapping[str, Any] | None) -> float:
    """A bound of the bytes that the normalizer of a ``tokenizer.json`` makes of one, but for Unicode forms and case."""
    # Most bytes that a byte of a character becomes in the steps that follow: of any character, and of some.
    other, named = 1.0, dict[str, float]()

    def most_bytes(text: str) -> float:
        return sum(len(character.encode()) * named.get(character, other) for character in text)

    for step in reversed(list(_steps([normalizer] if normalizer else []))):
        if step["type"] == "Replace" and (pattern := step["pattern"].get("String")):
            grown = most_bytes(step["content"]) / len(pattern.encode())
            named |= {character: max(grown, named.get(character, other)) for character in pattern}
        else:
            grown = most_bytes(_inserted(step))
            other, named = other + grown, {character: most + grown for character, most in named.items()}
    return max([other, *named.values()])


def _inserted(step: Mapping[str, Any]) -> str:
    """What a step may put before any character."""
    if step["type"] != "Precompiled":
        return str(step.get({"Replace": "content", "Prepend": "prepend"}.get(step["type"], ""), ""))
    forms = base64.b64decode(step["precompiled_charsmap"] or "")
    longest = max(forms[4 + int.from_bytes(forms[:4], "little") :].split(b"\0"), key=len)
    return longest.decode(errors="replace") if len(longest) > _MOST_FORM else ""


def _steps(normalizers: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    for normalizer in normalizers:
        if normalizer["type"] == "Sequence":
            yield from _steps(normalizer["normalizers"])
        else:
            yield normalizer
