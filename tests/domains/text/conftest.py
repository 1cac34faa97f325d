"""A tokenizer learnt in a second, GPT-2's where it is at hand, and the conversion of raw files without a store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from outofcore.domains.text.convert import make_converter
from outofcore.domains.text.documents import reading, records
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.text.source import units
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.domains.units import UnitConverter
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate, Reject

PROSE = (
    "The quick brown fox jumps over the lazy dog, and it's 12:30 already! They'LL never know.\n\n"
    "  \u201cQuoted words\u201d \u2014 na\u00efve caf\u00e9s;\ttabs\r\nand lines\r\n\r\n    code = f(x, y)[0]\n"
    "\u6625\u7720\u4e0d\u89c9\u6653\uff0c\u5904\u5904\u95fb\u557c\u9e1f\u3002 \U0001f600\U0001f600 emoji 3.14159 "
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models gain nothing from threads, and lose much where other processes use the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE of 400 tokens."""
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "prose.txt").write_text(PROSE * 40, encoding="utf-8", newline="")
    section = TextSection.model_validate({"raw": str(folder), "tokenizer": {"vocab_size": 400}})
    files = find_files(folder, "**/*", SUFFIXES, section="text")
    path = folder / "text.json"
    path.write_text(make_tokenizer(section, files), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer(tokenizer_path: Path) -> Tokenizer:
    return Tokenizer(tokenizer_path.read_text(encoding="utf-8"), "<|endoftext|>")


@pytest.fixture(scope="session")
def gpt2_folder() -> Path:
    """A folder with GPT-2's encoder.json and vocab.bpe."""
    folder = Path(os.environ.get("OUTOFCORE_GPT2", "/nonexistent"))
    if not (folder / "encoder.json").is_file():
        pytest.skip("OUTOFCORE_GPT2 names no folder with GPT-2's encoder.json and vocab.bpe")
    return folder


@dataclass
class Converted:
    """What a conversion would store."""

    documents: list[list[int]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    columns: list[dict[str, int]] = field(default_factory=list)
    rejects: list[tuple[str, Reject]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    splits: list[str] = field(default_factory=list)
    found: int = 0
    audited: int = 0
    units: int = 0
    raw_bytes: int = 0

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for _, reject in self.rejects]


Convert = Callable[..., Converted]


@pytest.fixture
def section_of(tokenizer_path: Path) -> Callable[..., TextSection]:
    def make(raw: Path, **keys: Any) -> TextSection:
        tokenizer = {"path": str(tokenizer_path)} | keys.pop("tokenizer", {})
        return TextSection.model_validate({"raw": str(raw), "tokenizer": tokenizer, **keys})

    return make


@pytest.fixture
def convert(section_of: Callable[..., TextSection]) -> Convert:
    """Convert a file or folder without a store."""

    def run(raw: Path, one_in: int = 1, **keys: Any) -> Converted:
        section = section_of(raw, **keys)
        files = find_files(raw, section.match, SUFFIXES, section="text")
        converter = UnitConverter(make_converter(section, AuditRate(one_in)), divided=None)
        whole = Converted()
        for unit in units(files, section):
            result = converter(unit)
            assert result.differences == ()
            assert not result.continues
            assert not result.unfinished
            assert result.found == len(result.keys) + len(result.rejects)
            assert len(result.rows["tokens"]) == result.sequences["length"].sum()
            stops = np.cumsum(result.sequences["length"])
            for number, stop in enumerate(stops.tolist()):
                tokens = result.rows["tokens"][stop - int(result.sequences["length"][number]) : stop].tolist()
                whole.documents.append(tokens)
                whole.keys.append(result.keys[number].tobytes())
                names = set(result.sequences) - {"length"}
                whole.columns.append({name: int(result.sequences[name][number]) for name in names})
            whole.splits += [] if result.split is None else result.split.tolist()
            rejects = sorted(result.rejects, key=lambda reject: (reject.file, reject.offset))
            whole.rejects += [(unit.places[reject.file][1], replace(reject, file=0)) for reject in rejects]
            for name, count in result.counts.items():
                whole.counts[name] = whole.counts.get(name, 0) + count
            for name, values in result.stored_counts.items():
                whole.counts[name] = whole.counts.get(name, 0) + int(values.sum())
            whole.found += result.found
            whole.audited += result.audited
            whole.raw_bytes += unit.raw_bytes
            whole.units += 1
        assert whole.found == len(whole.documents) + len(whole.rejects)
        assert whole.raw_bytes == sum(file.bytes for file in files)
        return whole

    return run


LIMIT = 150


def tokens_of(texts: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    return [[*tokenizer.encode(text), tokenizer.end_id] for text in texts]


def divided(text: str, limit: int = LIMIT) -> list[str]:
    """By the words of the page: at the last blank line of the second half, else line, else space, else character."""
    data, parts = text.encode(), []
    while len(data) > limit:
        half = data[:limit]
        ends = [match.end() for match in re.finditer(rb"\n\r?(?=\n)", half) if match.start() > limit // 2]
        ends = [end + 1 for end in ends] or [m.end() for m in re.finditer(rb"\n", half) if m.start() > limit // 2]
        ends = ends or [match.start() for match in re.finditer(rb" ", half) if match.start() > limit // 2]
        end = ends[-1] if ends else len(half.decode(errors="ignore").encode())
        parts.append(data[:end].decode())
        data = data[end:]
    return [*parts, data.decode()]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and bounds of a few hundred bytes."""
    monkeypatch.setattr(reading, "BLOCK_BYTES", 61)
    for module in (reading, records):
        monkeypatch.setattr(module, "RECORD_BYTES", 300)
