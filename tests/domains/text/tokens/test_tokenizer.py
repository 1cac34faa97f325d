"""A tokenizer as a value; given as a file, as GPT-2's files and as an object, against the library ``tokenizers``."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import ByteLevelBPETokenizer, models

import outofcore
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.domains.text.tokens.tokenizer import Tokenizer, load_tokenizer
from outofcore.errors import ParamsError
from tests.domains.text.conftest import PROSE


def test_a_tokenizer_is_a_value(tokenizer: Tokenizer):
    assert tokenizer.size == 400
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy == tokenizer
    assert copy.plain == tokenizer.plain


def test_ids_decode_to_their_text(tokenizer: Tokenizer):
    assert tokenizer.decode(np.array(tokenizer.encode(PROSE), np.uint16)) == PROSE
    assert tokenizer.decode(np.array([tokenizer.end_id])) == "<|endoftext|>"


def test_ids_take_two_bytes_as_long_as_they_fit(tokenizer: Tokenizer):
    assert tokenizer.dtype == "uint16"
    content = json.loads(tokenizer.json)
    for last, dtype in ((65_535, "uint16"), (65_536, "uint32")):
        content["model"]["vocab"]["one more"] = last
        assert Tokenizer(json.dumps(content), None).dtype == dtype


def test_what_is_added_around_a_text_is_left_out(tokenizer: Tokenizer):
    own = tokenizers.Tokenizer.from_str(tokenizer.json)
    own.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    own.enable_truncation(3)
    own.enable_padding(length=10)
    assert Tokenizer(own.to_str(), None).encode(PROSE) == tokenizer.encode(PROSE)


def section(path: Path, end: str | None = "<|endoftext|>") -> TextSection:
    return TextSection.model_validate(
        {"raw": "raw", "tokenizer": {"path": str(path)}, "source": {"end_of_document": end}}
    )


def test_what_cannot_be_loaded_is_named(tokenizer_path: Path, tmp_path: Path):
    with pytest.raises(ParamsError, match=r"no tokenizer at .*absent.json; make it with 'dvc repro tokenizer'"):
        load_tokenizer(section(tmp_path / "absent.json"))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ParamsError, match=r"expected a tokenizer.json"):
        load_tokenizer(section(tmp_path / "other.json"))
    (tmp_path / "tokenizer.model").write_bytes(b"\n\x0e\n\x05<unk>\x15\0\0\0\x80\xc3")
    for given in (tmp_path / "tokenizer.model", tmp_path):
        with pytest.raises(ParamsError, match=r"\.path: .*SentencePiece; save it as tokenizer.json"):
            load_tokenizer(section(given))
        settings = {"raw": "raw", "tokenizer": {"kind": "file", "given": str(given)}}
        with pytest.raises(ParamsError, match=r"\.given: .*SentencePiece; save it as tokenizer.json"):
            make_tokenizer(TextSection.model_validate(settings), ())
    with pytest.raises(ParamsError, match=r"text.source.end_of_document: the tokenizer has no token '</s>'"):
        load_tokenizer(section(tokenizer_path, "</s>"))
    assert load_tokenizer(section(tokenizer_path, None)).end_id is None


@pytest.mark.parametrize("last", [None, 2**24, 2**32 - 1])
def test_ids_that_no_table_can_hold_are_refused(tokenizer: Tokenizer, tmp_path: Path, last: int | None):
    """A file of a few kilobytes states any id, and tables have a row for each: 32 GiB of them."""
    content = json.loads(tokenizer.json)
    if last is None:
        content |= {"added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    else:
        content["model"]["vocab"]["one more"] = last
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    got = "none" if last is None else f"one of {last:,}"
    with pytest.raises(ParamsError, match=rf"expected .* with ids from 0 to at most 16,777,215, got {got}"):
        load_tokenizer(section(tmp_path, None))


SPECIAL = ["<unk>", "<s>", "</s>", "[X]"]


def spelling(kind: str) -> tokenizers.Tokenizer:
    """A model that has the special tokens among its own pieces."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz <>/[]X"))
    if kind == "unigram":
        file = tokenizers.Tokenizer(
            models.Unigram([(token, 0.0) for token in SPECIAL] + [(c, -5.0) for c in letters], 0)
        )
    else:
        merges = [(token[:size], token[size]) for token in SPECIAL for size in range(1, len(token))]
        words = dict.fromkeys([*SPECIAL, *letters, *("".join(pair) for pair in merges)])
        file = tokenizers.Tokenizer(models.BPE({word: n for n, word in enumerate(words)}, merges, unk_token="<unk>"))
    file.add_special_tokens(SPECIAL)
    return file


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize(("end", "begin"), [("</s>", "<s>"), ("</s>", None), (None, None)])
def test_every_special_token_in_a_text_is_text(kind: str, end: str | None, begin: str | None):
    file = spelling(kind)
    tokenizer = Tokenizer(file.to_str(), end, begin)
    for token in SPECIAL:
        ids = tokenizer.encode(f"a {token} b")
        assert not set(ids) & {file.token_to_id(special) for special in SPECIAL}
        assert "".join(file.id_to_token(number) for number in ids) == f"a {token} b"
    # What the model does not know has the id of the unknown token, whatever else the text spells.
    for text in ("a ? b", "a ? <s>"):
        assert tokenizer.encode(text).count(file.token_to_id("<unk>")) == 1


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


@pytest.mark.parametrize("form", ["folder", "path", "byte-level object", "mapping", "file", "object"])
def test_a_tokenizer_is_taken_in_every_form(form: str, folder: Path, raw: Path, tmp_path: Path):
    given = {"folder": str(folder), "path": folder, "mapping": {"path": folder}}.get(form)
    if form == "byte-level object":
        given = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    elif given is None:
        outofcore.train_tokenizer(raw, file := tmp_path / "tokenizer.json", kind="gpt2", given=folder)
        given = file if form == "file" else tokenizers.Tokenizer.from_file(str(file))
    splits = {"val": 0, "test": 0}
    outofcore.convert("text", raw, tmp_path / "a.zarr", tokenizer=given, splits=splits)
    assert stored(tmp_path / "a.zarr") == ids_of(folder)
    batches = outofcore.stream("text", raw, tokenizer=given, seq_len=16, batch_size=4, splits=splits, shuffle=False)
    with batches:
        streamed = next(iter(batches))["inputs"]
    reading = outofcore.reading(tmp_path / "a.zarr", seq_len=16)
    with outofcore.loader(tmp_path / "a.zarr", "train", 4, tensors=reading, shuffle=False) as loaded:
        assert streamed.tolist() == next(iter(loaded))["inputs"].tolist()


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
