from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import models

from outofcore.domains.text.params import TextSection
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
    (tmp_path / "llama.model").write_bytes(b"\n\x0e\n\x05<unk>\x15\0\0\0\x80\xc3")
    with pytest.raises(ParamsError, match=r"SentencePiece; save it as tokenizer.json"):
        load_tokenizer(section(tmp_path / "llama.model"))
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
