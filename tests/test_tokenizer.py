"""Tokenizers of raw text, as a user's program and the command line ask for them."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from typer.testing import CliRunner

import outofcore
from outofcore.cli import app
from outofcore.domains.text.tokens import learn
from outofcore.errors import OutOfCoreError, ParamsError, RawInputError
from outofcore.params import load_params
from tests.corpus import TEXTS, Endless, Records, corpus, elsewhere, tokenizer

__all__ = ["corpus", "elsewhere", "tokenizer"]  # fixtures


def test_a_tokenizer_is_trained_outside_of_a_project(
    corpus: Path, tokenizer: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = outofcore.train_tokenizer(corpus, "mine/tokenizer.json", vocab_size=400)
    assert Path("mine/tokenizer.json").read_bytes() == tokenizer.read_bytes()
    assert outofcore.train_tokenizer(corpus, "mine/tokenizer.json", tokenizer={"vocab_size": 400}) == trained
    reference = tokenizers.Tokenizer.from_file("mine/tokenizer.json")
    assert reference.decode(reference.encode(TEXTS[7]).ids) == TEXTS[7]
    of_records = outofcore.train_tokenizer(Records(TEXTS, "body"), "records.json", column="body", vocab_size=300)
    assert of_records["vocabulary"] == 300
    assert outofcore.train_tokenizer(list(Records(TEXTS)), "again.json", vocab_size=300) == of_records
    assert {path.name for path in elsewhere.iterdir()} == {"mine", "records.json", "again.json"}
    monkeypatch.setattr(learn, "SAMPLE_BYTES", 20_000)
    endless = Records(Endless())
    outofcore.train_tokenizer(endless, "again.json", vocab_size=300)
    assert 20_000 / 400 < endless.given < 40_000  # a block and the next


def test_a_tokenizer_that_the_settings_name_is_taken(corpus: Path, tokenizer: Path, elsewhere: Path) -> None:
    outofcore.train_tokenizer(corpus, "same.json", kind="file", given=str(tokenizer))
    assert json.loads((elsewhere / "same.json").read_text()) == json.loads(tokenizer.read_text())
    with pytest.raises(ParamsError, match=r"expected a folder with encoder.json and vocab.bpe"):
        outofcore.train_tokenizer(corpus, "gpt2.json", kind="gpt2", given=".")
    outofcore.train_tokenizer(corpus, "again.json", kind="file", given=tokenizer)
    assert (elsewhere / "again.json").read_bytes() == (elsewhere / "same.json").read_bytes()


@pytest.mark.parametrize("kind", ["file", "bpe"])  # whether the advice is followed in the order of its words, or not
def test_the_command_that_a_refusal_of_growing_text_names_is_accepted(kind: str, corpus: Path, elsewhere: Path) -> None:
    section: dict[str, Any] = {"raw": str(corpus), "grow": True}
    (elsewhere / "params.yaml").write_text(json.dumps({"text": section}))
    with pytest.raises(ParamsError, match=r"set kind: file") as refusal:
        load_params().section("text")
    command = re.findall(r"'outofcore (.*?)'", str(refusal.value))[0]
    section["tokenizer"] = {"kind": kind, "vocab_size": 400}
    (elsewhere / "params.yaml").write_text(json.dumps({"text": section}))
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0, done.output
    tokenizer = tokenizers.Tokenizer.from_file("data/tokenizers/given/tokenizer.json")
    assert tokenizer.get_vocab_size() == 400
    section["tokenizer"]["kind"] = "file"
    (elsewhere / "params.yaml").write_text(json.dumps({"text": section}))
    load_params().section("text")


def test_only_a_tokenizer_is_replaced(corpus: Path, elsewhere: Path) -> None:
    shutil.copytree(corpus, "texts")
    for file in ("texts/a1.txt", "texts", "texts/b/1.jsonl", "texts/b/2.jsonl.gz"):
        with pytest.raises(ParamsError, match=f"{file}: expected a new file, or a tokenizer.json to replace"):
            outofcore.train_tokenizer(corpus, file)
    assert (elsewhere / "texts" / "a1.txt").read_bytes().decode() == TEXTS[1]
    (elsewhere / "settings.json").write_text('{"model": "gpt", "messages": []}')
    with (elsewhere / "corpus.txt").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("settings.json", "corpus.txt"):
        with pytest.raises(ParamsError, match=f"{name}: expected a new file, or a tokenizer.json to replace"):
            outofcore.train_tokenizer(corpus, name)
    records = Records(TEXTS)
    with pytest.raises(OutOfCoreError, match=r"settings\.json"):
        outofcore.train_tokenizer(records, "settings.json/new.json")
    assert records.given == 0
    with pytest.raises(ParamsError, match="expected no setting 'path': it is the second argument"):
        outofcore.train_tokenizer(corpus, "new.json", path="other.json")
    with pytest.raises(ParamsError, match=r"unknown key text\.tokenizer\.vocab; did you mean"):
        outofcore.train_tokenizer(corpus, "new.json", vocab=5)
    with pytest.raises(RawInputError, match="found nothing at nowhere"):
        outofcore.train_tokenizer("nowhere", "new.json")


@pytest.mark.usefixtures("elsewhere")
def test_the_command_line_trains_one_and_converts_with_it(corpus: Path, tokenizer: Path) -> None:
    def call(*words: object, code: int = 0) -> Any:
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == code, done.output
        return done

    done = call("tokenizer", corpus, "mine.json", "-S", "vocab_size=400", "-S", "source.longest_document=65536")
    assert Path("mine.json").read_bytes() == tokenizer.read_bytes()
    assert json.loads(done.stdout)["vocabulary"] == 400
    assert done.stderr == ""
    shown = call("convert", "text", corpus, "text.zarr", "-S", "tokenizer=mine.json").stdout
    figures = json.loads(call("convert", "text", corpus, "text.zarr", "-S", "tokenizer=mine.json", "--json").stdout)
    tokens = outofcore.open_store("text.zarr").attributes["rows"]
    assert figures["rows"] == tokens
    assert re.search(rf"^train +{tokens['train']:,} ", shown, re.MULTILINE)
    assert figures["digest"] in shown
    assert outofcore.open_store("text.zarr").attributes["tokenizer"] == tokenizer.read_text(encoding="utf-8")
    assert "unknown key text.tokenizer.size" in call("tokenizer", corpus, "mine.json", "-S", "size=4", code=2).stderr
    assert "is no setting" in call("tokenizer", corpus, "mine.json", "-S", "params=x", code=2).stderr


def test_a_tokenizer_that_the_disk_does_not_read_is_still_one(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, encoding: str) -> str:
        del encoding
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    assert learn.is_tokenizer(tokenizer)
    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(OSError, match="Input/output error"):
        learn.is_tokenizer(tokenizer)
