"""Published texts, against ``tokenizers`` on whole documents."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
import tokenizers
import zstandard

from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.raw.files import find_files

pytestmark = pytest.mark.data


def learn(raw: Path, folder: Path, **tokenizer) -> Path:
    section = TextSection.model_validate({"raw": str(raw), "tokenizer": tokenizer})
    path = folder / "text.json"
    path.write_text(make_tokenizer(section, find_files(raw, "**/*", SUFFIXES, section="text")), encoding="utf-8")
    return path


def test_all_of_shakespeare_with_gpt2(convert, real_data: Path, tmp_path: Path, gpt2_folder: Path):
    raw = real_data / "text" / "tinyshakespeare.txt"
    path = learn(raw, tmp_path, kind="gpt2", given=str(gpt2_folder))
    found = convert(raw, tokenizer={"path": str(path)}, source={"end_of_document": None})
    assert found.counts["tokens"] == 338_025


def test_novels_with_a_tokenizer_of_their_own(convert, real_data: Path, tmp_path: Path):
    raw = real_data / "text" / "novels.tar.zst"
    path = learn(raw, tmp_path, vocab_size=1024)
    found = convert(raw, tokenizer={"path": str(path)})
    assert len(found.documents) == 50
    assert found.counts["byte_order_marks"] == 50
    reference = tokenizers.Tokenizer.from_file(str(path))
    with (
        zstandard.ZstdDecompressor().stream_reader(raw.open("rb"), closefd=True) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        members = (entry for entry in archive if entry.isfile())
        for number, entry in enumerate(members):
            content = archive.extractfile(entry)
            assert content is not None
            if number in (3, 30):
                text = content.read().decode("utf-8-sig")
                assert found.documents[number] == [*reference.encode(text).ids, 0]


@pytest.mark.long
def test_poems_without_spaces(convert, real_data: Path, tmp_path: Path):
    raw = real_data / "text" / "poems.jsonl.zst"
    path = learn(raw, tmp_path, vocab_size=2048)
    found = convert(raw, tokenizer={"path": str(path)}, filters={"duplicates": "keep"})
    reference = tokenizers.Tokenizer.from_file(str(path))
    content = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw.read_bytes())).read()
    poems = [text for text in (json.loads(line)["text"] for line in content.decode().split("\n") if line) if text]
    assert found.found == 30_000
    assert found.reasons == ["too_short"] * (30_000 - len(poems))
    assert found.documents[::10] == [[*encoded.ids, 0] for encoded in reference.encode_batch(poems[::10])]
