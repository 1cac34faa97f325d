"""How much text a tokenizer's normalizer makes of a byte, from its definition: the library needs 17 times as much."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

MOST_GROWTH = 32
"""Most bytes that a normalizer may make of one, not counting Unicode forms (at most 11) and letter case."""

_MOST_FORM = 64
"""Bytes of the longest Unicode form, at most; a table of SentencePiece's has the forms of its characters."""


class _Growth:
    """Most bytes that each character becomes in the steps that follow, per byte of it."""

    def __init__(self) -> None:
        self._other, self._named = 1.0, dict[str, float]()

    @property
    def most(self) -> float:
        return max([self._other, *self._named.values()])

    def of(self, text: str) -> float:
        """Most bytes that a text becomes."""
        return sum(len(character.encode()) * self._named.get(character, self._other) for character in text)

    def replace(self, pattern: str, content: str) -> None:
        """Before the other steps, each ``pattern`` becomes ``content``."""
        grown = self.of(content) / len(pattern.encode())
        for character in pattern:
            self._named[character] = max(grown, self._named.get(character, self._other))

    def insert(self, content: str) -> None:
        """Before the other steps, ``content`` may come before any character."""
        grown = self.of(content)
        self._other += grown
        self._named = {character: most + grown for character, most in self._named.items()}


def most_growth(normalizer: Mapping[str, Any] | None) -> float:
    """A bound of the bytes that the normalizer of a ``tokenizer.json`` makes of one, but for Unicode forms and case."""
    growth = _Growth()
    for step in reversed(list(_steps([normalizer] if normalizer else []))):
        if step["type"] == "Replace" and step["pattern"].get("String"):
            growth.replace(step["pattern"]["String"], step["content"])
        elif step["type"] == "Replace":
            growth.insert(step["content"])
        elif step["type"] == "Prepend":
            growth.insert(step["prepend"])
        elif step["type"] == "Precompiled":
            forms = base64.b64decode(step["precompiled_charsmap"] or "")
            forms = forms[4 + int.from_bytes(forms[:4], "little") :]
            longest = max(forms.split(b"\0"), key=len)
            if len(longest) > _MOST_FORM:
                growth.insert(longest.decode(errors="replace"))
    return growth.most


def _steps(normalizers: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    for normalizer in normalizers:
        if normalizer["type"] == "Sequence":
            yield from _steps(normalizer["normalizers"])
        else:
            yield normalizer
