"""A user's texts, as files and as a dataset."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outofcore

WORDS = ["sea", "ship", "sail", "storm", "étoile", "harbour,", "wind", "rope", "17", "knots;", "anchor\n\n", "春眠"]


def text_of(number: int) -> str:
    return f"{number}: " + " ".join(WORDS[(number * each * each) % len(WORDS)] for each in range(20 + number % 50))


TEXTS = [text_of(number) for number in range(240)]


def write_corpus(folder: Path) -> Path:
    """The texts in their order: plain files, a folder, compressed lines."""
    (folder / "b").mkdir(parents=True)
    for number, text in enumerate(TEXTS[:20]):
        (folder / f"a{number}.txt").write_text(text, encoding="utf-8", newline="")
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(TEXTS[20:])]
    (folder / "b" / "1.jsonl").write_text("\n".join(lines[:100]), encoding="utf-8")
    (folder / "b" / "2.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[100:]).encode()))
    return folder


class Records:
    """A dataset that gives mappings, anew in each iteration, and counts them."""

    def __init__(self, texts: Any, column: str = "text") -> None:
        self.texts, self.column, self.given = texts, column, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, text in enumerate(self.texts):
            self.given += 1
            yield {"id": number, self.column: text}


class Endless:
    def __iter__(self) -> Iterator[str]:
        return map(text_of, itertools.count())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("user") / "corpus")


@pytest.fixture(scope="module")
def tokenizer(corpus: Path) -> Path:
    path = corpus.parent / "tokenizer.json"
    assert outofcore.train_tokenizer(corpus, path, vocab_size=400)["vocabulary"] == 400
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without params.yaml."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
