"""Generate a small text sample from a grammar: learnable, with oddities of real files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import zstandard

DOCUMENTS = 600

_PEOPLE = ("the miller", "an old sailor", "Ada", "the astronomer", "my neighbour", "Ibrahim", "the youngest sister")
_VERBS = ("counted", "mended", "carried home", "forgot", "painted", "sold", "dreamt of", "weighed")
_THINGS = ("lamp", "letter", "bridge", "orchard", "clock", "boat", "violin", "map", "loaf of bread", "telescope")
_KINDS = ("green", "broken", "very small", "borrowed", "unfinished", "heavy", "silver", "half-empty")
_WHEN = ("at dawn", "before the rain came", "on market day", "in the winter of 1911", "twice", "after supper", "slowly")
_WHY = (
    "because nobody else would",
    "and told no one",
    "so the children laughed",
    "though it was late",
    "while the kettle sang",
)
_SAID = ("It won't do.", "We'll see about that!", "Isn't it strange?", "They're 3 for 2.50, you know.")


def write_sample(folder: Path, generator: np.random.Generator) -> None:
    """Write plain texts with two kinds of newlines, JSON lines, a duplicate and invalid bytes to an empty folder."""
    stories = [_story(generator) for _ in range(DOCUMENTS)]
    lines = [json.dumps({"id": number, "text": story}) for number, story in enumerate(stories[40:])]
    lines.insert(100, lines[7])
    lines.insert(200, json.dumps({"id": None, "title": "a line without a text"}))
    content = "".join(line + "\n" for line in lines).encode()
    (folder / "stories.jsonl.zst").write_bytes(zstandard.ZstdCompressor(level=3, write_checksum=True).compress(content))
    for number, story in enumerate(stories[:40]):
        (folder / f"letter{number + 1}.txt").write_text(story, encoding="utf-8", newline="\n")
    marked = ("\ufeff" + "\n\n".join(stories[40:60])).replace("\n", "\r\n")
    (folder / "from_windows.txt").write_bytes(marked.encode())
    (folder / "not_text.txt").write_bytes(b"This was written in Latin-1: caf\xe9, na\xefve.\n")


def _story(generator: np.random.Generator) -> str:
    def pick(options: tuple[str, ...]) -> str:
        return options[int(generator.integers(len(options)))]

    def sentence() -> str:
        thing = f"{pick(('the', 'a', 'his', 'her'))} {pick(_KINDS)} {pick(_THINGS)}"
        words = f"{pick(_PEOPLE)} {pick(_VERBS)} {thing} {pick(_WHEN)}"
        if generator.integers(3) == 0:
            words += f", {pick(_WHY)}"
        if generator.integers(6) == 0:
            words += f". \u201c{pick(_SAID)}\u201d"
        return words[0].upper() + words[1:] + ("" if words.endswith("\u201d") else ".")

    paragraphs = [
        " ".join(sentence() for _ in range(int(generator.integers(2, 7)))) for _ in range(int(generator.integers(1, 6)))
    ]
    return "\n\n".join(paragraphs) + "\n"
