"""The made-up sample, converted by the real driver, read by the real loader."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import zarr

import outofcore
from outofcore.cli import app
from outofcore.conversion.estimate import Estimate, estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.registry import get_domain
from outofcore.domains.text import DOMAIN, source
from outofcore.domains.text.documents import reading
from outofcore.domains.text.params import TensorSection, TextSection
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.errors import SpaceError
from outofcore.inspect.store import card_of
from outofcore.loading.loader import loader
from outofcore.raw.files import find_files
from outofcore.store.reader import open_store
from tests.domains.text.families import FAMILIES


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[TextSection, list[Any], Path]:
    folder = tmp_path_factory.mktemp("text")
    raw = folder / "raw"
    raw.mkdir()
    DOMAIN.sample(raw, np.random.default_rng(0))
    section = TextSection.model_validate(
        {
            "raw": str(raw),
            "tokenizer": {"vocab_size": 512, "path": str(folder / "text.json")},
            "store": {"chunk_rows": 256, "shard_rows": 4096},
            "tensors": {"seq_len": 32},
        }
    )
    files = find_files(raw, section.match, DOMAIN.suffixes, section="text")
    (folder / "text.json").write_text(make_tokenizer(section, files), encoding="utf-8")
    return section, files, folder


def run(prepared: tuple[TextSection, list[Any], Path], workers: int) -> Any:
    section, files, folder = prepared
    store = folder / f"{workers}.zarr"
    with open_executor("threads", workers) as executor:
        forecast = estimate(DOMAIN, section, files, executor)
    conversion = Conversion(DOMAIN, section, files, store, folder / "rejects.csv")
    outcome = conversion.run(
        forecast, executor=open_executor("threads", workers), workers=workers, watch=lambda *_: None
    )
    return open_store(store), outcome.figures


@pytest.fixture(scope="module")
def converted(prepared: tuple[TextSection, list[Any], Path]) -> Any:
    return run(prepared, 1)


def test_the_sample_becomes_a_store_whatever_the_number_of_workers(prepared, converted):
    store, figures = converted
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values())
    assert figures["rejected"] == {"duplicate": 1, "invalid_utf8": 1, "no_text": 1}
    assert figures["audited"] > 10
    assert figures["byte_order_marks"] == 1
    assert figures["estimate_bytes"] == pytest.approx(figures["bytes_store"], rel=0.01)
    again, _ = run(prepared, 3)
    assert again.digest == store.digest


def test_a_store_of_text_explains_itself(prepared, converted):
    store, figures = converted
    _, _, folder = prepared
    assert str(folder) not in str(store.attributes)
    sequences, rows = store.sequences("train").read(), store.rows("train")
    assert get_domain("text") is DOMAIN
    for number in (0, 7, len(sequences["start"]) - 1):
        start, length = int(sequences["start"][number]), int(sequences["length"][number])
        text = DOMAIN.draw(rows.read(start, start + length), store.attributes)
        assert text.endswith("<|endoftext|>")
        body = text.removesuffix("<|endoftext|>")
        assert len(body) == sequences["characters"][number]
        assert len(body.encode()) == sequences["bytes"][number]
    assert sum(figures["rows"].values()) <= figures["tokens"] + figures["accepted"] + 2000
    assert rows["tokens"].dtype == np.uint16


def test_a_conversion_stopped_inside_a_text_goes_on_with_the_same_bytes(
    prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for module in (reading, source):
        monkeypatch.setattr(module, "BLOCK_BYTES", 5000)
    section, _, _ = prepared
    settings = section.source.model_copy(update={"longest_document": 3_000})
    section = section.model_copy(update={"source": settings})
    raw = tmp_path / "raw"
    raw.mkdir()
    story = "".join(f"Sentence {number} of many, and one more. " for number in range(1500))
    for number in range(3):
        (raw / f"{number}.txt").write_text(story[number * 100 :])
    (raw / "3.txt").write_text(story)  # the first once more
    files = find_files(raw, section.match, DOMAIN.suffixes, section="text")

    def once(name: str, stop: int | None = None) -> Any:
        left = iter(range(10**9 if stop is None else stop))

        def watch(*_: int) -> None:
            if next(left, None) is None:
                message = "full"
                raise SpaceError(message)

        conversion = Conversion(DOMAIN, section, files, tmp_path / name / "text.zarr", tmp_path / name / "rejects.csv")
        return conversion.run(
            Estimate(0, 0, 0, 0),
            executor=open_executor("threads", 2),
            workers=2,
            watch=watch,
            checkpoint_seconds=0.0,
        )

    whole = once("whole")
    assert whole.figures["divisions"] > 30
    assert whole.figures["rejected"]["duplicate"] > 8  # the copy is not stored
    for stop in (5, 60):
        with pytest.raises(SpaceError):
            once(f"stopped{stop}", stop)
        again = once(f"stopped{stop}")
        assert again.resumed_units > 0
        assert again.seal.digest == whole.seal.digest


@pytest.mark.parametrize("seq_len", [64, 400])
def test_packed_windows_read_every_document(converted, seq_len):
    store, _ = converted
    tokens = zarr.open_array(f"{store.root}/train/tokens")[:].tolist()
    ends = np.cumsum(store.sequences("train")["length"].read()).tolist()
    documents = [tuple(tokens[start:stop]) for start, stop in zip([0, *ends], ends, strict=False)]
    reading = outofcore.reading(store, seq_len=seq_len, across_documents="best_fit", reset_at_documents=True)
    targets, parts, windows = [], set(), 0
    for batch in loader(store, "train", 8, tensors=reading):
        for inputs, following in zip(batch["inputs"].tolist(), batch["targets"].tolist(), strict=True):
            counted = [target for target in following if target != -100]
            targets, windows = targets + counted, windows + 1
            stops = [0, *(place + 1 for place, token in enumerate([inputs[0], *counted]) if token == reading.end)]
            parts |= {tuple([inputs[0], *counted][slice(*pair)]) for pair in pairwise(stops)}
    short = {document for document in documents if len(document) <= seq_len + 1}
    assert short <= parts
    assert len(short) > 2
    # Every token is a target once, but the first of a document with which a window begins.
    missing = Counter(tokens) - Counter(targets)
    assert not Counter(targets) - Counter(tokens)
    assert 0 < missing.total() <= min(windows, len(documents))
    assert missing <= Counter(document[0] for document in documents)


@pytest.mark.parametrize(("seq_len", "stride"), [(64, None), (64, 10), (64, 150), (2, None)])
def test_tokens_that_windows_inside_of_documents_leave_out_are_counted(
    prepared, converted, capsys, monkeypatch, seq_len, stride
):
    store, _ = converted
    tensors = {"seq_len": seq_len, "stride": stride, "across_documents": False}
    section = prepared[0].model_copy(update={"tensors": TensorSection(**tensors)})
    capsys.readouterr()
    DOMAIN.task(store, section)
    lengths = store.sequences("train")["length"].read().tolist()
    unread = short = 0
    for length in lengths:
        seen = np.zeros(length, bool)
        for start in range(0, length - seq_len, stride or seq_len):
            seen[start : start + seq_len + 1] = True
        unread += int((~seen).sum())
        short += length <= seq_len
    assert 0 < unread < sum(lengths)
    note = capsys.readouterr().err
    assert f"leaves {unread:,} of {sum(lengths):,} train tokens unread ({unread / sum(lengths):.1%}): " in note
    assert f"{short:,} of {len(lengths):,} documents are shorter than a window of {seq_len + 1:,} tokens" in note
    DOMAIN.task(store, prepared[0])
    assert not capsys.readouterr().err
    for name, value in {"is_initialized": True, "get_rank": 1}.items():
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    DOMAIN.task(store, section)
    assert not capsys.readouterr().err  # the first rank has said it


def test_info_has_the_characters_per_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [f"{number} \u00e9\u4e2d\U0001f600 a text of some words" for number in range(50)]
    (tmp_path / "raw.txt").write_text("|".join(texts), encoding="utf-8")
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=280, special_tokens=["<|endoftext|>"])
    outofcore.convert("text", tmp_path / "raw.txt", tmp_path / "a.zarr", tokenizer=tokenizer, source={"separator": "|"})
    expected = sum(map(len, texts)) / sum(len(tokenizer.encode(text).ids) + 1 for text in texts)
    card = card_of(open_store(tmp_path / "a.zarr"))
    assert card.ratios == {"characters_per_token": pytest.approx(expected, rel=1e-12)}
    capsys.readouterr()
    app(["info", str(tmp_path / "a.zarr")], standalone_mode=False)
    assert f"characters per token  {expected:.3g}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "noted"), [("Ж", 3), ("b", 0)], ids=["of another alphabet", "known"])
def test_a_note_counts_documents_with_unknown_tokens(tmp_path: Path, capsys, word: str, noted: int) -> None:
    FAMILIES["unigram"]().save(str(tmp_path / "tokenizer.json"))
    texts = [f"the cat {word} {number} " + "sat on a mat " * 20 for number in range(3)] + ["the cat"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    source = {"end_of_document": None}
    figures = outofcore.convert(
        "text", tmp_path / "a.jsonl", tmp_path / "a.zarr", tokenizer=tmp_path / "tokenizer.json", source=source
    )
    assert figures.get("with_unknown_tokens", 0) == noted
    assert ("3 of 4 documents have more than one unknown token" in capsys.readouterr().err) == bool(noted)


@pytest.mark.parametrize(("separator", "noted"), [("\\n\\n", True), ("\n\n", False)], ids=["letters", "line breaks"])
def test_a_note_says_that_a_separator_divides_no_file(tmp_path: Path, capsys, separator: str, noted: bool) -> None:
    (tmp_path / "raw").mkdir()
    for number in range(3):
        (tmp_path / f"raw/{number}.txt").write_text("".join(f"Part {line} of {number}.\n\n" for line in range(900)))
    settings = {"source": {"separator": separator, "longest_document": 5_000}, "tokenizer": {"vocab_size": 300}}
    outofcore.convert("text", tmp_path / "raw", tmp_path / "a.zarr", **settings)
    note = "text.source.separator '\\\\n\\\\n' divides no file: each is one document; in YAML, \\n is a line break in"
    assert (note in capsys.readouterr().err) == noted
