"""Tokenizers given as GPT-2's files and as objects, against the library ``tokenizers`` on the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer

import outofcore
from outofcore.errors import ParamsError
from tests.domains.text.conftest import PROSE

END = "<|endoftext|>"
TEXTS = [f"{number} {PROSE} é中😀 don't\n\n  <|endoftext|> end" for number in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``vocab.json`` and ``merges.txt``, as the library writes them."""
    path = tmp_path_factory.mktemp("gpt2_tokenizer")
    learnt = ByteLevelBPETokenizer()
    learnt.train_from_iterator(TEXTS, vocab_size=600, special_tokens=[END])
    learnt.save_model(str(path))
    return path


def ids_of(path: Path) -> list[list[int]]:
    """The ids of each text and of its end, by the library."""
    reference = ByteLevelBPETokenizer(str(path / "vocab.json"), str(path / "merges.txt"))
    end = reference.token_to_id(END)
    return sorted([*reference.encode(text).ids, end] for text in TEXTS)


def stored(store: Path) -> list[list[int]]:
    opened = outofcore.open_store(store)
    tokens, documents = opened.rows("train")["tokens"].read(), opened.sequences("train")
    parts = np.split(tokens, documents["start"].read()[1:])
    return sorted(part.tolist() for part in parts)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return tmp_path / "raw.jsonl"


@pytest.mark.parametrize("form", ["folder", "path", "object", "mapping"])
def test_a_tokenizer_is_taken_in_every_form(form: str, folder: Path, raw: Path, tmp_path: Path):
    given = {"folder": str(folder), "path": folder, "mapping": {"path": folder}}.get(form)
    if form == "object":
        given = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    splits = {"val": 0, "test": 0}
    outofcore.convert("text", raw, tmp_path / "a.zarr", tokenizer=given, splits=splits)
    assert stored(tmp_path / "a.zarr") == ids_of(folder)
    batches = outofcore.stream("text", raw, tokenizer=given, seq_len=16, batch_size=4, splits=splits, shuffle=False)
    with batches:
        streamed = next(iter(batches))["inputs"]
    reading = outofcore.reading(tmp_path / "a.zarr", seq_len=16)
    with outofcore.loader(tmp_path / "a.zarr", "train", 4, tensors=reading, shuffle=False) as loaded:
        assert streamed.tolist() == next(iter(loaded))["inputs"].tolist()


def test_an_object_of_the_library_is_taken(folder: Path, raw: Path, tmp_path: Path):
    file = tmp_path / "tokenizer.json"
    outofcore.train_tokenizer(raw, file, kind="gpt2", given=folder)
    for name, given in (("object", Tokenizer.from_file(str(file))), ("file", file)):
        outofcore.convert("text", raw, tmp_path / name, tokenizer=given, splits={"val": 0, "test": 0})
    assert stored(tmp_path / "object") == stored(tmp_path / "file") == ids_of(folder)


def test_a_tokenizer_json_is_preferred_to_the_files_beside_it(folder: Path, raw: Path, tmp_path: Path):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text((folder / name).read_text())
    outofcore.train_tokenizer(raw, tmp_path / "tokenizer.json", vocab_size=300)
    outofcore.convert("text", raw, tmp_path / "a.zarr", tokenizer=tmp_path)
    assert outofcore.open_store(tmp_path / "a.zarr").tokenizer.get_vocab_size() == 300


def test_files_of_a_tokenizer_that_splits_text_in_another_way_are_refused(folder: Path, raw: Path, tmp_path: Path):
    """Qwen's vocab.json and merges.txt look like GPT-2's, and give other ids."""
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(ParamsError, match=r"^[^\n]*expected GPT-2's vocab.json and merges.txt in [^\n]*$"):
        outofcore.convert("text", raw, tmp_path / "a.zarr", tokenizer=tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(ParamsError, match=r"its tokenizer_config.json says Qwen2Tokenizer; save its tokenizer.json"):
        outofcore.convert("text", raw, tmp_path / "a.zarr", tokenizer=tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    outofcore.convert("text", raw, tmp_path / "a.zarr", tokenizer=tmp_path)
